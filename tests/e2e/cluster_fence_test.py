#!/usr/bin/env python3
# runs alone: its network has fixed addresses
"""The one case in which ranks end without an order: their node is cut off from the controller, they
stand still past the limit of their own phase, and peers say that they have the controller. When the
controller is lost to everybody, nothing is ended."""

import sys

from cluster_lib import (PORT_LOW, QUICK, Cluster, check, is_alive, once_each, run_tests, same,
                         send,
                         signal, starts, stub, wait_closed, wait_step)
from tests.lib import network

NAME = "j"
ASKED = "peers have their controller"
# The limit of a step is 30 s at least; then the peers are asked, who have 3 s to answer.
LIMIT = 60


class Fencing:
    """Agents that think of it after 5 s without a controller."""

    def start_agent(self, name, *flags):
        super().start_agent(name, "--fence-after", "5s", *flags)

    def said(self, name, text):
        return text in (self.folder / f"{name}.log").read_text(errors="replace")


class Here(Fencing, Cluster):
    pass


class Apart(Fencing, network.NetworkCluster):
    def cut_off(self, name):
        """Nothing passes between the node and the controller any more; peers are reached."""
        hub = self.address(None)
        network.run("nsenter", f"--net=/run/netns/{self.space(name)}", "iptables-restore",
                    text=f"*filter\n:INPUT ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n"
                    f"-A INPUT -s {hub}/32 -j DROP\n-A OUTPUT -d {hub}/32 -j DROP\nCOMMIT\n")


def run_job(cluster):
    """A running job; the name of a node of it, and the pids of its ranks there."""
    cluster.start()
    cluster.submit(stub(cluster, NAME, "--steps=90000", "--step-ms=50", "--save-every=20"))
    wait_step(cluster, NAME, 6)
    victim = cluster.slot_nodes(NAME)[1]
    return victim, list(cluster.rank_pids(victim).values())


def everybody_alone(cluster, victim, ranks):
    """D9: peers without a controller do not agree: standing ranks are not ended, and go on"""
    cluster.until(lambda: cluster.said(victim, ASKED), LIMIT, "the peers are asked")
    check(cluster.said(victim, f"fence: 0 of 4 {ASKED}"), "none of them has its controller")
    same([pid for pid in ranks if not is_alive(pid)], [], "ranks that were ended")
    check(not cluster.said(victim, "fence: 3"), "nobody agreed")
    send(ranks, signal.SIGCONT)
    cluster.start_controller()
    wait_step(cluster, NAME, 20)
    same(starts(cluster, NAME), once_each((0,), 4), "processes started")


def one_alone(cluster, victim, ranks):
    """D9: cut off alone, right after its agent's start: peers have the controller, its ranks end"""
    cluster.until(lambda: cluster.said(victim, ASKED), LIMIT, "the peers are asked")
    cluster.until(lambda: not any(is_alive(pid) for pid in ranks), 20, "its ranks are ended")
    check(cluster.said(victim, f"fence: 4 of 4 {ASKED}") or
          cluster.said(victim, f"fence: 3 of 4 {ASKED}"), "because they agreed")
    same(starts(cluster, NAME), once_each((0,), 4), "processes started")
    cluster.heal(victim)
    wait_closed(cluster, NAME)
    wait_step(cluster, NAME, 20)
    same(starts(cluster, NAME), once_each((0, 1), 4), "processes started")


def alone(here):
    """Loses the controller for all, and stops the ranks of one node."""
    victim, ranks = run_job(here)
    here.kill_controller()
    send(ranks, signal.SIGSTOP)
    return victim, ranks


def cut(apart):
    """Cuts one node off while its agent is away, and stops its ranks: what the agent knows when it is
    back is what it kept."""
    victim, ranks = run_job(apart)
    apart.agents[victim].kill()
    apart.agents[victim].wait()
    apart.cut_off(victim)
    send(ranks, signal.SIGSTOP)
    apart.start_agent(victim)
    return victim, ranks


def main():
    keys = {**QUICK, "rendezvous.port_low": PORT_LOW, "rendezvous.port_high": PORT_LOW + 49}
    with Here(6, start_grace="300ms", beside=keys) as here:
        first = alone(here)
        why = network.missing()
        if why is not None:
            print(f"skipped: {why} (one_alone)", flush=True)
            return run_tests([everybody_alone], here, *first)
        keys.update({"rendezvous.port_low": PORT_LOW + 50, "rendezvous.port_high": PORT_LOW + 99})
        with Apart(6, start_grace="300ms", beside=keys) as apart: # both wait at the same time
            second = cut(apart)
            return max(run_tests([everybody_alone], here, *first),
                       run_tests([one_alone], apart, *second))


if __name__ == "__main__":
    sys.exit(main())
