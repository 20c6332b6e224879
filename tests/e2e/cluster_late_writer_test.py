#!/usr/bin/env python3
"""A whole node is frozen, swapped away, and its ranks wake up later: they train and save on, as if
nothing had happened, and change no byte of a committed checkpoint."""

import sys

from cluster_lib import (QUICK, Cluster, check, is_alive, once_each, pathlib, run_in_cluster, same,
                         send, sha256, signal, starts, tiny, wait_closed, wait_over, wait_step)

NAME = "late"


def committed(cluster):
    """{path: hash} of every file of every checkpoint that counts, and their (step, attempt)."""
    hashes, which = {}, set()
    for one in cluster.get(f"/v1/jobs/{NAME}/checkpoints")["items"]:
        if one["state"] in ("complete", "verified"):
            which.add((one["step"], one["attempt"]))
            for path in sorted(pathlib.Path(one["directory"]).iterdir()):
                hashes[str(path)] = sha256(path)
    return hashes, which


def folders_of(cluster, attempt):
    return {path.name for path in (cluster.folder / f"ckpt-{NAME}").glob(f"step-*.a-{attempt}")}


def frozen_and_swapped(cluster):
    """agent and ranks of a node are stopped: it is lost, and a spare goes on from the checkpoint"""
    cluster.submit(tiny(cluster, NAME, data=2, steps=120, every=4, step_min_ms=60))
    wait_step(cluster, NAME, 6)
    node = cluster.slot_nodes(NAME)[0]
    cluster.frozen = node, list(cluster.rank_pids(node).values()), cluster.node_pids(node)
    send(cluster.frozen[2], signal.SIGSTOP)
    recovery = wait_closed(cluster, NAME)
    same((recovery["cause"], recovery["blamed"]), ("node", [node]), "the recovery")
    check(cluster.slot_nodes(NAME) != [node], "the slot has moved")
    cluster.committed_before = {one for one in committed(cluster)[1] if one[1] == 0}
    cluster.until(lambda: any(attempt == 1 for _, attempt in committed(cluster)[1]), 20,
                  "the new attempt has saved")


def late_writer(cluster):
    """Done 4: the old ranks wake up and save late: no byte of a committed checkpoint changes"""
    node, ranks, _ = cluster.frozen
    hashes, which = committed(cluster)
    before = folders_of(cluster, 0)
    send(ranks, signal.SIGCONT)
    cluster.until(lambda: len(folders_of(cluster, 0) - before) >= 1, 20,
                  "the old attempt saves late")
    check(all(is_alive(pid) for pid in ranks), "the old ranks are alive")
    late = folders_of(cluster, 0) - before
    shards = [cluster.folder / f"ckpt-{NAME}" / name / "shard-00000.bin" for name in late]
    cluster.until(lambda: all(shard.exists() for shard in shards), 20, "their bytes are on disk")
    after, now = committed(cluster)
    same({path: after[path] for path in hashes}, hashes, "files of committed checkpoints")
    same(sorted(one for one in now if one[1] == 0), sorted(one for one in which if one[1] == 0),
         "committed checkpoints of the old attempt")


def woken_agent(cluster):
    """when its agent wakes up too, the old ranks are ended; the job never noticed"""
    node, ranks, everything = cluster.frozen
    hashes, _ = committed(cluster)
    send(everything, signal.SIGCONT)
    cluster.until(lambda: not any(is_alive(pid) for pid in ranks), 20, "the old ranks are ended")
    cluster.until(lambda: cluster.get(f"/v1/nodes/{node}")["connected"], 20, f"{node} is back")
    after, now = committed(cluster)
    same({path: after[path] for path in hashes}, hashes, "files of committed checkpoints")
    same({one for one in now if one[1] == 0}, cluster.committed_before, "committed by attempt 0")
    same(wait_over(cluster, NAME)["state"], "succeeded", "the job")
    same(starts(cluster, NAME), once_each((0, 1), 2), "processes started")


if __name__ == "__main__":
    with Cluster(3, start_grace="300ms", beside=QUICK) as the_cluster:
        the_cluster.start()
        sys.exit(run_in_cluster([frozen_and_swapped, late_writer, woken_agent], the_cluster))
