#!/usr/bin/env python3
"""Messages that are lost with their connection, arrive twice, or much too late: one failure is one
recovery, whatever became of the messages that told of it."""

import os
import sys
import threading

import controller_lib as wire
from cluster_lib import (QUICK, Cluster, check, once_each, run_in_cluster, same, signal, starts,
                         tiny, wait_closed, wait_over, wait_step)
from tests.lib.proxy import CUT, KEEP, PASS, TWICE, Proxy

RANK_ENDS = 4  # kind of the message (PROTOCOL.md)
STEPS = 400


class ProxiedCluster(Cluster):
    """Every agent reaches the controller through a proxy of its own."""

    def __init__(self, nodes, **more):
        super().__init__(nodes, **more)
        self.proxies = {name: Proxy(self.agent_port) for name in self.names}

    def dials(self, name):
        return f"127.0.0.1:{self.proxies[name].port}"

    def close(self):
        for proxy in self.proxies.values():
            proxy.close()
        super().close()


class Cutter:
    """Cuts the connection in place of each of the first `count` frames that fit."""

    def __init__(self, count, fits):
        self.left = count
        self.fits = fits
        self.lock = threading.Lock()

    def __call__(self, frame):
        with self.lock:
            if self.left > 0 and self.fits(frame):
                self.left -= 1
                return CUT
        return PASS


def fail_a_rank(cluster, name, node):
    """Kills a rank of the node; the recovery that follows, closed."""
    os.kill(sorted(cluster.rank_pids(node).values())[0], signal.SIGKILL)
    return wait_closed(cluster, name)


def once_only(cluster, name, recovery):
    """One recovery, of a rank's end, one new attempt, and the job ends well."""
    same((recovery["cause"], recovery["outcome"]), ("rank", "recovered"), "the recovery")
    cluster.cli("cancel", name, "-y")
    job = wait_over(cluster, name)
    same((job["attempt"], job["recoveries"]), (1, 1), "attempt and recoveries")
    same(starts(cluster, name), once_each((0, 1), 4), "processes started")


def begin(cluster, name):
    """A running job of two nodes; the node whose messages are tampered with."""
    cluster.submit(tiny(cluster, name, data=4, steps=STEPS, every=10, step_min_ms=40))
    wait_step(cluster, name, 3)
    return cluster.slot_nodes(name)[1]


def cut_at_publish(cluster):
    """B9: the connection dies in place of the report, three times: it is said again until heard"""
    node = begin(cluster, "published")
    cutter = Cutter(3, lambda frame: frame.up)
    cluster.proxies[node].decide = cutter
    recovery = fail_a_rank(cluster, "published", node)
    same(cutter.left, 0, "connections still to cut")
    once_only(cluster, "published", recovery)


def cut_at_answer(cluster):
    """B9: the connection dies in place of the acknowledgement: said again, and obeyed once"""
    node = begin(cluster, "answered")
    heard = threading.Event()

    def told(frame):
        if frame.up and frame.kind == RANK_ENDS:
            heard.set()
        return not frame.up and frame.kind == wire.ACK and heard.is_set()
    cutter = Cutter(2, told)
    cluster.proxies[node].decide = cutter
    recovery = fail_a_rank(cluster, "answered", node)
    cluster.until(lambda: cutter.left == 0, 20, "two acknowledgements are cut")
    once_only(cluster, "answered", recovery)


def everything_twice(cluster):
    """every message of a node arrives twice, both ways: nothing happens twice"""
    node = begin(cluster, "twice")
    # A second hello breaks the protocol: only what follows it is doubled.
    cluster.proxies[node].decide = lambda frame: PASS if frame.kind == wire.HELLO else TWICE
    recovery = fail_a_rank(cluster, "twice", node)
    once_only(cluster, "twice", recovery)


def late_report(cluster):
    """A2: what attempt 0 had to say of its end arrives when attempt 1 runs: it changes nothing"""
    node = begin(cluster, "late")
    proxy = cluster.proxies[node]
    proxy.decide = lambda frame: KEEP if frame.up and frame.kind == RANK_ENDS else PASS
    recovery = fail_a_rank(cluster, "late", node)
    proxy.decide = lambda frame: PASS
    wait_step(cluster, "late", cluster.job("late")["step"] + 2)
    check(proxy.release() > 0, "reports were kept back")
    wait_step(cluster, "late", cluster.job("late")["step"] + 10)
    once_only(cluster, "late", recovery)


# A cluster for each: a second failure that begins on one node would be the node's.
def in_its_own_cluster(test):
    with ProxiedCluster(3, start_grace="300ms", beside=QUICK) as cluster:
        cluster.start()
        return run_in_cluster([test], cluster)


if __name__ == "__main__":
    sys.exit(max(map(in_its_own_cluster, (cut_at_publish, cut_at_answer, everything_twice,
                                          late_report))))
