#!/usr/bin/env python3
"""Budgets are durable: one counter, whoever is killed in between."""

import os
import sys

from cluster_lib import (QUICK, Cluster, check, once_each, run_in_cluster, same, signal, starts,
                         tiny, wait_closed, wait_over, wait_step)


def one_counter(cluster):
    """A11: three ranks die, agent and controller are killed in between: the counter reads 3"""
    name = "budget"
    cluster.submit(tiny(cluster, name, data=8, steps=400, every=1000, step_min_ms=30,
                        more="recovery: {retries: {user: 0, unknown: 3}, no_progress_limit: 10}"))
    wait_step(cluster, name, 3)
    nodes = cluster.slot_nodes(name)
    # Different deaths on different nodes: alike, they would be the job's fault or the node's. None
    # is one that a sanitizer turns into an exit.
    deaths = (signal.SIGKILL, signal.SIGQUIT, signal.SIGXCPU)
    for count, (node, number) in enumerate(zip(nodes, deaths), 1):
        wait_step(cluster, name, 3 + count)
        os.kill(sorted(cluster.rank_pids(node).values())[0], number)
        wait_closed(cluster, name, count)
        same(cluster.job(name)["budget"]["unknown_used"], count, f"counter after {count} deaths")
        if count == 1:
            cluster.agents[node].kill()
            cluster.agents[node].wait()
            cluster.start_agent(node)
        if count == 2:
            cluster.kill_controller()
            cluster.start_controller()
            cluster.until(lambda: cluster.job(name), 10, "the job is there")
            same(cluster.job(name)["budget"]["unknown_used"], 2, "counter after a restart")
    wait_step(cluster, name, 3)
    os.kill(sorted(cluster.rank_pids(nodes[3]).values())[0], signal.SIGUSR2)
    cluster.until_state(name, "held", 15)
    job = cluster.job(name)
    check("recovery.retries.unknown is 3" in job["reason"], job["reason"])
    same(starts(cluster, name), once_each(range(4), 8), "processes started")
    cluster.cli("cancel", name)
    cluster.until_state(name, "cancelled", 15)


if __name__ == "__main__":
    with Cluster(4, start_grace="300ms", beside=QUICK) as the_cluster:
        the_cluster.start()
        sys.exit(run_in_cluster([one_counter], the_cluster))
