"""The controller as a process: how it starts, refuses to start, and ends."""

import os
import signal
import socket
import sqlite3
import subprocess
import tempfile
import time

from controller_lib import (ACK, BEAT, PROGRAM, WELCOME, Agent, Controller, check, field, frame,
                            free_port, hello, same)


def run(*flags):
    done = subprocess.run([PROGRAM, *flags], capture_output=True, text=True, timeout=20)
    return done.returncode, done.stdout + done.stderr


def records(database):
    with sqlite3.connect("file:%s?mode=ro" % database, uri=True) as connection:
        return connection.execute("select count(*) from journal").fetchone()[0]


def flags_and_configuration():
    status, text = run("--version")
    check(status == 0 and text.startswith("keepstep-controller "), text)
    status, text = run("--help")
    check(status == 0 and "--crash-at" in text, text)
    for bad in (["--nonsense"], ["word"], ["--crash-at", "during:1"], ["--log-level", "loud"]):
        status, text = run(*bad)
        same(status, 2, "status of %s" % bad)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "c.yaml")
        with open(path, "w") as file:
            file.write("listen:\n  agent: 127.0.0.1:1\nlimits:\n  agents: -4\n"
                       "log:\n  level: loud\nrendezvous:\n  port_low: 9\n")
        status, text = run("--config", path, "--check-config")
        same(status, 2, "a bad file")
        for part in (":2:", "listen.agent", ":4:", "limits.agents", ":6:", "log.level", ":8:"):
            check(part in text, "%r is not in: %s" % (part, text))
        with open(path, "w") as file:
            file.write("limits:\n  agents: 100\n")
        same(run("--config", path, "--check-config"), (0, "ok\n"), "a good file")
        with open(path, "w") as file:
            file.write("limits:\n  agents: 20000\n")
        status, text = run("--config", path, "--database", folder + "/k.db")
        check(status == 2 and "limits.agents 20000 needs" in text and "RLIMIT_NOFILE" in text, text)


def key_is_needed():
    with tempfile.TemporaryDirectory() as folder:
        base = ["--database", folder + "/k.db", "--listen-agents", "0.0.0.0:%d" % free_port()]
        status, text = run(*base)
        check(status == 2 and "key" in text and "--insecure" in text, text)
        check(not os.path.exists(folder + "/k.db"), "nothing may be written")
        key = folder + "/key"
        with open(key, "w") as file:
            file.write("00" * 32 + "\n")
        os.chmod(key, 0o644)
        status, text = run(*base, "--key-file", key)
        check(status == 5 and "chmod 600" in text, text)
        status, text = run(*base, "--key-file", folder + "/none")
        check(status == 5 and "none" in text, text)


def port_in_use():
    with Controller(start=False) as controller:
        with socket.socket() as other:
            other.bind(("127.0.0.1", controller.port))
            other.listen()
            controller.start()
            same(controller.wait_end(), 3, "status")
        text = controller.log_text()
        check("is in use" in text and "listen.agents" in text, text)
        same(records(controller.database), 0, "records of a start that failed")
        controller.start()
        controller.wait_ready()
        same(controller.stop(), 0, "status at the end")


def twice_on_one_database():
    with Controller() as first:
        agent = Agent(first.port)
        agent.send(hello("gpu-0000"))
        same(agent.take()[0], WELCOME, "its first records are durable")
        agent.close()
        first.wait_for(lambda: first.events("session-ended"), "the end of its session")
        with Controller(folder=first.folder, start=False) as second:
            second.start()
            same(second.wait_end(), 4, "status")
            failed = second.events("failed")
            check(len(failed) == 1 and "controller" in failed[0]["message"], str(failed))
            with sqlite3.connect("file:%s?mode=ro" % first.database, uri=True) as connection:
                terms = connection.execute(
                    "select count(*) from journal where kind = 'term_began'").fetchone()[0]
            same(terms, 1, "terms")
        agent = Agent(first.port)
        agent.send(hello("gpu-0001"))
        same(agent.take()[0], WELCOME, "the first one goes on")
        agent.close()


