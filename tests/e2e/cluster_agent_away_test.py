#!/usr/bin/env python3
"""Ranks that end while their agent is dead: their shim keeps the codes, and when the agent is back
the verdicts are what they would have been."""

import sys

from cluster_lib import (QUICK, Cluster, check, is_alive, once_each, run_in_cluster, same, signal,
                         starts, tiny, wait_step, weights)

# name: what its ranks do at step 24 of attempt 0 (all of them, but for the crash)
JOBS = {
    "done": [],
    "again": ["--inject", "exit=75@24:attempt=0"],
    "never": ["--inject", "exit=93@24:attempt=0"],
    "crash": ["--inject", "crash@24:rank=1:attempt=0"],
}
STEPS = 26


def verdicts(cluster, name):
    return [(one["verdict"]["rule"], one["verdict"]["owner"], one["blamed"])
            for one in reversed(cluster.get("/v1/incidents")["items"])
            if one["job"] == name and one.get("verdict")]


def all_at_once(cluster):
    """four agents are killed; ranks end with 0, 75, 93 and by a signal; the agents come back"""
    nodes = {}
    for name, extra in JOBS.items():
        cluster.submit(tiny(cluster, name, data=2, steps=STEPS, every=4, step_min_ms=100,
                            extra=extra))
    for name in JOBS:
        wait_step(cluster, name, 4)
        nodes[name] = cluster.slot_nodes(name)[0]
    pids = {name: list(cluster.rank_pids(node).values()) for name, node in nodes.items()}
    for node in nodes.values():
        cluster.agents[node].kill()
        cluster.agents[node].wait()
    check(all(is_alive(pid) for found in pids.values() for pid in found),
          "the ranks live on without their agents")
    cluster.until(lambda: not any(is_alive(pid) for found in pids.values() for pid in found), 20,
                  "all ranks have ended by themselves")
    for name in JOBS:
        check(cluster.job(name)["state"] in ("running", "recovering"), f"{name} is not judged yet")
    for node in nodes.values():
        cluster.start_agent(node)
    for name in JOBS:
        cluster.until(lambda n=name: cluster.job(n)["state"] in ("succeeded", "failed"), 30,
                      f"{name} is over")


def done(cluster):
    """all ranks ended with 0: the job succeeded, nothing was restarted"""
    job = cluster.job("done")
    same((job["state"], job["attempt"], job["recoveries"]), ("succeeded", 0, 0), "the job")
    same(starts(cluster, "done"), once_each((0,), 2), "processes started")


def again(cluster):
    """ranks ended with 75: restarted, free of every budget"""
    job = cluster.job("again")
    same((job["state"], job["attempt"]), ("succeeded", 1), "the job")
    same((job["budget"]["user_used"], job["budget"]["unknown_used"]), (0, 0), "budgets")
    same(starts(cluster, "again"), once_each((0, 1), 2), "processes started")
    same(cluster.recoveries("again")[0]["blamed"], [], "blamed")
    same(weights(cluster, "again"), weights(cluster, "done"), "weights")


def never(cluster):
    """ranks ended with 93: the job failed and was never restarted"""
    job = cluster.job("never")
    same((job["state"], job["attempt"]), ("failed", 0), "the job")
    check("93" in job["reason"], job["reason"])
    same(starts(cluster, "never"), once_each((0,), 2), "processes started")


def crash(cluster):
    """a rank ended by a signal: recovered, and the verdict names the rank and the signal"""
    job = cluster.job("crash")
    same((job["state"], job["attempt"]), ("succeeded", 1), "the job")
    recovery = cluster.recoveries("crash")[0]
    same((recovery["cause"], recovery["outcome"]), ("rank", "recovered"), "the recovery")
    check(f"signal {signal.SIGSEGV.value}" in recovery["why"] and "rank 1" in recovery["why"],
          recovery["why"])
    same(weights(cluster, "crash"), weights(cluster, "done"), "weights")


def nobody_lost(cluster):
    """none of the four nodes was given up for its agent's absence"""
    for node in cluster.get("/v1/nodes")["items"]:
        same((node["state"], node["marks"]), ("healthy", []), node["name"])


if __name__ == "__main__":
    with Cluster(4, start_grace="300ms", beside=QUICK) as the_cluster:
        the_cluster.start()
        sys.exit(run_in_cluster([all_at_once, done, again, never, crash, nobody_lost], the_cluster))
