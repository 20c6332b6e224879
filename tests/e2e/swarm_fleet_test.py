#!/usr/bin/env python3
# runs alone: it keeps both cores busy, and what it waits for is a fleet
"""A real controller with its database and 2,112 agents (build/tests/swarm): what users of other
systems saw go wrong in large clusters and what shows on the wire and in the loop. What is only
decided is judged in tests/unit/core/fleet_cases_test.c, at the same size. Limits here are such that
a design is over them and not a slow machine.

All of it lives in a network namespace of its own, where the kernel's counters count nothing else;
where none can be made they are not looked at. With sanitizers, which make all of it many times
slower, the fleet is one of 64."""

import contextlib
import fcntl
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

from cluster_lib import ALL, ROOT, build_dir, check, run_tests, same

sys.path.insert(0, str(ROOT))
from tests.bench.fleet import JOB, SHAPES, Fleet  # noqa: E402

INSIDE = "KEEPSTEP_SWARM_INSIDE"
PROGRAM = (build_dir() / "keepstep-controller").read_bytes()
SIZE = 64 if b"__asan" in PROGRAM or b"__tsan" in PROGRAM else 2112
SLOTS = SHAPES[SIZE][0] * SHAPES[SIZE][1]  # one for each stage of each replica
CHOSEN = (SLOTS // 20, SLOTS // 2, SLOTS - SLOTS // 5)  # slots: goes dark, stands still, ends
# How long the controller is away. The backoff of agents is at its ceiling of 5 s well before either
# is over: what they do at its return is the same.
AWAY_S = 60 if ALL else 15
BACK_S = 30
GRACE_S = 4   # Fleet's
LISTEN_S = 6
FROZEN_S = 8  # agents hear nothing for 6 s: all of them dial again meanwhile


# ---- the kernel's counters ----------------------------------------------------------------------


def enter_namespace():
    """Goes on in a network of its own, where that can be made."""
    if os.environ.get(INSIDE) is not None:
        return
    words = ["unshare", "--net"] if os.getuid() == 0 else ["unshare", "-r", "--net"]
    alone = shutil.which(words[0]) and subprocess.run([*words, "true"], capture_output=True,
                                                      check=False).returncode == 0
    command = [sys.executable, os.path.abspath(__file__)]
    os.execvpe((words if alone else command)[0], [*words, *command] if alone else command,
               {**os.environ, INSIDE: "1" if alone else "0"})


def loopback_up():
    """`ip link set lo up`."""
    get_flags, set_flags, up = 0x8913, 0x8914, 1
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        request = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(one, get_flags, request))[1]
        fcntl.ioctl(one, set_flags, struct.pack("16sh14x", b"lo", flags | up))


def counter(file, name):
    """One of TCP's counters of this network; 0 where it is shared with others."""
    if os.environ[INSIDE] != "1":
        return 0
    with open(f"/proc/net/{file}") as lines:
        rows = [line.split() for line in lines if line.startswith("Tcp")]
    for names, values in zip(rows[::2], rows[1::2]):
        if name in names:
            return int(values[names.index(name)])
    raise KeyError(name)


def accepted():
    """Connections that listeners here were given so far."""
    return counter("snmp", "PassiveOpens")


def dropped():
    """Connects that found a backlog full."""
    return counter("netstat", "ListenOverflows") + counter("netstat", "ListenDrops")


class Meter:
    """Samples of accepted() while it runs."""

    def __enter__(self):
        self.samples = [(time.monotonic(), accepted())]
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._sample)
        self.thread.start()
        return self

    def _sample(self):
        while not self.over.wait(0.05):
            self.samples.append((time.monotonic(), accepted()))

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()
        self.samples.append((time.monotonic(), accepted()))

    def total(self):
        return self.samples[-1][1] - self.samples[0][1]

    def most_in(self, seconds):
        """The most that came within so many seconds."""
        return max((later[1] - first[1] for i, first in enumerate(self.samples)
                    for later in self.samples[i:] if later[0] - first[0] <= seconds), default=0)


def count_connects(port, seconds):
    """Listens in the controller's place: takes each connection and closes it."""
    count, end = 0, time.monotonic() + seconds
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(4096)
        listener.settimeout(0.1)
        while time.monotonic() < end:
            with contextlib.suppress(TimeoutError):
                listener.accept()[0].close()
                count += 1
    return count


# ---- what is asked of the fleet -----------------------------------------------------------------


def lost(fleet):
    """Names of the nodes that were ever taken for lost."""
    return [row[0].removeprefix("node/") for row in
            fleet.rows("SELECT subject FROM journal WHERE kind = 'node_lost' ORDER BY seq")]


def wait_back(fleet, count):
    """Seconds until so many agents are in session."""
    begin = time.monotonic()
    fleet.until(lambda: fleet.stats()["sessions"] == count, BACK_S, f"{count} agents are back", 0.1)
    return time.monotonic() - begin


def spare(fleet):
    holders = set(fleet.holders())
    return next(name for name in (f"n{i + 1:05d}" for i in range(SIZE)) if name not in holders)


def affairs(fleet):
    """What an absence of the controller must not change: the job's state and attempt, on which nodes
    it is, and how often anything had to be recovered."""
    job = fleet.job(JOB)
    opened = fleet.rows("SELECT count(*) FROM journal WHERE kind IN ('recovery_opened', "
                        "'incident_opened', 'attempt_made')")[0][0]
    return job["state"], job["attempt"], fleet.holders(), opened


# ---- tests --------------------------------------------------------------------------------------


