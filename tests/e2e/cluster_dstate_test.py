#!/usr/bin/env python3
"""A rank in D state, which no signal ends: its node is fenced and swapped, the job does not wait
for it, and the node is used again only when it is proven empty."""

import subprocess
import sys

from cluster_lib import (QUICK, Cluster, Skipped, build_dir, check, once_each, pathlib,
                         process_state, recorded, run_in_cluster, same, send, signal, spec_of,
                         start_lines, starts, wait_closed, wait_over, wait_step)

GRACE = 1.0  # signals.recovery_grace of the job
EXTRA = 2.0  # timing.kill_extra: what a node gets beyond it to prove itself empty
NAME = "stuck"


class Hanging:
    """A file system of which no answer ever comes."""

    def __init__(self, folder):
        folder.mkdir()
        self.process = subprocess.Popen([build_dir() / "tests" / "bin" / "fuse_dstate", folder],
                                        stdout=subprocess.PIPE, text=True)
        first = self.process.stdout.readline().strip()
        if first != "mounted":
            self.process.wait()
            raise Skipped(first.removeprefix("skipped: ") or "no FUSE")

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(10)


def job(cluster, hanging):
    """Ranks of which number 3 of attempt 0 touches the hanging folder at step 8."""
    rank = f"{cluster.build}/tests/bin/rank_stub --folder={cluster.folder}/ckpt-{NAME} " \
        "--steps=150 --step-ms=40"
    script = f'[ "$RANK.$KEEPSTEP_ATTEMPT" = 3.0 ] && exec {rank} --touch={hanging}/file ' \
        f"--touch-at=8; exec {rank}"
    return recorded(cluster, NAME, spec_of(cluster, NAME, ["/bin/sh", "-c", script]), witness=True)


def waits_in_kernel(pid):
    """For an answer of the hanging file system, or behind another one that does."""
    place = pathlib.Path(f"/proc/{pid}/wchan").read_text()
    return place in ("request_wait_answer", "path_openat", "d_alloc_parallel", "lookup_slow")


def stuck_rank(cluster):
    """D1, D8: a rank in D state: its node is fenced, swapped, not waited for, later taken back"""
    folder = cluster.folder / "hanging"
    hanging = Hanging(folder)
    try:
        cluster.submit(job(cluster, folder))
        wait_step(cluster, NAME, 5)
        other, node = cluster.slot_nodes(NAME)
        stuck = cluster.rank_pids(node)[3]
        cluster.until(lambda: waits_in_kernel(stuck), 10, "rank 3 hangs")
        send([cluster.rank_pids(other)[0]], signal.SIGKILL)
        recovery = wait_closed(cluster, NAME)
        same(process_state(stuck), "D", "state of the stuck rank")
        same((recovery["cause"], recovery["outcome"]), ("rank", "recovered"), "the recovery")
        check(node not in cluster.slot_nodes(NAME), f"{node} has left the job")
        codes = [mark["code"] for mark in cluster.get(f"/v1/nodes/{node}")["marks"]]
        check("unproven" in codes, f"marks of {node}: {codes}")
        phases = {phase["name"]: phase["ms"] / 1000 for phase in recovery["phases"]}
        print(f"         phases in s: {phases}")
        check(GRACE + EXTRA - 0.2 <= phases["stop"] < GRACE + EXTRA + 5,
              "stop took grace and extra")
        check(sum(phases.values()) - phases["detect"] - phases["stop"] < 10,
              "the other phases do not wait for the stuck node")
        lines = [line for line in start_lines(cluster, NAME) if line["attempt"] == 1]
        check(all(line["node"] != node for line in lines), "nothing of attempt 1 ran on it")
        same([line["left"] for line in lines], [[]] * 4, "alive where attempt 1 started")
    finally:
        hanging.end()
    # Freed, the rank dies at once; the agent proves the node empty, and the mark goes.
    cluster.until(lambda: not cluster.get(f"/v1/nodes/{node}")["marks"], 20,
                  f"{node} is proven empty")
    same(process_state(stuck) in (None, "Z"), True, "the stuck rank is gone")
    same(wait_over(cluster, NAME)["state"], "succeeded", "the job")
    same(starts(cluster, NAME), once_each((0, 1), 4), "processes started")


if __name__ == "__main__":
    beside = {**QUICK, "timing.kill_extra": "2s"}
    with Cluster(3, start_grace="300ms", beside=beside) as the_cluster:
        the_cluster.start()
        sys.exit(run_in_cluster([stuck_rank], the_cluster))
