#!/usr/bin/env python3
"""Hangs of a real 2 x 2 x 2 training: the one that stopped is named, and who saves for long does not
hang."""

import re
import sys

from cluster_lib import (QUICK, SMALL_MODEL, Cluster, check, journal, once_each, recorded,
                         run_in_cluster, same, starts, tiny, trainer_spec, wait_closed, wait_over)

LIMIT_S = 2  # hang.step_timeout


def cube(cluster, name, steps, every, *injections):
    """A job of 8 ranks: rank = tp + 2 pp + 4 dp, two of them on a node."""
    words = [word for one in injections for word in ("--inject", one)]
    text = trainer_spec(cluster, name=name, tensor=2, pipeline=2, data=2, steps=steps, every=every,
                        step_min_ms=50, folder=cluster.folder / f"ckpt-{name}",
                        extra=[*SMALL_MODEL, "--width", 32, "--layers", 2, *words],
                        more=f"hang: {{step_timeout: {LIMIT_S}s}}\n")
    return recorded(cluster, name, text)


def hang_is_named(cluster):
    """B21: one rank stops before the all-reduce, the others wait: it is named"""
    name = "stops"
    cluster.submit(cube(cluster, name, 40, 10, "hang@25:rank=5:attempt=0"))
    recovery = wait_closed(cluster, name)
    node = cluster.slot_nodes(name)[2]
    same((recovery["cause"], recovery["rule"], recovery["blamed"]), ("hang", "hang", [node]),
         "the recovery")
    incident = cluster.get(f"/v1/recoveries/{recovery['id']}")["incidents"][0]
    facts = [fact for fact in incident["facts"] if fact["source"] == "no-progress"]
    same([(fact["rank"], fact["node"]) for fact in facts], [(5, node)], "the facts")
    text = facts[0]["text"]
    print(f"         {text}")
    check(re.fullmatch(rf"rank 5 on {node} stopped before (all-reduce|reduce-scatter) \d+ of data; "
                       r"7 ranks wait for it \(after step 24\)", text), text)
    same(incident["verdict"]["confidence"], "high", "confidence")
    shown = cluster.cli("describe", "recovery", recovery["id"])
    check(text in shown and "confidence high" in shown, shown)
    print(f"         detected {recovery['phases'][0]['ms']} ms after the last progress")
    job = wait_over(cluster, name)
    same((job["state"], job["attempt"]), ("succeeded", 1), f"the job: {job['reason']}")
    same(starts(cluster, name), once_each((0, 1), 8), "processes started")


def long_save(cluster):
    """B17: a save takes five times as long as a step may: no hang, nobody is restarted"""
    name = "saves"
    seconds = 5 * LIMIT_S
    cluster.submit(cube(cluster, name, 30, 10, f"stall={seconds}@20:rank=5"))
    job = wait_over(cluster, name)
    same((job["state"], job["attempt"]), ("succeeded", 0), f"the job: {job['reason']}")
    same(cluster.recoveries(name), [], "recoveries")
    took_s = max(fields["took_ms"] for kind, _, fields in journal(cluster, "checkpoint_moved")
                 if fields["step"] == 20) / 1000
    print(f"         its save took {took_s:.1f} s, a step may take {LIMIT_S} s")
    check(took_s > 0.9 * seconds, f"so long did it save: {took_s:.2f} s") # its begin is told late
    same(starts(cluster, name), once_each((0,), 8), "processes started")


def deaf_hang(cluster):
    """B20: a rank hangs with all signals blocked: found after hang.step_timeout, recovered"""
    name = "hang"
    cluster.submit(tiny(cluster, name, data=4, steps=20, every=4, more="hang: {step_timeout: 2s}",
                        extra=["--inject", "hang@14:rank=1:attempt=0"]))
    job = wait_over(cluster, name)
    same((job["state"], job["attempt"]), ("succeeded", 1), f"the job: {job['reason']}")
    recovery = cluster.recoveries(name)[0]
    same((recovery["cause"], recovery["outcome"], recovery["rule"]), ("hang", "recovered", "hang"),
         "the recovery")
    check("rank 1 on " in recovery["why"], recovery["why"])
    same(starts(cluster, name), once_each((0, 1), 4), "processes started")


def second_hang(cluster):
    """B18: a second hang, after the first one's recovery, is an incident of its own"""
    name = "again"
    cluster.submit(tiny(cluster, name, data=4, steps=20, every=4,
                        more="hang: {step_timeout: 2s}",
                        extra=["--inject", "hang@9:rank=1:attempt=0",
                               "--inject", "hang@14:rank=2:attempt=1"]))
    job = wait_over(cluster, name)
    same((job["state"], job["attempt"]), ("succeeded", 2), f"the job: {job['reason']}")
    # What is done may differ: these nodes have hung before.
    incidents = {incident["id"]: [fact["rank"] for fact in incident["facts"]
                                  if fact["source"] == "no-progress"]
                 for one in cluster.recoveries(name)
                 for incident in cluster.get(f"/v1/recoveries/{one['id']}")["incidents"]}
    same(sorted(incidents.values()), [[1], [2]], f"the ranks of each of {sorted(incidents)}")
    same(starts(cluster, name), once_each((0, 1, 2), 4), "processes started")


if __name__ == "__main__":
    with Cluster(5, start_grace="300ms", beside=QUICK) as the_cluster:
        the_cluster.start()
        sys.exit(run_in_cluster([hang_is_named, deaf_hang, long_save, second_hang], the_cluster))
