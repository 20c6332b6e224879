#!/usr/bin/env python3
"""python_attempt.py: one attempt of one job on the node of python_agent.py.

Its ranks are children of a keeper, a process of this file (python_attempt.py FOLDER) that outlives
the agent: no exit code is lost, and only the parent of all that descends from the ranks can say
that nothing is left. plan.json in the folder says what to start, `record` what became of it.
"""

import asyncio
import contextlib
import ctypes
import json
import os
import pathlib
import select
import signal
import socket
import subprocess
import sys
import time

import keepstep_pb2 as P

NO_PLAN = {"first_rank": 0, "ranks": []}


def now_ms():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000000


def is_exiting(pid):
    """Whether it has begun to end, and only its files are still being closed."""
    stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    return bool(int(stat.rsplit(")", 1)[1].split()[6]) & 4)  # PF_EXITING


def keep(folder):
    """Starts the ranks of plan.json and waits for all that descends from them, as a subreaper. Each
    fact is a line of JSON: durable in `record`, then told on the socket `keeper`. The agent sends
    numbers of signals, for the ranks' groups; 9 is for everything, until nothing is left."""
    os.chdir(folder)
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    plan, record = json.loads(pathlib.Path("plan.json").read_text()), open("record", "ab", 0)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("keeper")
    listener.listen()
    ended, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    clients, ranks, stopping, killing, dying = [], {}, False, False, set()

    def say(**fact):
        line = json.dumps(fact).encode() + b"\n"
        record.write(line)
        os.fsync(record)
        for client in clients:
            with contextlib.suppress(OSError):
                client.sendall(line)

    os.close(1)  # now the agent may connect
    for index, rank in enumerate(plan["ranks"]):
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            with open(os.open(rank["output"], flags, 0o644), "ab") as output:
                child = subprocess.Popen(
                    rank["command"], env=rank["env"], cwd=plan["workdir"], umask=plan["umask"],
                    stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                    start_new_session=True)
            ranks[child.pid] = index, child
            say(rank=index, state=P.RANK_RUNNING, pid=child.pid)
        except OSError as error:
            say(rank=index, state=P.RANK_UNSTARTED, code=error.errno, ended_ms=now_ms())
    while True:
        try:
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                code = os.waitstatus_to_exitcode(found[1])
                if found[0] in ranks:
                    say(rank=ranks.pop(found[0])[0], code=abs(code), ended_ms=now_ms(),
                        after_stop=stopping and found[0] not in dying,
                        state=P.RANK_EXITED if code >= 0 else P.RANK_SIGNALED)
        except ChildProcessError:
            return say(empty=True)
        if killing:  # what these leave behind is our child in the next round
            for pid in pathlib.Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
                os.kill(int(pid), signal.SIGKILL)
        ready = select.select([listener, ended, *clients], [], [], .05 if killing else None)[0]
        if ended in ready:
            os.read(ended, 4096)
        if listener in ready:
            clients.append(listener.accept()[0])
            clients[-1].sendall(pathlib.Path("record").read_bytes())
        for client in [one for one in clients if one in ready]:
            words = []
            with contextlib.suppress(ConnectionError):  # an agent that ended with lines unread
                words = client.recv(4096).split()
            clients = clients if words else [one for one in clients if one is not client]
            for number in map(int, words):
                dying = dying if stopping else {pid for pid in ranks if is_exiting(pid)}
                stopping, killing = True, killing or number == signal.SIGKILL
                for pid in ranks:
                    os.killpg(pid, number)


def write_durably(path, what):
    with open(f"{path}.new", "w") as file:
        json.dump(what, file)
        file.flush()
        os.fsync(file)
    os.replace(f"{path}.new", path)
    folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


