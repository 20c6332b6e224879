#!/usr/bin/env python3
"""What an operator does to nodes and jobs, by the command line, while a job runs."""

import sys

from cluster_lib import (QUICK, Cluster, check, os, processes_of, run_in_cluster, same, signal,
                         spec_of, start_lines, stub, tiny, wait_closed, wait_step)

NAME = "op"


def node_of(cluster, name):
    return cluster.get(f"/v1/nodes/{name}")


def looks(cluster, name):
    node = node_of(cluster, name)
    return node["state"], node["role"]


def drain_now(cluster):
    """drain --when now: the slot moves to a spare at once, the node ends up drained"""
    cluster.submit(tiny(cluster, NAME, steps=3000, every=20, step_min_ms=40))
    wait_step(cluster, NAME, 5)
    victim = cluster.slot_nodes(NAME)[1]
    cluster.cli("drain", victim, "--reason", "swap DIMMs, DC-4520", "--when", "now", "-y")
    recovery = wait_closed(cluster, NAME, 1)
    same((recovery["cause"], recovery["outcome"], recovery["moved_nodes"]),
         ("planned", "recovered", 1), "the recovery")
    cluster.until(lambda: looks(cluster, victim) == ("drained", "-"), 10, f"{victim} is drained")
    same([(mark["owner"], mark["text"]) for mark in node_of(cluster, victim)["marks"]],
         [("operator", "swap DIMMs, DC-4520")], "marks")
    check(victim not in cluster.slot_nodes(NAME), "it has left its slot")
    cluster.drained = [victim]


def drain_checkpoint(cluster):
    """drain, as it is by default: a save is asked for first, so that no step is lost"""
    wait_step(cluster, NAME, 10)
    victim = cluster.slot_nodes(NAME)[0]
    cluster.cli("drain", victim, "--reason", "fan", "-y")
    recovery = wait_closed(cluster, NAME, 2)
    same((recovery["cause"], recovery["lost_steps"]), ("planned", 0), "the recovery")
    cluster.until(lambda: looks(cluster, victim) == ("drained", "-"), 10, f"{victim} is drained")
    cluster.drained.append(victim)
    same(cluster.job(NAME)["budget"]["unknown_used"], 0, "planned changes are free")


def drain_without_spares(cluster):
    """drain without spares is refused with 8, and nothing is changed"""
    victim = cluster.slot_nodes(NAME)[2]
    done = cluster.cli("drain", victim, "--reason", "test", "-y", ok=None)
    same(done.returncode, 8, done.stderr)
    check("spare" in done.stderr, done.stderr)
    same(node_of(cluster, victim)["marks"], [], "marks")


def drain_job_end(cluster):
    """drain --when job-end needs no spare: the node keeps its slot until the job is over"""
    victim = cluster.slot_nodes(NAME)[2]
    cluster.cli("drain", victim, "--reason", "rack work", "--when", "job-end", "-y")
    cluster.until(lambda: looks(cluster, victim)[0] == "draining", 5, f"{victim} is draining")
    step = cluster.job(NAME)["step"]
    wait_step(cluster, NAME, step + 5)
    same(node_of(cluster, victim)["slot"], 2, "its slot")
    same(len(cluster.recoveries(NAME)), 2, "recoveries")
    cluster.leaving = victim


def undrain(cluster):
    """undrain: checked, then a spare again"""
    cluster.cli("undrain", ",".join(cluster.drained), "--reason", "repaired")
    for name in cluster.drained:
        cluster.until(lambda n=name: looks(cluster, n) == ("healthy", "spare"), 10,
                      f"{name} is a spare")


def cordon(cluster):
    """cordon keeps the slot, and the node is not chosen again; uncordon takes it back"""
    held, spare = cluster.slot_nodes(NAME)[3], cluster.drained[0]
    cluster.cli("cordon", f"{held},{spare}", "--reason", "power work tonight")
    same((looks(cluster, held), node_of(cluster, held)["slot"]), (("cordoned", "active"), 3), held)
    same(cluster.spares(), 1, "spares")
    step = cluster.job(NAME)["step"]
    wait_step(cluster, NAME, step + 3)
    cluster.cli("uncordon", f"{held},{spare}")
    same(looks(cluster, held), ("healthy", "active"), held)
    cluster.until(lambda: cluster.spares() == 2, 5, "both are spares again")


def hold_and_release(cluster):
    """hold stops the job after its next checkpoint and keeps it; release goes on from there"""
    attempt = cluster.job(NAME)["attempt"]
    cluster.cli("hold", NAME, "--reason", "cooling", "-y")
    cluster.until_state(NAME, "held", 20)
    same(processes_of(cluster, NAME), {}, "processes of the job")
    saved = cluster.get(f"/v1/jobs/{NAME}/checkpoints")["items"][0]["step"]
    cluster.cli("release", NAME)
    wait_step(cluster, NAME, saved + 2)
    same(cluster.job(NAME)["attempt"], attempt + 1, "attempt")


def cancel_running(cluster):
    """cancel while it runs: every process is ended; a node that was to leave then is drained"""
    cluster.cli("cancel", NAME, "--reason", "wrong data", "-y")
    cluster.until_state(NAME, "cancelled", 15)
    same(processes_of(cluster, NAME), {}, "processes of the job")
    leaving = cluster.leaving
    cluster.until(lambda: looks(cluster, leaving) == ("drained", "-"), 10, f"{leaving} is drained")
    cluster.cli("undrain", leaving)
    cluster.until(lambda: cluster.spares() == 6, 10, "all nodes are spares")


def cancel_starting(cluster):
    """cancel while it starts: cancelled, never run"""
    cluster.submit(spec_of(cluster, "slow", ["/bin/sleep", "600"]))
    cluster.until(lambda: cluster.job("slow")["phase"] == "init", 10, "its ranks are started")
    same(cluster.job("slow")["state"], "starting", "the job")
    cluster.cli("cancel", "slow", "-y")
    cluster.until_state("slow", "cancelled", 15)
    same(processes_of(cluster, "slow"), {}, "processes of the job")


def cancel_recovering(cluster):
    """cancel while it recovers: cancelled, no further attempt is made"""
    spec = stub(cluster, "redo", "--steps=2000", "--step-ms=40", "--inject=ignore-term")
    cluster.submit(spec.replace("recovery_grace: 1s", "recovery_grace: 4s"))
    wait_step(cluster, "redo", 3)
    os.kill(list(cluster.rank_pids(cluster.slot_nodes("redo")[0]).values())[0], signal.SIGKILL)
    cluster.until_state("redo", "recovering", 5)
    cluster.cli("cancel", "redo", "-y")
    cluster.until_state("redo", "cancelled", 15)
    same(sorted({line["attempt"] for line in start_lines(cluster, "redo")}), [0], "attempts")
    same(processes_of(cluster, "redo"), {}, "processes of the job")
    done = cluster.cli("cancel", "redo", "-y", ok=None)
    same(done.returncode, 0, "cancelling again changes nothing")


if __name__ == "__main__":
    with Cluster(6, start_grace="300ms", beside=QUICK) as the_cluster:
        the_cluster.start()
        sys.exit(run_in_cluster([drain_now, drain_checkpoint, drain_without_spares, drain_job_end,
                                 undrain, cordon, hold_and_release, cancel_running, cancel_starting,
                                 cancel_recovering], the_cluster))
