#!/usr/bin/env python3
"""figures.py: how fast Keepstep notices, stops and starts again, measured with real processes.

    figures.py [--quick] [--only WORD] [--json FILE]

Prints the 50th and the 99th percentile of 50 repetitions each (FIGURES_RUNS; --quick: 5) beside
the bar that the figure has to stay under, as one table and as one JSON line each; the lines with
all samples are kept in FILE (BUILD/figures.jsonl). The 99th percentile of 50 is their worst.
Nothing is asserted: "over" is a word, not an error. The exit status is 1 when something could not
be measured, 2 when the machine is busy: bars are for an idle one, so more than half a core of load
for each core is refused (FIGURES_FORCE=1 goes on).

How a moment is taken: a fault strikes before the call of kill(2), or of the program that changes
the packet filter; a record is there when a read-only connection beside the controller sees it,
which SQLite shows after the commit is on disk. Both are CLOCK_MONOTONIC of this host; the database
is looked at every 0.3 ms (every 2 ms where seconds are measured).

What takes long because it waits (a host falls silent, an agent stands still) runs side by side in
clusters of their own, with small models; the rest runs alone.
"""

import argparse
import contextlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent))
from tests.bench.measure import (Figure, Journal, commit, cpu_ns, is_kind, lost,  # noqa: E402
                                 memory_kb, phase, say, wait_for_quiet)
from tests.lib.cluster import Cluster, Timeout, build_dir, trainer_spec  # noqa: E402
from tests.lib.network import NetworkCluster, missing  # noqa: E402

JOB = "figures"
STEP_MS = 80  # the demo's
EVERY = 8     # steps between two checkpoints: each attempt soon makes progress that counts
SMALL_MODEL = ("--batch", 8, "--context", 16, "--layers", 1, "--width", 16)
# A job that fails fifty times is none of a user's; there is no patience to measure here.
PATIENT = "recovery: {retries: {user: 1000, unknown: 1000}, no_progress_limit: 1000}\n"
WINDOW_S = 30
FROZEN_S = 15


# ---- figures and how they are shown ----------------------------------------------------------


class Figures:
    """All of them, in the order in which they are shown."""

    def __init__(self):
        self.all = {}
        for figure in (
            Figure("stop_committed", "rank end -> stop record committed", "ms", 50),
            Figure("ranks_gone", "stop order -> last obeying rank proven gone", "ms", 500),
            Figure("ranks_started", "blame -> all ranks started, same nodes", "ms", 1000),
            Figure("ranks_started_swap", "blame -> all ranks started, a spare among them", "ms",
                   1000),
            Figure("node_killed_lost", "closed, refused, a peer's rank ended -> lost", "ms", 3500),
            Figure("host_silent_lost", "host silent -> lost", "ms", 5000),
            Figure("node_frozen_lost", "agent and all its ranks stopped -> lost", "ms", 6000,
                   f"steps of {STEP_MS} ms"),
            Figure("agent_frozen_lost", f"agent alone stopped for {FROZEN_S} s: lost though steps "
                   "advance", "lost", 0),
            Figure("step_call", "step call of the library", "ns", 200,
                   "the slowest of step, step_begin, step_end; medians of 1,000,000 calls"),
            Figure("agent_pss", "agent with 8 ranks: PSS", "kB", 8192,
                   "pages that it shares with other programs count in part"),
            Figure("agent_cpu", f"agent with 8 ranks: CPU over {WINDOW_S} s", "%", 0.3,
                   "of one core; helpers that it starts are apart"),
            Figure("controller_rss", "controller with 6 agents, 8 ranks: RSS", "kB"),
            Figure("controller_cpu", f"controller with 6 agents: CPU over {WINDOW_S} s", "%", None,
                   "of one core; checkpoints every 1.6 s"),
        ):
            self.all[figure.key] = figure

    def __getitem__(self, key):
        return self.all[key]

    def show(self, header, keys, path):
        asked = [self.all[key] for key in self.all if key in keys]
        print(f"\n{'FIGURE':56}{'P50':>13}{'P99':>13}{'BAR':>12}{'RUNS':>5}")
        for figure in asked:
            print(figure.row())
        print(flush=True)
        with open(path, "w") as file:
            for figure in asked:
                print(json.dumps({**figure.as_json(), **header}))
                file.write(json.dumps({**figure.as_json(True), **header}) + "\n")


