#!/usr/bin/env python3
"""Before ranks are started again, nothing of the old attempt is alive on any node that they use:
each rank's first act is to look for it (cluster_witness.py)."""

import sys

from cluster_lib import (QUICK, Cluster, all_usable, check, children_said, is_alive, nothing_left,
                         pathlib, processes_of, run_in_cluster, same, send, signal, starts_path,
                         stub, tiny, wait_closed, wait_over, wait_step, weights)


def note_children(cluster, name, count):
    """Hands the witness the pids of children; returns them."""
    found = cluster.until(lambda: len(children_said(cluster, name)) >= count and
                          children_said(cluster, name), 20, f"{name} has left {count} children")
    pathlib.Path(f"{starts_path(cluster, name)}.old").write_text(
        "".join(f"{node} {pid}\n" for node, pid in found))
    for _, pid in found:
        check(is_alive(pid), f"child {pid} is alive before the failure")
    return [pid for _, pid in found]


def deaf_to_term(cluster):
    """D1, D5: a rank that hangs, all signals blocked, is killed before the next attempt starts"""
    cluster.submit(tiny(cluster, "deaf", data=4, witness=True, extra=[
        "--inject", "hang@6:rank=0:attempt=0", "--inject", "crash@6:rank=2:attempt=0"]))
    same(wait_over(cluster, "deaf")["state"], "succeeded", "the job")
    recovery = cluster.recoveries("deaf")[0]
    stop = next(phase["ms"] for phase in recovery["phases"] if phase["name"] == "stop")
    check(stop >= 1900, f"its grace of 2 s was waited for, not {stop} ms")
    nothing_left(cluster, "deaf", (0, 1))


def own_session(cluster):
    """D2: children in a session of their own, deaf to TERM, without environment, go as well"""
    all_usable(cluster)
    cluster.submit(stub(cluster, "forks", "--steps=40", "--step-ms=40", "--save-every=5",
                        "--inject=fork-child,ignore-term", witness=True))
    children = note_children(cluster, "forks", 4)
    wait_step(cluster, "forks", 6)
    victim = cluster.slot_nodes("forks")[1]
    send(list(cluster.rank_pids(victim).values())[:1], signal.SIGKILL)
    wait_closed(cluster, "forks")
    same([pid for pid in children if is_alive(pid)], [], "children of the old attempt")
    last = [pid for _, pid in children_said(cluster, "forks")]
    same(wait_over(cluster, "forks")["state"], "succeeded", "the job")
    nothing_left(cluster, "forks", (0, 1))
    cluster.until(lambda: not any(is_alive(pid) for pid in last), 10, "the last children are gone")


def held_port(cluster):
    """D1: a child that holds the rendezvous port is ended; the next attempt uses another port"""
    all_usable(cluster)
    cluster.submit(tiny(cluster, "port", data=4, witness=True, extra=[
        "--inject", "hold-port:rank=0:attempt=0", "--inject", "crash@6:rank=3:attempt=0"]))
    note_children(cluster, "port", 1)
    same(wait_over(cluster, "port")["state"], "succeeded", "the job")
    ports = {line["attempt"]: line["port"] for line in nothing_left(cluster, "port", (0, 1))}
    check(ports[0] != ports[1], f"ports of the attempts: {ports}")
    same(weights(cluster, "port"), weights(cluster, "deaf"), "weights")


def spent_budget(cluster):
    """D9: when the budget is spent the job fails, and no process of it is left anywhere"""
    all_usable(cluster)
    cluster.submit(tiny(cluster, "spent", data=4, witness=True, every=100,
                        more="recovery: {retries: {user: 1, unknown: 9}}",
                        extra=["--inject", "exit=3@5", "--inject", "fork-child@2"]))
    job = wait_over(cluster, "spent")
    same(processes_of(cluster, "spent"), {}, "processes of the job")
    same(job["state"], "failed", "the job")
    check("recovery.retries" in job["reason"], job["reason"])
    nothing_left(cluster, "spent", range(job["attempt"] + 1))


if __name__ == "__main__":
    with Cluster(4, start_grace="300ms", beside=QUICK) as the_cluster:
        the_cluster.start()
        sys.exit(run_in_cluster([deaf_to_term, own_session, held_port, spent_budget], the_cluster))