def clean_end_and_restart():
    with Controller() as controller:
        agent = Agent(controller.port)
        agent.send(hello("gpu-0001"))
        kind, fields = agent.take()
        same(kind, WELCOME, "answer")
        same(fields.get(1, 0), 0, "welcomed")
        cluster, term = fields[2], fields[3]
        same(controller.stop(), 0, "status")
        check(agent.is_ended(), "the session ends with the controller")
        controller.start()
        controller.wait_ready(2)
        replayed = controller.events("replayed")[-1]
        check(int(replayed["records"]) > 0, "the snapshot is read")
        agent = Agent(controller.port)
        agent.send(hello("gpu-0001", cluster=cluster.decode()))
        kind, fields = agent.take()
        same(fields[2], cluster, "cluster id")
        same(fields[3], term + 1, "a start is a new term")
        # A cluster id of somebody else is refused, with the reason.
        other = Agent(controller.port)
        other.send(hello("gpu-0002", cluster="0" * 32))
        kind, fields = other.take()
        same((kind, fields[1]), (WELCOME, 1), "wrong cluster")
        check(other.is_ended(), "… and ended")
        same(controller.stop(signal.SIGINT), 0, "status")
        status, text = run("--database", controller.database, "--rebuild")
        check(status == 0 and "folded again" in text, text)


def garbage():
    with Controller() as controller:
        good = Agent(controller.port)
        good.send(hello("gpu-0001"))
        same(good.take()[0], WELCOME, "answer")
        for name, data, reason in (
                ("garbage", b"GET / HTTP/1.1\r\n\r\n", "garbage"),
                ("a frame of 4 GiB", frame(1, b"", size=0xFFFFFFFF), "frame_too_long"),
                ("an old version", frame(1, b"", version=0), "old_version"),
                ("an unknown message", frame(199, b"abc"), "unexpected_message"),
                ("a message of the controller", frame(ACK, b""), "unexpected_message"),
                ("a hello that is none", frame(1, b"\xff" * 9), "invalid_message")):
            bad = Agent(controller.port)
            bad.send(data)
            check(bad.is_ended(), name + " must end the session")
            bad.close()
            controller.wait_for(
                lambda: controller.events("session-ended") and
                controller.events("session-ended")[-1]["reason"] == reason, name)
        half = Agent(controller.port)
        half.send(frame(1, b"x" * 50)[:20])
        half.close()
        controller.wait_for(
            lambda: controller.events("session-ended")[-1]["reason"] == "half_frame", "half frame")
        same(len(controller.events("session-ended")), 7, "one line each")
        for sequence in range(1, 30):  # beats are acknowledged: the good session never noticed
            good.send(frame(BEAT, field(1, sequence) + field(3, True)))
            time.sleep(0.1)
        kind, fields = good.take()
        while kind != ACK or fields.get(2, 0) < 2:
            kind, fields = good.take()
        # A flood of strangers costs a bounded number of lines.
        for _ in range(300):
            stranger = Agent(controller.port)
            stranger.send(b"x" * 12)
            stranger.close()
        again = Agent(controller.port)
        again.send(hello("gpu-0002"))
        same(again.take()[0], WELCOME, "after a flood")
        check(len(controller.events("session-ended")) < 200, "lines about strangers are rationed")


def is_ready(database):
    return any("checks passed" in message for _, _, message in end_state(database))


def until_ready(controller, starts):
    """An agent that says hello, and that its checks are well, until its node is ready or the
    controller has died."""
    until = time.monotonic() + 30
    while controller.process.poll() is None:
        check(time.monotonic() < until, "not ready\n" + controller.log_text())
        agent = None
        try:
            agent = Agent(controller.port)
            agent.send(hello("gpu-0001"))
            agent.send(frame(BEAT, field(1, 1) + field(3, True)))
            agent.socket.settimeout(0.1)
            while agent.take() is not None:
                pass
        except (ConnectionError, TimeoutError):
            pass
        finally:
            if agent is not None:
                agent.close()
        if len(controller.events("ready")) == starts and is_ready(controller.database):
            return


def end_state(database):
    """What must be the same however often the controller died: kinds and subjects of all facts
    but those that count starts and sessions."""
    with sqlite3.connect("file:%s?mode=ro" % database, uri=True) as connection:
        return connection.execute(
            "select kind, subject, message from journal where kind not like 'image%' and kind not "
            "in ('term_began', 'time_settled', 'snapshot') and kind not like 'snapshot%' "
            "order by seq").fetchall()


