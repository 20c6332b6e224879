#!/usr/bin/env python3
"""Agent and shim of a node are killed, and its ranks live on as nobody's children: they train on,
their end is noticed, and nothing is launched beside them."""

import sys

from cluster_lib import (QUICK, Cluster, check, events, has_cgroups, is_alive, nothing_left,
                         run_in_cluster, same, send, signal, stub, wait_closed, wait_over,
                         wait_spares, wait_step)

NAME = "job"
NODES = 3


def begin(cluster, *words):
    """A running job on two nodes; their names."""
    cluster.submit(stub(cluster, NAME, "--steps=90", "--step-ms=40", "--save-every=5", *words,
                        witness=True))
    wait_step(cluster, NAME, 6)
    return cluster.slot_nodes(NAME)


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


def train_on(cluster, ranks):
    wait_step(cluster, NAME, cluster.job(NAME)["step"] + 10)
    check(all(is_alive(pid) for pid in ranks), "ranks whose parent is dead train on")


def ends_well(cluster):
    same(wait_over(cluster, NAME)["state"], "succeeded", "the job")
    nothing_left(cluster, NAME, (0, 1))
    wait_spares(cluster, NODES, "all nodes are usable again")


def began_with_a_rank(cluster):
    causes = [message.split("cause ")[1].split(",")[0] for *_, event, message in events(cluster)
              if event == "RecoveryStarted" and message.startswith(f"{NAME}: ")]
    same(causes[-1], "rank", "what was seen first")


def swept(cluster):
    """D3: the orphaned ranks are swept before anything is launched"""
    other, victim = begin(cluster, "--inject=ignore-term")
    ranks = orphan(cluster, victim)
    train_on(cluster, ranks)
    send(list(cluster.rank_pids(other).values())[:1], signal.SIGKILL)
    wait_closed(cluster, NAME)
    same([pid for pid in ranks if is_alive(pid)], [], "orphans that are left")
    ends_well(cluster)


def end(cluster):
    """D3: an orphaned rank that ends by itself is noticed at once, though nobody knows its code"""
    _, victim = begin(cluster)
    ranks = orphan(cluster, victim)
    train_on(cluster, ranks)
    send(ranks[:1], signal.SIGKILL)
    # The hang clock would take 30 s.
    cluster.until(lambda: cluster.job(NAME)["state"] != "running", 10, "the end is noticed")
    wait_closed(cluster, NAME)
    began_with_a_rank(cluster)
    check("how is not known" in str(events(cluster)), "nobody claims to know how it ended")
    ends_well(cluster)


def ended(cluster):
    """D3: so is one that ended while its agent was away, too"""
    _, victim = begin(cluster)
    orphan(cluster, victim, meanwhile=lambda ranks: send(ranks[:1], signal.SIGKILL))
    wait_closed(cluster, NAME)
    began_with_a_rank(cluster)
    ends_well(cluster)


def no_proof(cluster):
    """D1, D3: without a cgroup nothing proves a node empty: fenced until a person vouches"""
    _, victim = begin(cluster)
    send(orphan(cluster, victim)[:1], signal.SIGKILL)
    wait_closed(cluster, NAME)
    check(victim not in cluster.slot_nodes(NAME), f"{victim} is not used")
    same(wait_over(cluster, NAME)["state"], "succeeded", "the job")
    node = cluster.get(f"/v1/nodes/{victim}")
    same([mark["code"] for mark in node["marks"] if mark["owner"] == "recovery"], ["unproven"],
         "why it is not used")
    cluster.cli("undrain", victim, "--clear", "unproven", "--reason", "looked, nothing runs there")
    cluster.until(lambda: cluster.spares() == NODES, 30, f"{victim} is used again")


# A cluster for each: a second failure that begins on one node would be the node's.
def in_its_own_cluster(test, flags=()):
    with Cluster(NODES, start_grace="300ms", beside=QUICK, agent_flags=flags) as cluster:
        cluster.start()
        return run_in_cluster([test], cluster)


if __name__ == "__main__":
    print(f"cgroups: {'yes' if has_cgroups() else 'no, and so no proof of emptiness'}")
    sys.exit(max(*map(in_its_own_cluster, (swept, end, ended)),
                 in_its_own_cluster(no_proof, ("--cgroup", "none"))))
