#!/usr/bin/env python3
"""bench.py: the claims about 16,384 and 100,000 GPUs, measured against a real controller.

    bench.py [--quick] [--only WORD] [--runs N] [--json FILE]

A swarm of agents in one process (build/tests/swarm: real connections, the shipping agent core, ranks
that are entries in a table) meets a real controller with its real database. Each run begins with an
empty database; a figure is the median of its runs (5; --quick: 1), shown beside the bar it has to
stay under, as one table and as JSON lines in FILE (BUILD/bench/bench.json: name, value, unit, bar).
--only measures what has WORD in its name: connect, beats, memory, stop, lost, rest, kill, layout …

Bars are for two idle cores, so the load before is printed and more than half a core of load for each
is refused with exit status 2 (BENCH_FORCE=1 goes on). The controller and the swarm share the
machine: what the swarm takes, the controller does not have. The exit status is 1 when something
could not be measured; a figure over its bar is a word in the table, not an error.

How moments are taken: faults and orders are stamped by the swarm, verdicts by the controller as it
decides them, all on this host's clock. "p99" is over the agents of one run.
"""

import argparse
import json
import math
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import time
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent))
from tests.bench import figures as cluster_figures  # noqa: E402
from tests.bench.fleet import JOB, Fleet  # noqa: E402
from tests.bench.measure import (Figure, commit, cpu_ns, memory_kb, say,  # noqa: E402
                                 wait_for_quiet)
from tests.lib.cluster import Timeout, build_dir  # noqa: E402

SIZES = (2112, 12900)
WINDOW_S = 10       # in which the controller's CPU time is counted
REST = {"seconds": 15, "clients": 64, "rate": 4}
RECOVER_EVERY_S = 3
KILL_NODES = 64


class Bars:
    """The table of the design: figures by key, in the order in which they are shown."""

    def __init__(self):
        self.all = {}
        for size, connect, cpu, memory, stop, run in (
                (2112, (0.5, 3), 5, (64, 128), 250, 1000),
                (12900, (3, 20), 30, (256, 512), 1500, 5000)):
            for index, kind in enumerate(("plain", "TLS-PSK")):
                self.put(f"connect_{kind[:3].lower()}_{size}", f"all {size:,} agents in, {kind}",
                         "s", connect[index])
            self.put(f"beats_{size}", f"beats of {size:,}: controller CPU", "%", cpu)
            for index, kind in enumerate(("plain", "TLS-PSK")):
                self.put(f"memory_{kind[:3].lower()}_{size}",
                         f"controller with {size:,}, {kind}: RSS", "MiB", memory[index])
            self.put(f"stop_{size}", f"rank exit -> {size:,} hold the stop, p99", "ms", stop)
            self.put(f"run_{size}", f"node lost -> {size:,} hold the new attempt, p99", "ms", run)
        for key, name, unit, bar in (
                ("lost_closed", "closed, refused, a peer's rank ends -> lost", "ms", 3500),
                ("lost_silent", "host silent -> lost", "ms", 5000),
                ("layout_swap_16384", "layout, 32 nodes lost: 16,384 ranks", "ms", 1),
                ("layout_swap_131072", "layout, 32 nodes lost: 131,072 ranks", "ms", 10),
                ("layout_fresh_16384", "layout, fresh: 16,384 ranks", "ms", 1),
                ("layout_fresh_131072", "layout, fresh: 131,072 ranks", "ms", 10),
                ("rest", "REST, 64 clients, while it recovers: p99", "ms", 20),
                ("rest_late", "nodes whose beats were late meanwhile", "nodes", 0),
                ("kill", "decisions lost, each time of kill -9", "lost", 0),
                ("agent_pss", "agent with 8 ranks: PSS", "MiB", 8),
                ("agent_cpu", "agent with 8 ranks: CPU", "%", 0.3)):
            self.put(key, name, unit, bar)

    def put(self, key, name, unit, bar):
        self.all[key] = Figure(key, name, unit, bar)

    def add(self, key, sample):
        self.all[key].add(sample)

    def show(self, header, path):
        measured = [figure for figure in self.all.values() if figure.samples or figure.skipped]
        path.parent.mkdir(parents=True, exist_ok=True)
        print(f"\n{'FIGURE':52}{'MEDIAN':>14}{'WORST':>14}{'BAR':>12}{'RUNS':>5}")
        with open(path, "w") as file:
            for figure in measured:
                line = {"name": figure.key, "value": None, "unit": figure.unit, "bar": figure.bar}
                cells = ["-", "-", figure.verdict()]
                if figure.samples:
                    counts = figure.unit in ("lost", "nodes") # one is one too many
                    middle = (max if counts else statistics.median)(figure.samples)
                    line["value"] = round(middle, 4)
                    cells = [f"{middle:.4g} {figure.unit}",
                             f"{max(figure.samples):.4g} {figure.unit}",
                             "within" if middle <= figure.bar else "over"]
                line.update(what=figure.name, samples=[round(s, 4) for s in figure.samples],
                            **header)
                bar = f"{figure.bar:g} {figure.unit}"
                print(f"{figure.name:52}{cells[0]:>14}{cells[1]:>14}{bar:>12}"
                      f"{len(figure.samples):>5}  {cells[2]}")
                file.write(json.dumps(line) + "\n")
        print(flush=True)