# ---- a cluster that is struck again and again ------------------------------------------------


class Bench:
    """A running cluster with the demo's shape (4 nodes of 2 ranks, 2 spares) and an endless job."""

    running = []

    def __init__(self, name, lane, make=Cluster, extra=SMALL_MODEL, every=EVERY, nodes=6, data=8,
                 ranks_per_node=2):
        self.folder = build_dir() / "figures" / name
        shutil.rmtree(self.folder, ignore_errors=True)
        # Ports of their own: two jobs of two clusters must not race for one.
        ports = {"rendezvous.port_low": 29400 + 100 * lane, "rendezvous.port_high":
                 29499 + 100 * lane, "timing.start_quiet": "200ms"}
        self.cluster = make(nodes, folder=self.folder, beside=ports, ranks_per_node=ranks_per_node)
        self.random = random.Random(lane)
        Bench.running.append(self)
        try:
            self.cluster.start()
            self.cluster.submit(trainer_spec(self.cluster, name=JOB, data=data, steps=10_000_000,
                                             every=every, step_min_ms=STEP_MS, extra=extra,
                                             more=PATIENT))
            self.journal = Journal(self.cluster)
            self.settle()
        except BaseException:
            self.close()
            raise

    def close(self):
        Bench.running.remove(self)
        self.cluster.close()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.journal.close()
        self.close()
        if kind is None:
            shutil.rmtree(self.folder, ignore_errors=True)

    def job(self):
        return self.cluster.job(JOB) or {}

    def forgive(self):
        """Nodes that are out because what we do to them looks like a fault of theirs come back."""
        rows = self.journal.connection.execute(
            "SELECT n.name, m.code FROM marks AS m JOIN nodes AS n USING (node) "
            "WHERE m.owner = 'health' AND m.level = 'leave'").fetchall()
        for name, code in rows:
            self.cluster.cli("undrain", name, "--clear", code, "--reason", "measured again")

    def settle(self, spares=0):
        """Until the job runs, the present attempt has a checkpoint, and there are spares; then a
        little more, so that no fault strikes in time with the steps."""
        self.forgive()

        def settled():
            self.cluster.vouch()
            job = self.job()
            if job.get("state") in ("held", "failed"):
                raise Timeout(f"the job is {job['state']}: {job.get('reason')}")
            saved = self.journal.connection.execute(
                "SELECT count(*) FROM checkpoints WHERE state = 'complete' AND attempt = ?",
                (job.get("attempt", -1),)).fetchone()[0]
            return job.get("state") == "running" and saved and self.cluster.spares() >= spares
        self.cluster.until(settled, 40, f"the job runs, has saved, and {spares} spares are ready")
        time.sleep(self.random.uniform(0, 1))

    def top_step(self):
        """The furthest step that any node has told of."""
        return max(slot["step"] for slot in self.job()["slots"])

    def slot_node(self, turn):
        nodes = self.cluster.slot_nodes(JOB)
        return nodes[turn % len(nodes)]

    def recovered(self):
        def closed():
            return all(one["outcome"] != "open" for one in self.cluster.recoveries(JOB)[:1])
        self.cluster.until(closed, 60, "the recovery is over")


def send(pids, number):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


# ---- alone on the machine --------------------------------------------------------------------


