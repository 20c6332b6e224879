#!/usr/bin/env python3
# runs alone: its network has fixed addresses
"""Hosts that fall silent, each in a network namespace of its own: a whole host, and only one
direction of the way to the controller."""

import sys
import time

from cluster_lib import (QUICK, check, is_alive, journal, once_each, run_in_cluster, same, send,
                         signal, starts, tiny, wait_closed, wait_step)
from tests.lib import network

NAME = "j"
STOPPED_S = 15 # case A8 asks for no more


def filter_one_way(cluster, node, chain):
    """Drops what the node sends to the controller (OUTPUT -d), or gets from it (INPUT -s)."""
    network.run("nsenter", f"--net=/run/netns/{cluster.space(node)}", "iptables-restore",
                text=f"*filter\n:INPUT ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n"
                f"-A {chain} {cluster.address(None)}/32 -j DROP\nCOMMIT\n")


def node_of(cluster, name):
    return cluster.get(f"/v1/nodes/{name}")


def steps_elsewhere(cluster, node):
    """The furthest step that the slots of other nodes have reported."""
    return max(slot["step"] for slot in cluster.job(NAME)["slots"] if slot["node"] != node)


def one_way(cluster, chain):
    victim = cluster.slot_nodes(NAME)[1]
    known = len(cluster.recoveries(NAME))
    filter_one_way(cluster, victim, chain)
    cluster.until(lambda: not node_of(cluster, victim)["connected"] or
                  node_of(cluster, victim)["state"] == "suspect", 20, f"{victim} is missed")
    step = steps_elsewhere(cluster, victim)
    cluster.until(lambda: steps_elsewhere(cluster, victim) > step + 100, 30, "100 steps more")
    same((node_of(cluster, victim)["slot"], cluster.job(NAME)["state"]), (1, "running"),
         "slot, job")
    cluster.heal(victim)
    cluster.until(lambda: node_of(cluster, victim)["connected"] and not node_of(cluster,
                                                                                victim)["marks"]
                  and node_of(cluster, victim)["state"] == "healthy", 20, f"{victim} is back")
    same(len(cluster.recoveries(NAME)), known, "recoveries")
    same(starts(cluster, NAME), once_each((0,), 6), "processes started")


def deaf_controller(cluster):
    """B1: what a node sends to the controller is lost: its peers vouch for it, its ranks stay"""
    cluster.submit(tiny(cluster, NAME, data=6, steps=9000, every=25, step_min_ms=50,
                        extra=["--batch", 12]))
    wait_step(cluster, NAME, 5)
    one_way(cluster, "OUTPUT -d")


def mute_controller(cluster):
    """B1: what the controller sends to a node is lost: the same"""
    one_way(cluster, "INPUT -s")


def silent_host(cluster):
    """a host falls silent: lost by the word of two peers, swapped; D10: no phase waits for it"""
    before = cluster.slot_nodes(NAME)
    victim = before[2]
    ranks = list(cluster.rank_pids(victim).values())
    cluster.silence(victim)
    recovery = wait_closed(cluster, NAME)
    same((recovery["cause"], recovery["blamed"], recovery["moved_nodes"]), ("node", [victim], 1),
         "the recovery")
    phases = {phase["name"]: phase["ms"] for phase in recovery["phases"]}
    print(f"         detect {phases['detect']} ms, {recovery['took_ms']} ms in all: {phases}")
    check(sum(phases.values()) < 30000, "no phase waits for the silent host")
    kinds = [kind for kind, subject, _ in journal(cluster, "node_lost", "recovery_plan",
                                                  "launch_ordered")]
    check(kinds.index("node_lost") < len(kinds) - kinds[::-1].index("recovery_plan"), kinds)
    check(all(is_alive(pid) for pid in ranks), "its ranks are alive over there")
    check(victim not in cluster.slot_nodes(NAME), "it has left the job")
    wait_step(cluster, NAME, cluster.job(NAME)["step"] + 5)
    cluster.silenced = victim, ranks


def healed(cluster):
    """when the host is back its old ranks are ended, and only then it may be used again"""
    victim, ranks = cluster.silenced
    same([mark["code"] for mark in node_of(cluster, victim)["marks"]], ["unproven"], "marks")
    cluster.heal(victim)
    cluster.until(lambda: not any(is_alive(pid) for pid in ranks), 20, "its old ranks are ended")
    cluster.until(lambda: not node_of(cluster, victim)["marks"], 20, "it is proven empty")
    same(starts(cluster, NAME), once_each((0, 1), 6), "processes started")
    cluster.cli("cancel", NAME, "-y")
    cluster.until_state(NAME, "cancelled", 15)


def waits(rank):
    """It is in an operation of its communicators, and for a second nothing was heard of a step."""
    inside = any(one["enqueued"] > one["completed"] for one in rank["communicators"])
    return inside and rank["phase_age_seconds"] > 1


def blocked_in_receive(cluster):
    """A8: a host dies and nothing says so: ranks that wait in a receive are all stopped in time"""
    name = "receive"
    cluster.submit(tiny(cluster, name, data=6, steps=9000, every=25, step_min_ms=50,
                        extra=["--batch", 12]))
    wait_step(cluster, name, 30)
    nodes = cluster.slot_nodes(name)
    victim = nodes[1]
    mates = [pid for node in nodes if node != victim
             for pid in cluster.rank_pids(node).values()]
    same(len(mates), 4, "survivors")
    cluster.silence(victim) # first, so that no end of a connection is heard
    lost = time.monotonic()
    send(cluster.rank_pids(victim).values(), signal.SIGKILL)
    cluster.until(lambda: sum(waits(rank) for rank in cluster.get(f"/v1/jobs/{name}/ranks")["items"]
                              if rank["node"] != victim) == 4, 4, "survivors wait for their mate",
                  every=0.2)
    waiting_s = time.monotonic() - lost
    check(all(is_alive(pid) for pid in mates), "they wait, and give up by themselves never")
    cluster.until(lambda: not any(is_alive(pid) for pid in mates), 60, "all survivors are stopped")
    stopped_s = time.monotonic() - lost
    recovery = wait_closed(cluster, name)
    same((recovery["cause"], recovery["blamed"], recovery["moved_nodes"]), ("node", [victim], 1),
         "the recovery")
    kinds = [kind for kind, _, body in journal(cluster, "node_lost", "attempt_ended",
                                               "launch_ordered")
             if kind == "node_lost" or body["job"] == cluster.job(name)["id"]]
    same(kinds[-3:], ["node_lost", "attempt_ended", "launch_ordered"], "what followed on what")
    wait_step(cluster, name, cluster.job(name)["step"] + 5)
    same(starts(cluster, name), once_each((0, 1), 6), "processes started")
    print(f"         4 survivors waited {waiting_s:.1f} s after the loss, and were stopped after "
          f"{stopped_s:.1f} s, all of them")
    check(stopped_s < STOPPED_S, f"stopped within {STOPPED_S} s")
    cluster.heal(victim)
    cluster.cli("cancel", name, "-y")
    cluster.until_state(name, "cancelled", 15)


def main():
    why = network.missing()
    if why is not None:
        print(f"skipped: {why}")
        return 77
    with network.NetworkCluster(4, start_grace="300ms", beside=QUICK) as cluster:
        cluster.start()
        return run_in_cluster([deaf_controller, mute_controller, silent_host, healed,
                               blocked_in_receive], cluster)


if __name__ == "__main__":
    sys.exit(main())
