#!/usr/bin/env python3
"""A hundred saves are asked for while agents are late: rank 0's agent is stopped for 2 s, another
one for 5 s. The answer that rank 0 gets goes to all ranks in a collective of the same step, so
nobody waits for an agent and every checkpoint is of one step."""

import json
import os
import re
import signal
import sys
import threading
import time

from cluster_lib import QUICK, Cluster, check, run_in_cluster, same, tiny, wait_over, wait_step

NAME = "saves"
SAVES = 100
WORLD = 8
STOPPED_S = {"rank 0's agent": 2.0, "another agent": 5.0}


def ask(cluster, pace_s, asked):
    """Asks for SAVES saves; notes the step before each, and the answer."""
    for _ in range(SAVES):
        step = cluster.job(NAME)["step"]
        status, body = cluster.request("POST", f"/v1/jobs/{NAME}/checkpoints", {})
        asked.append((step, status, body))
        time.sleep(pace_s)


def stop_for(process, seconds):
    os.kill(process.pid, signal.SIGSTOP)
    timer = threading.Timer(seconds, os.kill, (process.pid, signal.SIGCONT))
    timer.start()
    return timer


def folders(cluster):
    """{step: sorted names of what lies in the folder} of every checkpoint folder on disk"""
    found = {}
    for folder in (cluster.folder / f"ckpt-{NAME}").glob("step-*"):
        step = int(re.match(r"step-(\d+)\.a-0$", folder.name).group(1))
        found[step] = folder, sorted(path.name for path in folder.iterdir())
    return found


def hundred(cluster):
    """100 saves, an agent stopped for 2 s and one for 5 s: no hang, every checkpoint of one step"""
    cluster.submit(tiny(cluster, NAME, steps=100000, every=100000, step_min_ms=20))
    wait_step(cluster, NAME, 5)
    nodes = cluster.slot_nodes(NAME)
    begun, steps_before = time.monotonic(), cluster.job(NAME)["step"]
    asked = []
    asking = threading.Thread(target=ask, args=(cluster, 0.06, asked))
    timers = [stop_for(cluster.agents[nodes[0]], STOPPED_S["rank 0's agent"]),
              stop_for(cluster.agents[nodes[2]], STOPPED_S["another agent"])]
    asking.start()
    asking.join()
    for timer in timers:
        timer.join()
    same([one for one in asked if one[1] >= 300], [], "refusals")
    # The last one asked for is served too, at its step or after it.
    cluster.until(lambda: any(one["step"] >= asked[-1][0] and one["state"] == "complete" for one in
                              cluster.get(f"/v1/jobs/{NAME}/checkpoints")["items"]), 20,
                  "the last save that was asked for")
    wait_step(cluster, NAME, asked[-1][0] + 20)
    took = time.monotonic() - begun
    job = cluster.job(NAME)
    same((job["state"], job["attempt"], cluster.recoveries(NAME)), ("running", 0, []), "the job")
    cluster.cli("hold", NAME)
    cluster.until_state(NAME, "held", 20)
    found = folders(cluster)
    shards = [f"shard-{rank:05d}.bin" for rank in range(WORLD)]
    for step, (folder, names) in sorted(found.items()):
        same(names, sorted(["manifest.json", *shards]), f"{folder.name} holds")
        manifest = json.loads((folder / "manifest.json").read_text())
        same(manifest["step"], step, f"the manifest of {folder.name}")
        same(len(manifest["shards"]), WORLD, f"its shards")
    known = {one["step"]: one["state"] for one in
             cluster.get(f"/v1/jobs/{NAME}/checkpoints?limit=200")["items"]}
    same({step: known.get(step) for step in found}, {step: "complete" for step in found},
         "checkpoints as the controller has them")
    print(f"         {SAVES} saves asked in {took:.1f} s, {len(found)} checkpoints of one step each, "
          f"{job['step'] - steps_before} steps meanwhile")
    check(len(found) >= 10, f"only {len(found)} checkpoints came of {SAVES} saves")
    check(took < 40, f"it took {took:.1f} s")
    cluster.cli("cancel", NAME)
    same(wait_over(cluster, NAME)["state"], "cancelled", "the job")


if __name__ == "__main__":
    with Cluster(4, start_grace="300ms", beside=QUICK) as the_cluster:
        the_cluster.start()
        sys.exit(run_in_cluster([hundred], the_cluster))