def measure_rank_ends(figures, runs):
    """A rank is killed: how soon the stop is durable, everybody gone, everybody started."""
    wanted = {"stop": phase("stop"), "plan": phase("plan"), "blame": is_kind("verdict"),
              "init": phase("init")}
    with Bench("rank", 0) as bench:
        for turn in range(runs):
            ranks = sorted(bench.cluster.rank_pids(bench.slot_node(turn)).items())
            pid = ranks[turn // 4 % len(ranks)][1]
            since = bench.journal.last()
            struck = time.monotonic()
            os.kill(pid, signal.SIGKILL)
            seen = bench.journal.watch(since, wanted, 30, 0.0003)
            figures["stop_committed"].add((seen["stop"] - struck) * 1e3)
            figures["ranks_gone"].add((seen["plan"] - seen["stop"]) * 1e3)
            figures["ranks_started"].add((seen["init"] - seen["blame"]) * 1e3)
            bench.recovered()
            bench.settle()
    say(f"{runs} ranks killed")


def measure_library(figures, runs):
    program = build_dir() / "tests" / "bench" / "rank_bench"
    for _ in range(runs):
        done = subprocess.run([str(program)], capture_output=True, text=True, check=True)
        medians = re.findall(r"^keepstep_step\S*\s+median\s+(\d+) ns", done.stdout, re.MULTILINE)
        if len(medians) != 3:
            raise Timeout(f"rank_bench printed {done.stdout!r}")
        figures["step_call"].add(max(map(int, medians)))
    say(f"the library's calls measured {runs} times")


def watch_process(pid, word, memory, cpu, runs):
    """Fills two figures from windows of WINDOW_S that begin half a second after each other."""
    times = []
    gap = 0.5
    count = runs + int(WINDOW_S / gap)
    begin = time.monotonic()
    for index in range(count):
        time.sleep(max(0.0, begin + index * gap - time.monotonic()))
        times.append((time.monotonic(), cpu_ns(pid)))
    for first, last in zip(times, times[int(WINDOW_S / gap):]):
        cpu.add(100 * (last[1] - first[1]) / 1e9 / (last[0] - first[0]))
    for _ in range(runs):
        memory.add(memory_kb(pid, word))
        time.sleep(0.05)


def measure_agent(figures, runs):
    with Bench("agent", 0, nodes=1, data=8, ranks_per_node=8, every=20) as bench:
        pid = bench.cluster.agents[bench.cluster.names[0]].pid
        watch_process(pid, "Pss", figures["agent_pss"], figures["agent_cpu"], runs)
    say(f"agent with 8 ranks watched for {WINDOW_S + runs / 2:.0f} s")


def measure_controller(figures, runs):
    with Bench("controller", 0, extra=(), every=20) as bench:
        watch_process(bench.cluster.controller.pid, "Rss", figures["controller_rss"],
                      figures["controller_cpu"], runs)
    say(f"controller with 6 agents watched for {WINDOW_S + runs / 2:.0f} s")


# ---- side by side ----------------------------------------------------------------------------


def measure_node_kills(figures, runs, lane):
    """kill -9 of agent, shims and ranks of a node at one moment."""
    wanted = {"blame": is_kind("verdict"), "init": phase("init")}
    with Bench(f"killed-{lane}", lane) as bench:
        for turn in range(runs):
            node = bench.slot_node(turn)
            pids = bench.cluster.node_pids(node)
            since = bench.journal.last()
            send(pids, signal.SIGSTOP)  # so that none of them sees another one die
            struck = time.monotonic()
            send(pids, signal.SIGKILL)
            seen = bench.journal.watch(since, {**wanted, "lost": lost(node)}, 30, 0.002)
            figures["node_killed_lost"].add((seen["lost"] - struck) * 1e3)
            figures["ranks_started_swap"].add((seen["init"] - seen["blame"]) * 1e3)
            bench.cluster.agents[node].wait()
            bench.recovered()
            bench.cluster.start_agent(node)
            bench.settle(spares=2)
    say(f"{runs} nodes killed")


def measure_silence(figures, runs, lane):
    """All packets of a host are dropped; nothing on it ends."""
    why = missing()
    if why is not None:
        figures["host_silent_lost"].skipped = why
        return
    with Bench(f"silent-{lane}", lane, make=NetworkCluster) as bench:
        for turn in range(runs):
            node = bench.slot_node(turn)
            since = bench.journal.last()
            struck = time.monotonic()
            bench.cluster.silence(node)
            seen = bench.journal.watch(since, {"lost": lost(node)}, 30, 0.002)
            figures["host_silent_lost"].add((seen["lost"] - struck) * 1e3)
            bench.recovered()
            bench.cluster.heal(node)
            bench.settle(spares=2)
    say(f"{runs} hosts silenced")


def measure_frozen_nodes(figures, runs, lane):
    """SIGSTOP for an agent and all its ranks: the kernel still accepts, nobody answers."""
    with Bench(f"frozen-{lane}", lane) as bench:
        for turn in range(runs):
            node = bench.slot_node(turn)
            pids = [bench.cluster.agents[node].pid, *bench.cluster.rank_pids(node).values()]
            since = bench.journal.last()
            struck = time.monotonic()
            send(pids, signal.SIGSTOP)
            try:
                seen = bench.journal.watch(since, {"lost": lost(node)}, 30, 0.002)
                figures["node_frozen_lost"].add((seen["lost"] - struck) * 1e3)
                bench.recovered()
            finally:
                send(pids, signal.SIGCONT)
            bench.settle(spares=2)
    say(f"{runs} nodes stopped")


def measure_frozen_agents(figures, runs, lane):
    """SIGSTOP for agents alone, three at a time: their ranks go on, and so must the job."""
    figure = figures["agent_frozen_lost"]
    with Bench(f"agents-{lane}", lane) as bench:
        while len(figure.samples) < runs:
            nodes = [bench.slot_node(len(figure.samples) + i) for i in range(3)]
            pids = [bench.cluster.agents[node].pid for node in nodes]
            since, step = bench.journal.last(), bench.top_step()
            send(pids, signal.SIGSTOP)
            try:
                time.sleep(FROZEN_S)
                made = bench.top_step() - step
            finally:
                send(pids, signal.SIGCONT)
            time.sleep(0.5)  # what was decided in the last moment is durable then
            rows = bench.journal.after(since)
            taken = [sum(1 for row in rows if lost(node)(*row[1:])) for node in nodes]
            if made < FROZEN_S * 1000 // STEP_MS // 2 and not any(taken):
                raise Timeout(f"the steps did not advance (by {made} in {FROZEN_S} s)")
            for one in taken[:runs - len(figure.samples)]:
                figure.add(one)
            bench.recovered()
            bench.settle(spares=2)
    say(f"{runs} agents stopped for {FROZEN_S} s, {sum(figure.samples)} taken for lost")


# ---- the whole -------------------------------------------------------------------------------

# Each with the figures that it fills …
ALONE = {
    measure_library: ("step_call",),
    measure_rank_ends: ("stop_committed", "ranks_gone", "ranks_started"),
    measure_agent: ("agent_pss", "agent_cpu"),
    measure_controller: ("controller_rss", "controller_cpu"),
}
# … and with the clusters that share its repetitions: a number is a range of rendezvous ports.
BESIDE = {
    measure_node_kills: (("node_killed_lost", "ranks_started_swap"), (1, 2)),
    measure_silence: (("host_silent_lost",), (3, 4)),
    measure_frozen_nodes: (("node_frozen_lost",), (5, 6)),
    measure_frozen_agents: (("agent_frozen_lost",), (7,)),
}


def attempt(measure, failures, *arguments):
    try:
        measure(*arguments)
    except Exception as error:  # the others are worth having all the same
        failures.append(f"{measure.__name__}: {error}")
        traceback.print_exc(limit=-3)


def measure_all(only, figures, runs, failures):
    """Runs those whose name holds the word; returns the keys of their figures."""
    keys = []
    for measure, filled in ALONE.items():
        if only in measure.__name__:
            keys += filled
            attempt(measure, failures, figures, runs)
    lanes = []
    for measure, (filled, numbers) in BESIDE.items():
        if only in measure.__name__:
            keys += filled
            for index, number in enumerate(numbers):
                share = runs // len(numbers) + (index < runs % len(numbers))
                lanes.append(threading.Thread(target=attempt, args=(
                    measure, failures, figures, share, number)))
    try:
        for lane in lanes:
            lane.start()
        for lane in lanes:
            lane.join()
    except KeyboardInterrupt:
        for bench in list(Bench.running):  # the lanes then end by what they miss
            bench.cluster.close()
        raise
    return keys


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--quick", action="store_true", help="5 repetitions")
    parser.add_argument("--only", default="", help="measurements whose name holds this word")
    parser.add_argument("--json", metavar="FILE", default=build_dir() / "figures.jsonl")
    options = parser.parse_args()
    runs = 5 if options.quick else int(os.environ.get("FIGURES_RUNS", "50"))
    header = {"commit": commit(), "load": wait_for_quiet("figures"), "cores": os.cpu_count()}
    print(f"commit {header['commit']}, load before {header['load']} a core of {header['cores']}, "
          f"{runs} repetitions", flush=True)
    figures, failures = Figures(), []
    figures.show(header, measure_all(options.only, figures, runs, failures), options.json)
    for failure in failures:
        print(f"not measured: {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