# ---- one fleet, one sample of each -----------------------------------------------------------


def seconds_to_connect(fleet):
    begin = fleet.wait_for("begins", 10)["at_us"]
    return (fleet.connected["last_us"] - begin) / 1e6


def megabytes(fleet):
    return memory_kb(fleet.controller.pid, "Rss") / 1024


def measure_tls(bars, size):
    with Fleet(f"tls-{size}", size, tls=True) as fleet:
        bars.add(f"connect_tls_{size}", seconds_to_connect(fleet))
        fleet.run_job()
        time.sleep(3)
        bars.add(f"memory_tls_{size}", megabytes(fleet))


def measure_beats(bars, size, fleet):
    before, begin = cpu_ns(fleet.controller.pid), time.monotonic()
    time.sleep(WINDOW_S)
    used = cpu_ns(fleet.controller.pid) - before
    bars.add(f"beats_{size}", 100 * used / 1e9 / (time.monotonic() - begin))


def measure_stop(bars, size, fleet):
    node = random.choice(fleet.holders())
    attempt = fleet.attempt()
    struck = fleet.fault(f"rank-exit {node}")
    wave = fleet.wait_for("stop", 60, attempt=attempt)
    bars.add(f"stop_{size}", (wave["p99_us"] - struck) / 1e3)
    fleet.wait_for("runs", 60, attempt=attempt + 1)
    fleet.settle()


def measure_closed(bars, size, fleet):
    """A node's processes are gone at once; on another one a rank sees that a moment later."""
    node, other = random.sample(fleet.holders(), 2)
    attempt = fleet.attempt()
    struck = fleet.fault(f"kill {node}")
    fleet.fault(f"rank-exit {other}")
    wave = fleet.wait_for("run", 60, attempt=attempt + 1)
    lost = fleet.decided_us("node_lost", node)
    if size == 2112:
        bars.add("lost_closed", (lost - struck) / 1e3)
    bars.add(f"run_{size}", (wave["p99_us"] - lost) / 1e3)
    fleet.settle()


def measure_silent(bars, fleet):
    node = random.choice(fleet.holders())
    attempt = fleet.attempt()
    struck = fleet.fault(f"silence {node}")
    bars.add("lost_silent", (fleet.decided_us("node_lost", node) - struck) / 1e3)
    fleet.wait_for("run", 60, attempt=attempt + 1)
    fleet.settle()


def measure_rest(bars, fleet):
    """The clients look while one recovery follows the other."""
    late = fleet.traced(": suspect, ")
    load = subprocess.Popen(
        [sys.executable, str(pathlib.Path(__file__).with_name("rest_load.py")), fleet.socket,
         *(str(REST[key]) for key in ("seconds", "clients", "rate")),
         "/v1/nodes", f"/v1/jobs/{JOB}/layout", f"/v1/jobs/{JOB}"],
        stdout=subprocess.PIPE, text=True)
    try:
        while load.poll() is None:
            fleet.fault(f"rank-exit {random.choice(fleet.holders())}")
            time.sleep(RECOVER_EVERY_S)
            fleet.settle()
        said = json.loads(load.communicate()[0])
    finally:
        if load.poll() is None:
            load.kill()
            load.wait()
    if not set(said["statuses"]) <= {"200", "304"}: # 304 only where no commit came between
        raise Timeout(f"answers other than 200 and 304: {said['statuses']}")
    times = sorted(said["times_ms"])
    bars.add("rest", times[math.ceil(len(times) * 0.99) - 1])
    bars.add("rest_late", fleet.traced(": suspect, ") - late)


