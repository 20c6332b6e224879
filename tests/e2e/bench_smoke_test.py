#!/usr/bin/env python3
# runs alone: it measures
"""tests/bench/bench.py measures what it says, with a swarm of 64 agents; nothing here is about time."""

import json
import subprocess
import sys

from cluster_lib import ROOT, build_dir, check, run_tests, same

sys.path.insert(0, str(ROOT))
from tests.bench import bench  # noqa: E402
from tests.bench.fleet import JOB, Fleet  # noqa: E402

SIZE = 64


def is_spare(fleet, name):
    """It passed its checks; of the silent one nobody knows when it notices that it is not heard."""
    return any(one["name"] == name and one["state"] == "healthy" and one["role"] == "spare"
               for one in fleet.get("/v1/nodes?limit=500")["items"])


def test_faults():
    """what strikes a node of the swarm is what the controller then says"""
    with Fleet("smoke", SIZE) as fleet:
        fleet.run_job()
        same(len(set(fleet.holders())), 48, "nodes of the job")
        first = fleet.attempt()
        fleet.fault(f"rank-exit {fleet.holders()[5]} 3")
        stop = fleet.wait_for("stop", 30, attempt=first)
        same(stop["agents"], 48, "agents that were told to stop")
        run = fleet.wait_for("run", 30, attempt=first + 1)
        check(stop["first_us"] <= stop["p99_us"] <= stop["last_us"] <= run["last_us"],
              f"{stop} {run}")
        fleet.settle()
        killed, other = fleet.holders()[7], fleet.holders()[9]
        fleet.fault(f"kill {killed}")
        fleet.fault(f"rank-exit {other}")
        fleet.wait_for("run", 60, attempt=first + 2)
        check(fleet.decided_us("node_lost", killed) > 0, "no verdict")
        fleet.settle()
        check(killed not in fleet.holders() and other in fleet.holders(), fleet.holders())
        paused = fleet.holders()[11]
        fleet.fault(f"pause {paused} 1500")
        fleet.wait_for("fault", 30, what="resume", node=paused)
        silent = fleet.holders()[13]
        fleet.fault(f"silence {silent}")
        fleet.wait_for("run", 60, attempt=first + 3)
        lost = fleet.rows("SELECT subject FROM journal WHERE kind = 'node_lost' ORDER BY seq")
        same([row[0] for row in lost], [f"node/{killed}", f"node/{silent}"], "lost nodes")
        fleet.fault(f"start {killed}")
        fleet.until(lambda: is_spare(fleet, killed), 30, "it is back", every=0.2)
        same(bench.lost_decisions(fleet), 0, "lost decisions")


def test_tls():
    """the swarm speaks TLS with the cluster's key"""
    with Fleet("smoke-tls", SIZE, tls=True) as fleet:
        same(fleet.connected["agents"], SIZE, "agents")
        log = (fleet.folder / "controller.log").read_text()
        check("agents may connect" in log and "without encryption" not in log, log[:500])


def test_refusals():
    """the swarm says what is wrong with its flags and its script"""
    swarm = str(build_dir() / "tests" / "swarm")

    def refused(*words):
        done = subprocess.run([swarm, *words], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=30, check=False)
        check(done.returncode in (1, 2) and done.stderr, f"{words}: {done}")
        return done.stderr
    one = ("--controller", "127.0.0.1:9", "--agents", "4")
    check("--controller and --agents" in refused(), "nothing given")
    check("1 to 16384" in refused("--controller", "127.0.0.1:9", "--agents", "20000"), "too many")
    check("of this machine" in refused("--controller", "10.0.0.1:9", "--agents", "4"), "elsewhere")
    check("nodes are n00001 to n00004" in refused(*one, "--at", "@5 kill n00005"), "a node")
    check("not kill" in refused(*one, "--at", "@5 burn n00001"), "a word")
    check("such as @1500" in refused(*one, "--at", "@x kill n00001"), "a time")


def test_rest_load():
    """clients look at a pace, and what they count adds up"""
    with Fleet("smoke-rest", SIZE) as fleet:
        fleet.run_job()
        done = subprocess.run(
            [sys.executable, str(ROOT / "tests/bench/rest_load.py"), fleet.socket, "2", "6", "4",
             "/v1/nodes", f"/v1/jobs/{JOB}"], capture_output=True, text=True, timeout=60,
            check=True)
        said = json.loads(done.stdout)
        same(sum(said["statuses"].values()), len(said["times_ms"]), "answers")
        same(set(said["statuses"]), {"200", "304"}, "statuses")


def test_table():
    """a figure without a run is said to be missing; the others have name, value, unit and bar"""
    bars = bench.Bars()
    bench.measure_layout(bars, 5)
    path = build_dir() / "bench" / "smoke.json"
    bars.show({"commit": "none"}, path)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    same([line["name"] for line in lines if line["name"].startswith("layout")],
         ["layout_swap_16384", "layout_swap_131072", "layout_fresh_16384", "layout_fresh_131072"],
         "figures")
    check(all({"name", "value", "unit", "bar"} <= line.keys() for line in lines), lines)


if __name__ == "__main__":
    sys.exit(run_tests([test_refusals, test_table, test_faults, test_tls, test_rest_load]))
