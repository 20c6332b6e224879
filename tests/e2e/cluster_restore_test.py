#!/usr/bin/env python3
"""Damaged checkpoints and commands that cannot work."""

import os
import pathlib
import shutil
import signal
import sys

from cluster_lib import (QUICK, Cluster, check, run_in_cluster, same, spec_of, start_lines, tiny,
                         wait_over, wait_step, weights)

STEPS = 60


def checkpoints(cluster, name):
    return cluster.get(f"/v1/jobs/{name}/checkpoints")["items"]


def damaged(cluster, name, damage, attempts, note):
    """Holds the job at a checkpoint, damages that one, releases it; the job's end."""
    cluster.submit(tiny(cluster, name, data=2, steps=STEPS, every=5, step_min_ms=40))
    wait_step(cluster, name, 12)
    cluster.cli("hold", name, "-y")
    cluster.until_state(name, "held", 20)
    newest = checkpoints(cluster, name)[0]
    damage(pathlib.Path(newest["directory"]))
    cluster.cli("release", name)
    job = wait_over(cluster, name)
    same(job["state"], "succeeded", f"the job: {job['reason']}")
    found = {one["directory"]: one for one in checkpoints(cluster, name)}
    same(found[newest["directory"]]["state"], "corrupt", "the damaged checkpoint")
    check(note in found[newest["directory"]]["note"], found[newest["directory"]]["note"])
    tried = sorted({line["attempt"] for line in start_lines(cluster, name)})
    same(tried, attempts, "attempts")


def torn_shard(cluster):
    """E2: a shard is torn: the checkpoint before is taken at once"""
    def damage(folder):
        shard = folder / "shard-00001.bin"
        shard.write_bytes(shard.read_bytes()[:-7])
    damaged(cluster, "torn", damage, [0, 1], "shard-00001.bin has ")


def wrong_bit(cluster):
    """E1: a wrong bit: after two failures to load it the checkpoint before is taken"""
    def damage(folder):
        shard = folder / "shard-00001.bin"
        data = bytearray(shard.read_bytes())
        data[-7] ^= 4
        shard.write_bytes(data)
    damaged(cluster, "bit", damage, [0, 1, 2, 3], "two attempts failed while loading it")
    same(weights(cluster, "bit"), weights(cluster, "torn"), "weights")


def missing_shard(cluster):
    """E2: a shard is missing: the checkpoint before is taken at once"""
    damaged(cluster, "missing", lambda folder: (folder / "shard-00000.bin").unlink(), [0, 1],
            "shard-00000.bin: it is missing")
    same(weights(cluster, "missing"), weights(cluster, "torn"), "weights")


def missing_manifest(cluster):
    """E2: the manifest is missing: the checkpoint before is taken at once"""
    damaged(cluster, "manifest", lambda folder: (folder / "manifest.json").unlink(), [0, 1],
            "it has no manifest.json")
    same(weights(cluster, "manifest"), weights(cluster, "torn"), "weights")


def complete(cluster, name):
    return [one for one in checkpoints(cluster, name) if one["state"] == "complete"]


def newest_is_gone(cluster):
    """E3: the newest checkpoint is gone, more than max_lost steps would be lost: a person is asked"""
    name = "newest"
    text = tiny(cluster, name, data=2, steps=STEPS, every=10, step_min_ms=60)
    cluster.submit(text.replace("checkpoint: {", "checkpoint: {max_lost: 3, "))
    cluster.until(lambda: len(complete(cluster, name)) == 2, 30, "two checkpoints are complete")
    shutil.rmtree(complete(cluster, name)[0]["directory"])
    os.kill(cluster.rank_pids(cluster.slot_nodes(name)[0])[1], signal.SIGKILL)
    cluster.until_state(name, "held", 20)
    reason = cluster.job(name)["reason"]
    check("steps would be lost (checkpoint.max_lost is 3)" in reason, reason)
    check(f"keepstep release {name} approves it" in reason, reason)
    tried = {line["attempt"] for line in start_lines(cluster, name)}
    same(tried, {0}, "attempts before a person was asked")
    cluster.cli("release", name)
    same(wait_over(cluster, name)["state"], "succeeded", "the job")
    same(weights(cluster, name), weights(cluster, "torn"), "weights")


def all_are_gone(cluster):
    """all checkpoints are gone: no node is blamed, nothing begins anew before a person says so"""
    name = "none"
    cluster.submit(tiny(cluster, name, data=2, steps=STEPS, every=10, step_min_ms=40))
    wait_step(cluster, name, 12)
    cluster.cli("hold", name, "-y")
    cluster.until_state(name, "held", 20)
    for one in complete(cluster, name):
        shutil.rmtree(one["directory"])
    cluster.cli("release", name) # of another reason: it approves nothing
    cluster.until(lambda: "none of its checkpoints, up to step " in cluster.job(name)["reason"], 20,
                  "a person is asked")
    same(cluster.job(name)["state"], "held", "the job")
    for node in cluster.get("/v1/nodes")["items"]:
        same(node["marks"], [], f"marks of {node['name']}")
    cluster.cli("release", name)
    same(wait_over(cluster, name)["state"], "succeeded", "the job")
    same(weights(cluster, name), weights(cluster, "torn"), "weights")
    same(sorted({line["attempt"] for line in start_lines(cluster, name)}), [0, 1], "attempts")


def undisturbed(cluster):
    """an undisturbed run has the same weights as those that fell back"""
    cluster.submit(tiny(cluster, "calm", data=2, steps=STEPS, every=5, step_min_ms=0))
    same(wait_over(cluster, "calm")["state"], "succeeded", "the job")
    same(weights(cluster, "calm"), weights(cluster, "torn"), "weights")


def bad_command(cluster):
    """E11: a command that ends with 127 fails the job without a restart, and blames no node"""
    cluster.submit(spec_of(cluster, "typo", ["/bin/sh", "-c", "exec no-such-program"], data=2))
    job = wait_over(cluster, "typo")
    same(job["state"], "failed", f"the job: {job['reason']}")
    # On a busy host the stop after the first end may come before the other rank has tried.
    check(job["attempt"] <= 1, f"attempt {job['attempt']}: {job['reason']}")
    check("127" in job["reason"] and "before the first step" in job["reason"], job["reason"])
    for node in cluster.get("/v1/nodes")["items"]:
        same((node["state"], node["marks"]), ("healthy", []), node["name"])


def no_command(cluster):
    """E11: a program that is not there fails the job the same way, and says so"""
    cluster.submit(spec_of(cluster, "absent", ["/no/such/program"], data=4))
    job = wait_over(cluster, "absent")
    same((job["state"], job["attempt"]), ("failed", 0), f"the job: {job['reason']}")
    check("could not be started" in job["reason"] or "No such file" in job["reason"], job["reason"])
    for node in cluster.get("/v1/nodes")["items"]:
        same((node["state"], node["marks"]), ("healthy", []), node["name"])


if __name__ == "__main__":
    with Cluster(2, start_grace="300ms", beside=QUICK) as the_cluster:
        the_cluster.start()
        sys.exit(run_in_cluster([torn_shard, wrong_bit, missing_shard, missing_manifest,
                                 newest_is_gone, all_are_gone, undisturbed, bad_command,
                                 no_command], the_cluster))