def measure_plain(bars, size, only):
    with Fleet(f"plain-{size}", size) as fleet:
        bars.add(f"connect_pla_{size}", seconds_to_connect(fleet))
        if only == "connect":
            return
        fleet.run_job()
        wanted = {"beats": lambda: measure_beats(bars, size, fleet),
                  "memory": lambda: bars.add(f"memory_pla_{size}", megabytes(fleet)),
                  "stop": lambda: measure_stop(bars, size, fleet),
                  "lost": lambda: measure_closed(bars, size, fleet)}
        if size == 2112:
            wanted["lost silent"] = lambda: measure_silent(bars, fleet)
            wanted["rest"] = lambda: measure_rest(bars, fleet)
        for word, measure in wanted.items():
            if not only or only in word:
                measure()


# ---- apart -----------------------------------------------------------------------------------


def lost_decisions(fleet):
    """What an agent was ordered and the journal does not know."""
    fleet.order("orders")
    told = fleet.wait_for("orders", 30)
    made = fleet.rows("SELECT max(json_extract(body, '$.attempt')) FROM journal "
                      "WHERE kind = 'attempt_made'")[0][0]
    ended = fleet.rows("SELECT max(json_extract(body, '$.attempt')) FROM journal "
                       "WHERE kind = 'attempt_ended'")[0][0]
    below = [0 if one is None else one + 1 for one in (made, ended)]
    return max(0, told["run"] - below[0]) + max(0, told["stop"] - below[1])


def measure_kills(bars, kills):
    """The controller is killed at a moment of a recovery that chance chooses, again and again."""
    with Fleet("kills", KILL_NODES) as fleet:
        fleet.run_job()
        for _ in range(kills):
            fleet.fault(f"rank-exit {random.choice(fleet.holders())}")
            time.sleep(random.uniform(0, 0.6))
            fleet.controller.send_signal(signal.SIGKILL)
            fleet.controller.wait()
            time.sleep(0.05)  # what was sent has arrived
            bars.add("kill", lost_decisions(fleet))
            fleet.start_controller()
            fleet.until(lambda: fleet.stats()["sessions"] == KILL_NODES, 30, "all are back", 0.2)
            fleet.settle()
            time.sleep(0.5)
    say(f"the controller was killed {kills} times")


def measure_layout(bars, runs):
    done = subprocess.run([str(build_dir() / "tests/bench/layout_bench"), str(runs)], check=True,
                          capture_output=True, text=True)
    for line in done.stdout.splitlines():
        one = json.loads(line)
        for sample in one["ms"]:
            bars.add(one["name"], sample)
    say("layouts made")


def measure_agent(bars, runs):
    filled = cluster_figures.Figures()
    cluster_figures.measure_agent(filled, runs)
    for sample in filled["agent_pss"].samples:
        bars.add("agent_pss", sample / 1024)
    for sample in filled["agent_cpu"].samples:
        bars.add("agent_cpu", sample)


# ---- the whole -------------------------------------------------------------------------------


def plan(bars, runs, only):
    """[(words, what to call)]: fleets first, each run with a new one."""
    def repeat(measure, *arguments):
        for index in range(runs):
            measure(bars, *arguments)
            say(f"run {index + 1} of {runs}: {measure.__name__} {arguments[0]:,}")
    parts = []
    for size in SIZES:
        words = f"connect beats memory stop lost silent rest {size}"
        parts.append((words, lambda size=size: repeat(measure_plain, size, only)))
        parts.append((f"connect memory tls {size}",
                      lambda size=size: repeat(measure_tls, size)))
    parts.append(("layout", lambda: measure_layout(bars, max(runs, 5))))
    parts.append(("kill", lambda: measure_kills(bars, 4 * runs)))
    parts.append(("agent", lambda: measure_agent(bars, max(runs, 5))))
    return parts


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--quick", action="store_true", help="one run of each")
    parser.add_argument("--only", default="", help="what has this word in its name")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--size", type=int, choices=SIZES, help="only fleets of this size")
    parser.add_argument("--json", metavar="FILE", type=pathlib.Path,
                        default=build_dir() / "bench" / "bench.json")
    options = parser.parse_args()
    runs = 1 if options.quick else options.runs
    header = {"commit": commit(), "load": wait_for_quiet("bench"), "cores": os.cpu_count()}
    print(f"commit {header['commit']}, load before {header['load']} a core of {header['cores']}, "
          f"medians of {runs}", flush=True)
    bars, failures = Bars(), []
    for words, measure in plan(bars, runs, options.only):
        other = any(str(size) in words for size in SIZES if options.size not in (None, size))
        if options.only not in words or other or (options.size and words.isalpha()):
            continue
        try:
            measure()
        except Exception as error:  # the others are worth having all the same
            failures.append(f"{words}: {error}")
            traceback.print_exc(limit=-3)
    bars.show(header, options.json)
    for failure in failures:
        print(f"not measured: {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
