#!/usr/bin/env python3
"""Before ranks are started again, nothing of the old attempt is alive on any node that they use:
each rank's first act is to look for it (cluster_witness.py)."""

import sys
import time

from cluster_lib import (QUICK, Cluster, all_usable, check, children_said, events, is_alive,
                         once_each, pathlib, process_state, processes_of, run_in_cluster, same, send, signal,
                         start_lines, starts, starts_path, stub, tiny, wait_closed, wait_over,
                         wait_step, weights)


def note_children(cluster, name, count):
    """Hands the witness the pids of children; returns them."""
    found = cluster.until(lambda: len(children_said(cluster, name)) >= count and
                          children_said(cluster, name), 20, f"{name} has left {count} children")
    pathlib.Path(f"{starts_path(cluster, name)}.old").write_text(
        "".join(f"{node} {pid}\n" for node, pid in found))
    for _, pid in found:
        check(is_alive(pid), f"child {pid} is alive before the failure")
    return [pid for _, pid in found]


def nothing_left(cluster, name, attempts, ranks=4):
    lines = start_lines(cluster, name)
    same(starts(cluster, name), once_each(attempts, ranks), "processes started")
    same([line["left"] for line in lines], [[]] * len(lines), "alive when a rank was started")
    return lines


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
                        more="recovery: {retries: {user: 0, unknown: 1}}",
                        extra=["--inject", "crash@5:rank=1", "--inject", "fork-child@2"]))
    job = wait_over(cluster, "spent")
    same(processes_of(cluster, "spent"), {}, "processes of the job")
    same(job["state"], "failed", "the job")
    check("recovery.retries" in job["reason"], job["reason"])
    nothing_left(cluster, "spent", range(job["attempt"] + 1))


def orphan(cluster, victim, meanwhile=lambda ranks: None):
    """Kills agent and shim of a node and starts the agent again; the pids of the ranks."""
    ranks = list(cluster.rank_pids(victim).values())
    cluster.agents[victim].kill()
    cluster.agents[victim].wait()
    shims = [pid for pid in cluster.node_pids(victim) if pid not in ranks]
    check(shims, "the node has a shim")
    send(shims, signal.SIGKILL)
    cluster.until(lambda: not any(is_alive(pid) for pid in shims), 5, "the shim is dead")
    meanwhile(ranks)
    cluster.start_agent(victim)
    return ranks


def orphans(cluster):
    """D3: agent and shim are killed; the orphaned ranks are swept before anything is launched"""
    all_usable(cluster)
    cluster.submit(stub(cluster, "orphans", "--steps=90", "--step-ms=40", "--save-every=5",
                        "--inject=ignore-term", witness=True))
    wait_step(cluster, "orphans", 6)
    other, victim = cluster.slot_nodes("orphans")
    ranks = orphan(cluster, victim)
    step = cluster.job("orphans")["step"]
    wait_step(cluster, "orphans", step + 10)
    check(all(is_alive(pid) for pid in ranks), "ranks whose parent is dead train on")
    send(list(cluster.rank_pids(other).values())[:1], signal.SIGKILL)
    wait_closed(cluster, "orphans")
    same([pid for pid in ranks if is_alive(pid)], [], "orphans that are left")
    same(wait_over(cluster, "orphans")["state"], "succeeded", "the job")
    nothing_left(cluster, "orphans", (0, 1))


def first_cause(cluster, name):
    """With what the last recovery of a job began; that a node failed before may become its verdict."""
    return [message.split("cause ")[1].split(",")[0] for *_, event, message in events(cluster)
            if event == "RecoveryStarted" and message.startswith(f"{name}: ")][-1]


def orphans_end(cluster):
    """D3: an orphaned rank that ends by itself is noticed at once, although nobody knows its code"""
    all_usable(cluster)
    cluster.submit(stub(cluster, "alone", "--steps=90", "--step-ms=40", "--save-every=5",
                        witness=True))
    wait_step(cluster, "alone", 6)
    victim = cluster.slot_nodes("alone")[1]
    ranks = orphan(cluster, victim)
    wait_step(cluster, "alone", cluster.job("alone")["step"] + 10)
    check(all(is_alive(pid) for pid in ranks), "ranks whose parent is dead train on")
    begin = time.monotonic()
    send(ranks[:1], signal.SIGKILL)
    cluster.until(lambda: cluster.job("alone")["state"] != "running", 10, "the end is noticed")
    took = time.monotonic() - begin
    check(took < 3, f"noticed after {took:.1f} s, and not by the hang clock")
    wait_closed(cluster, "alone")
    same(first_cause(cluster, "alone"), "rank", "what was seen first")
    check("how is not known" in str(events(cluster)), "nobody claims to know how it ended")
    same(wait_over(cluster, "alone")["state"], "succeeded", "the job")
    nothing_left(cluster, "alone", (0, 1))


def orphans_ended(cluster):
    """D3: so is one that ended while its agent was away, too"""
    all_usable(cluster)
    cluster.submit(stub(cluster, "away", "--steps=90", "--step-ms=40", "--save-every=5",
                        witness=True))
    wait_step(cluster, "away", 6)
    victim = cluster.slot_nodes("away")[1]
    orphan(cluster, victim, meanwhile=lambda ranks: send(ranks[:1], signal.SIGKILL))
    wait_closed(cluster, "away")
    same(first_cause(cluster, "away"), "rank", "what was seen first")
    same(wait_over(cluster, "away")["state"], "succeeded", "the job")
    nothing_left(cluster, "away", (0, 1))


if __name__ == "__main__":
    with Cluster(4, start_grace="300ms", beside=QUICK) as the_cluster:
        the_cluster.start()
        sys.exit(run_in_cluster([deaf_to_term, own_session, held_port, spent_budget, orphans,
                                 orphans_end, orphans_ended], the_cluster))