def all_at_once(fleet):
    """F6: all agents connect at once: no connect finds the backlog full, all are in soon"""
    begin = fleet.wait_for("begins", 10)["at_us"]
    took = (fleet.connected["last_us"] - begin) / 1e6
    print(f"         {SIZE:,} are in after {took:.2f} s")
    check(took < 15, f"they took {took:.1f} s")
    same(dropped(), 0, "connects that found the backlog full")
    same(fleet.stats()["sessions"], SIZE, "agents in session")


def starts_together(fleet):
    """E6: the nodes of a job are told to start one beside the other, and not in turn"""
    fleet.run_job()
    wave = fleet.wait_for("run", 30, attempt=0)
    took = (wave["last_us"] - wave["first_us"]) / 1e6
    print(f"         from the first to the last of {SLOTS:,} {took * 1000:.0f} ms")
    same(wave["agents"], SLOTS, "nodes that were told")
    check(took < 2, f"from the first start to the last one it took {took:.1f} s")


def controller_away(fleet):
    """A15, B14, F4: kill -9 of the controller, back after a while: nobody is harmed or judged"""
    before, step, gone = affairs(fleet), fleet.job(JOB)["step"], spare(fleet)
    fleet.kill_controller()
    begin = time.monotonic()
    fleet.fault(f"silence {gone}")
    time.sleep(AWAY_S - LISTEN_S - 3)  # an absence is a length of time: no event ends it
    rate = count_connects(fleet.agent_port, LISTEN_S) / LISTEN_S
    time.sleep(max(0.0, begin + AWAY_S - time.monotonic()))
    full = dropped()
    with Meter() as meter:
        start_us = time.monotonic() * 1e6
        fleet.start_controller()
        took = wait_back(fleet, SIZE - 1)
    away = time.monotonic() - begin
    print(f"         {rate:.0f} connects a second while it was away; back after {took:.1f} s" +
          (f", {meter.total()} connects, at most {meter.most_in(1)} in one second"
           if meter.total() else ""))
    # Full jitter up to the ceiling: one connect in 2.5 s each, and never in step.
    check(rate < SIZE, f"{rate:.0f} connects a second")
    check(meter.total() < 1.5 * SIZE, f"{meter.total()} connects at the return")
    check(meter.most_in(1) < 0.8 * SIZE, f"{meter.most_in(1)} connects in one second")
    same(dropped() - full, 0, "connects that found the backlog full")
    # Who went dark meanwhile is lost, when the grace is over; nobody else ever was.
    check(fleet.decided_us("node_lost", gone) - start_us > (GRACE_S - 0.5) * 1e6,
          "judged before the grace was over")
    same(lost(fleet), [gone], "nodes that were lost")
    same(affairs(fleet), before, "the job")
    fleet.until(lambda: fleet.job(JOB)["step"] >= step + 0.8 * away, 10,
                "steps have gone on, one a second")
    fleet.order("orders")
    same(fleet.wait_for("orders", 30)["run"], fleet.attempt() + 1, "nobody was told to start anew")


def dark_and_stuck(fleet):
    """A12, D8, D10: one node is dark and one stands still as a rank ends: nothing waits for them"""
    attempt, holders = fleet.attempt(), fleet.holders()
    dark, stuck, struck = (holders[slot] for slot in CHOSEN)
    fleet.fault(f"silence {dark}")
    fleet.fault(f"pause {stuck} 15000")
    begin = fleet.fault(f"rank-exit {struck}")
    wave = fleet.wait_for("run", 15, attempt=attempt + 1)
    fleet.settle()
    print(f"         the new attempt was handed out after {(wave['last_us'] - begin) / 1e6:.1f} s")
    now = fleet.holders()
    same([slot for slot in range(SLOTS) if now[slot] != holders[slot]], list(CHOSEN[:2]),
         "slots that changed hands")
    same(fleet.attempt(), attempt + 1, "attempt")
    node = fleet.get(f"/v1/nodes/{dark}")
    same((node["state"], node["role"]), ("down", "-"), dark)
    check(any("lost" in mark["text"] for mark in node["marks"]), node["marks"])
    fleet.wait_for("fault", 30, what="resume", node=stuck)
    fleet.until(lambda: fleet.get(f"/v1/nodes/{stuck}")["role"] == "spare", BACK_S,
                "the one that stood still has proved itself empty, and is a spare")


def controller_frozen(fleet):
    """B4, F6: the controller stands still until all have dialled anew: nobody is lost by that"""
    before, gone, full = affairs(fleet), lost(fleet), dropped()
    sessions = fleet.stats()["sessions"]
    os.kill(fleet.controller.pid, signal.SIGSTOP)
    time.sleep(FROZEN_S)
    check(fleet.stats()["sessions"] <= 1, "only the dark node may not have missed it")
    os.kill(fleet.controller.pid, signal.SIGCONT)
    wait_back(fleet, sessions)
    step = fleet.job(JOB)["step"]
    fleet.until(lambda: fleet.job(JOB)["step"] >= step + 6, 30, "steps go on")
    same(lost(fleet), gone, "nodes that were lost")
    same(dropped() - full, 0, "connects that found the backlog full")
    same(affairs(fleet), before, "the job")


def main():
    enter_namespace()
    if os.environ[INSIDE] == "1":
        loopback_up()
    else:
        print("         no network namespace can be made: connects are not counted", flush=True)
    with Fleet("swarm-fleet", SIZE) as fleet:
        return run_tests([all_at_once, starts_together, controller_away, dark_and_stuck,
                          controller_frozen], fleet)


if __name__ == "__main__":
    sys.exit(main())
