#!/usr/bin/env python3
"""The controller is away, dead or frozen: ranks train on, nobody is judged, and all agents are back
in bounded time."""

import re
import sys
import time

from cluster_lib import (ALL, QUICK, Cluster, is_alive, once_each, os, query, rank_log,
                         run_in_cluster, same, signal, starts, tiny, wait_step)

NAME = "j"
AWAY = 60 if ALL else 10
BACK = 8  # the backoff of an agent ends at 5 s, and it may have to try once more


def step_said(cluster, node):
    """The last step that rank 0 printed; no controller is needed to read it."""
    found = re.findall(r"step (\d+)", rank_log(cluster, node, 1, 0, 0))
    return int(found[-1]) if found else 0


def connected(cluster):
    nodes = cluster.get("/v1/nodes")
    return sum(node["connected"] for node in nodes["items"]) if nodes else 0


def while_away(cluster, node, seconds):
    """Waits that long; the step counter has to rise all along."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        before = step_said(cluster, node)
        cluster.until(lambda step=before: step_said(cluster, node) > step, 5, "steps go on")
        time.sleep(0.5)  # an absence is a length of time: there is no event to wait for


def unharmed(cluster, pids, judged):
    same(all(is_alive(pid) for pid in pids), True, "the same processes are alive")
    same(starts(cluster, NAME), once_each((0,), 8), "processes started")
    same(cluster.recoveries(NAME), [], "recoveries")
    same(query(cluster, "SELECT count(*) FROM journal WHERE kind IN "
               "('node_lost', 'mark_added', 'incident_opened')")[0][0], judged, "judgements")


def killed(cluster):
    """A15, F4: the controller is dead for a while: steps go on, no rank restarts, agents return"""
    cluster.submit(tiny(cluster, NAME, steps=5000, every=50, step_min_ms=50))
    wait_step(cluster, NAME, 5)
    nodes = cluster.slot_nodes(NAME)
    pids = [pid for node in nodes for pid in cluster.rank_pids(node).values()]
    same(len(pids), 8, "ranks")
    cluster.kill_controller()
    while_away(cluster, nodes[0], AWAY)
    cluster.start_controller()
    begun = time.monotonic()
    cluster.until(lambda: connected(cluster) == 6, BACK, "all agents are back")
    print(f"         all agents were back after {time.monotonic() - begun:.1f} s")
    wait_step(cluster, NAME, step_said(cluster, nodes[0]))
    unharmed(cluster, pids, 0)


def stopped(cluster):
    """B4: the controller is frozen for 10 s: when it wakes up nobody is dead"""
    nodes = cluster.slot_nodes(NAME)
    pids = [pid for node in nodes for pid in cluster.rank_pids(node).values()]
    os.kill(cluster.controller.pid, signal.SIGSTOP)
    while_away(cluster, nodes[0], 10)
    os.kill(cluster.controller.pid, signal.SIGCONT)
    cluster.until(lambda: connected(cluster) == 6, BACK, "all agents are back")
    wait_step(cluster, NAME, step_said(cluster, nodes[0]))
    unharmed(cluster, pids, 0)
    cluster.cli("cancel", NAME)
    cluster.until_state(NAME, "cancelled", 15)


if __name__ == "__main__":
    with Cluster(6, start_grace="2s", beside=QUICK) as the_cluster:
        the_cluster.start()
        sys.exit(run_in_cluster([killed, stopped], the_cluster))