class Attempt:
    """One attempt of one job here: what is reported of it, and the link to its keeper."""

    def __init__(self, agent, job, number, plan):
        self.agent, self.plan, self.sequence, self.kill_at = agent, plan, 0, None
        self.reader = self.keeper = None
        self.folder, self.news = pathlib.Path(f"job-{job}/attempt-{number}"), asyncio.Event()
        self.ended_ms, self.pids = {}, {}
        self.report = P.AttemptReport(job=job, attempt=number, first_rank=plan["first_rank"],
                                      ranks=[P.RankReport() for _ in plan["ranks"]])

    def set(self, **what):
        for name, value in what.items():
            if getattr(self.report, name) != value:
                setattr(self.report, name, value)
                self.tell()

    def tell(self):
        self.news.set()
        self.agent.changed.set()

    def take(self, fact):
        """A fact of the keeper's, perhaps one that is known."""
        if "empty" in fact:
            return self.set(empty=True, unclean=False)
        index, rank = fact["rank"], self.report.ranks[fact["rank"]]
        if rank.state in (P.RANK_NONE, P.RANK_RUNNING):
            rank.state, rank.code = fact["state"], fact.get("code", 0)
            rank.after_stop, self.pids[index] = fact.get("after_stop", False), fact.get("pid")
            if "ended_ms" in fact:
                self.ended_ms[index] = fact["ended_ms"]
                rank.end_sequence = len(self.ended_ms)
                self.sequence = self.agent.sequence = self.agent.sequence + 1
                self.agent.say(P.RankEnds(sequence=self.sequence, report=self.told()))
            self.tell()

    def told(self):
        for index, ended_ms in self.ended_ms.items():
            self.report.ranks[index].phase_age_ms = now_ms() - ended_ms
        return self.report

    async def launch(self):
        """The plan is durable first: what has one is never begun again."""
        def begin():
            self.folder.mkdir(parents=True)
            write_durably(self.folder / "plan.json", self.plan)
            keeper = subprocess.Popen(
                [sys.executable, os.path.abspath(__file__), self.folder.resolve()],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True)
            keeper.stdout.read()  # it listens
            return keeper
        try:
            keeper = await asyncio.to_thread(begin)
        except OSError as error:
            return self.set(refused=True, empty=True, text=f"no keeper: {error}"[:191])
        await self.reach()
        await self.follow()
        await asyncio.to_thread(keeper.wait)

    async def reach(self):
        with contextlib.suppress(OSError):
            self.reader, self.keeper = await asyncio.open_unix_connection(self.folder / "keeper")
            self.set(shim_alive=True)

    async def follow(self):
        """What the keeper says, until it ends."""
        with contextlib.suppress(OSError):
            while self.keeper and (line := await self.reader.readline()):
                self.take(json.loads(line))
        self.keeper = None
        self.set(shim_alive=False)

    def processes(self):
        """Pids of those that carry the attempt's cookie."""
        found, mark = [], f"KEEPSTEP_COOKIE={self.plan['cookie']}".encode()
        for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                found += [int(path.parts[2])] if mark in path.read_bytes().split(b"\0") else []
        return found

    async def look(self, vouched):
        """Without a keeper: how a rank ended that is gone is nobody's to know; that nothing is left
        is no proof, unless a person vouches for the node."""
        left = await asyncio.to_thread(self.processes)
        for index, rank in enumerate(self.report.ranks):
            if rank.state == P.RANK_RUNNING and self.pids[index] not in left:
                self.take({"rank": index, "state": P.RANK_SIGNALED, "ended_ms": now_ms(),
                           "after_stop": self.report.stop_seen})
        if vouched and self.report.unclean and not left:
            self.set(empty=True, unclean=False)

    async def stop(self):
        """The stop signal, after the grace KILL; what is not proven empty 10 s later is unclean."""
        for number, more_s in ((signal.SIGTERM, 0), (signal.SIGKILL, 10)):
            if self.keeper is not None:
                self.keeper.write(b"%d\n" % number)
            for pid in [] if self.keeper else await asyncio.to_thread(self.processes):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
            while (left := self.kill_at + more_s - time.monotonic()) > 0 and not self.report.empty:
                self.news.clear()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self.news.wait(), left)
        self.set(unclean=not self.report.empty)


if __name__ == "__main__":
    keep(sys.argv[1])