def dies_around_records():
    """--crash-at ends the process before, after or amid each of the first records. What is durable
    then is as it says, nothing has left that is not, and the next start ends where one that never
    died ends."""
    with Controller() as controller:
        until_ready(controller, 1)
        same(controller.stop(), 0, "status")
        wanted = end_state(controller.database)
        total = records(controller.database)
    for when in ("before", "after", "mid"):
        for number in range(1, total + 3):
            with Controller(start=False) as controller:
                controller.start("--crash-at", "%s:%d" % (when, number))
                until_ready(controller, 1)
                status = controller.stop()  # its snapshot has records too
                if status == 86:
                    count = records(controller.database)
                    check(count < number if when == "before" else count >= number,
                          "%s:%d left %d records" % (when, number, count))
                    starts = len(controller.events("ready")) + 1
                    controller.start()
                    until_ready(controller, starts)
                    status = controller.stop()
                elif number <= total:
                    check(when == "mid", "%s:%d did not die" % (when, number))
                same(status, 0, "status at the end")
                same(end_state(controller.database), wanted, "%s:%d" % (when, number))


def somebody_else_writes():
    """A second writer of the journal fences us off: we end, and nothing of ours is mixed in."""
    with Controller() as controller:
        agent = Agent(controller.port)
        agent.send(hello("gpu-0001"))
        agent.send(frame(BEAT, field(1, 1) + field(3, True)))
        same(agent.take()[0], WELCOME, "answer")
        controller.wait_for(lambda: "checks passed" in controller.log_text(), "the last record")
        with sqlite3.connect(controller.database) as connection:
            columns = ",".join(row[1] for row in
                               connection.execute("pragma table_info(journal)"))[len("seq,"):]
            connection.execute("insert into journal(%s) select %s from journal "
                               "order by seq desc limit 1" % (columns, columns))
        before = records(controller.database)
        other = Agent(controller.port)
        other.send(hello("gpu-0002"))
        other.send(frame(BEAT, field(1, 1) + field(3, True)))
        same(other.take(), None, "nothing leaves that is not durable")
        same(controller.wait_end(), 4, "status")
        check(controller.events("store-fenced"), controller.log_text())
        same(records(controller.database), before, "records")


def stopped_and_continued():
    """A controller that did not run has not waited: no agent is suspect for its own absence."""
    with Controller() as controller:
        agent = Agent(controller.port)
        agent.send(hello("gpu-0001"))
        agent.send(frame(BEAT, field(1, 1) + field(3, True)))
        same(agent.take()[0], WELCOME, "answer")

        def beats(first, seconds):
            for sequence in range(first, first + 2 * seconds):
                agent.send(frame(BEAT, field(1, sequence) + field(3, True)))
                time.sleep(0.5)
            return first + 2 * seconds

        following = beats(1, 2)
        controller.process.send_signal(signal.SIGSTOP)
        following = beats(following, 7)
        controller.process.send_signal(signal.SIGCONT)
        beats(following, 2)
        check("suspect" not in controller.log_text(), controller.log_text())
        # The test itself would see it: real silence makes it suspect.
        controller.wait_for(lambda: "suspect" in controller.log_text(), "suspicion")


def notifies():
    with tempfile.TemporaryDirectory() as folder:
        path = folder + "/notify"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind(path)
            manager.settimeout(10)
            os.environ.update({"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "400000"})
            try:
                with Controller() as controller:
                    check(manager.recv(4096).startswith(b"READY=1"), "ready")
                    begin = time.monotonic()
                    same([manager.recv(4096) for _ in range(4)], 4 * [b"WATCHDOG=1"], "watchdog")
                    check(time.monotonic() - begin >= 0.5, "every 0.2 s")
                    controller.process.send_signal(signal.SIGHUP)
                    controller.wait_for(lambda: controller.events("reloaded"), "reload")
                    same(controller.stop(), 0, "status")
                    last = manager.recv(4096)
                    while last == b"WATCHDOG=1":
                        last = manager.recv(4096)
                    same(last, b"STOPPING=1", "stopping")
            finally:
                del os.environ["NOTIFY_SOCKET"], os.environ["WATCHDOG_USEC"]


for test in (flags_and_configuration, key_is_needed, port_in_use, twice_on_one_database,
             clean_end_and_restart, garbage, dies_around_records, somebody_else_writes,
             stopped_and_continued, notifies):
    test()
    print("ok", test.__name__)
