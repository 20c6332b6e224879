#!/usr/bin/env python3
# runs alone: who is slow and who is frozen must not be confused
"""Agents under SIGSTOP. Alone, an agent is missed but its node keeps its ranks as long as the job's
steps advance; together with its ranks the node is lost and swapped."""

import sys

from cluster_lib import (QUICK, Cluster, check, once_each, os, query, run_in_cluster, same, send,
                         signal, starts, tiny, wait_closed, wait_step)

NAME = "j"


def node_of(cluster, name):
    return cluster.get(f"/v1/nodes/{name}")


def agent_alone(cluster):
    """an agent alone is frozen: missed, marked, never lost while steps advance; the mark goes"""
    cluster.submit(tiny(cluster, NAME, steps=5000, every=20, step_min_ms=50))
    wait_step(cluster, NAME, 5)
    victim = cluster.slot_nodes(NAME)[2]
    os.kill(cluster.agents[victim].pid, signal.SIGSTOP)
    cluster.until(lambda: node_of(cluster, victim)["marks"], 15, f"{victim} has a mark")
    same([(mark["code"], mark["level"]) for mark in node_of(cluster, victim)["marks"]],
         [("agent-silent", "no-new")], "marks")
    # The job's own step is that of the slowest slot, and that one is silent: ask another node's.
    def step_elsewhere():
        return max(slot["step"] for slot in cluster.job(NAME)["slots"])
    step = step_elsewhere()
    cluster.until(lambda: step_elsewhere() > step + 120, 30, "120 steps more")
    same(node_of(cluster, victim)["slot"], 2, "its slot")
    same((cluster.job(NAME)["state"], cluster.recoveries(NAME)), ("running", []), "the job")
    os.kill(cluster.agents[victim].pid, signal.SIGCONT)
    cluster.until(lambda: not node_of(cluster, victim)["marks"], 10, "the mark is gone")
    same(query(cluster, "SELECT count(*) FROM journal WHERE kind = 'node_lost'")[0][0], 0, "lost")
    same(starts(cluster, NAME), once_each((0,), 8), "processes started")


def agent_and_ranks(cluster):
    """agent and ranks are frozen: lost by what the peers say, and swapped; thawed, it is emptied"""
    victim = cluster.slot_nodes(NAME)[1]
    pids = cluster.node_pids(victim)
    send(pids, signal.SIGSTOP)
    recovery = wait_closed(cluster, NAME)
    same((recovery["cause"], recovery["blamed"], recovery["moved_nodes"]), ("node", [victim], 1),
         "the recovery")
    print(f"         recovered {recovery['took_ms'] / 1000:.1f} s after the first sign")
    check(victim not in cluster.slot_nodes(NAME), f"{victim} has left")
    wait_step(cluster, NAME, cluster.job(NAME)["step"] + 3)
    send(pids, signal.SIGCONT)
    cluster.until(lambda: not cluster.rank_pids(victim), 15, "its old ranks are ended")
    same(starts(cluster, NAME), once_each((0, 1), 8), "processes started")
    cluster.cli("cancel", NAME)
    cluster.until_state(NAME, "cancelled", 15)


if __name__ == "__main__":
    with Cluster(6, start_grace="300ms", beside=QUICK) as the_cluster:
        the_cluster.start()
        sys.exit(run_in_cluster([agent_alone, agent_and_ranks], the_cluster))
