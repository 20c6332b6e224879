#!/usr/bin/env python3
"""The disk under the journal fills up, and is read-only later. In a mount namespace of its own."""

import json
import os
import re
import subprocess
import sys

from cluster_lib import (QUICK, Cluster, check, query, rank_log, run_in_cluster, same, tiny,
                         wait_over, wait_step)

NAME = "j"
INSIDE = "KEEPSTEP_TEST_MOUNTS"


def ready(cluster):
    return cluster.request("GET", "/readyz")


def step_said(cluster, node):
    found = re.findall(r"step (\d+)", rank_log(cluster, node, 1, 0, 0))
    return int(found[-1]) if found else 0


def newest_step(cluster):
    return cluster.get(f"/v1/jobs/{NAME}/checkpoints")["items"][0]["step"]


def fill(cluster):
    """Leaves not one free block; returns the file that did it."""
    path = cluster.database.parent / "filler"
    with open(path, "wb", buffering=0) as file:
        for size in (65536, 4096, 512, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                pass
    return path


def disk_full(cluster):
    """F11: no space for the journal: the job trains on, readiness says why, it ends by itself"""
    cluster.submit(tiny(cluster, NAME, data=4, steps=5000, every=20, step_min_ms=40))
    wait_step(cluster, NAME, 5)
    node = cluster.slot_nodes(NAME)[0]
    filler = fill(cluster)
    status, problem = cluster.until(lambda: ready(cluster)[0] == 503 and ready(cluster), 30,
                                    "it is not ready")
    text = json.dumps(problem)
    check("full" in text or "space" in text, text)
    step = step_said(cluster, node)
    cluster.until(lambda: step_said(cluster, node) > step + 60, 30, "steps go on")
    durable = query(cluster, "SELECT max(seq) FROM journal")[0][0]
    filler.unlink()
    cluster.until(lambda: ready(cluster)[0] == 200, 30, "it is ready again")
    cluster.until(lambda: query(cluster, "SELECT max(seq) FROM journal")[0][0] > durable, 10,
                  "the journal goes on")
    # What was saved meanwhile is known now, and nobody was judged.
    saved = step_said(cluster, node) // 20 * 20
    cluster.until(lambda: newest_step(cluster) >= saved, 10, f"checkpoint {saved} is known")
    same((cluster.recoveries(NAME), cluster.job(NAME)["attempt"]), ([], 0), "recoveries, attempt")


def no_holes(cluster):
    """after it, the journal has no hole and folds to the same tables"""
    rows = query(cluster, "SELECT count(*), min(seq), max(seq) FROM journal")[0]
    same(rows[0], rows[2] - rows[1] + 1, "records without holes")
    cluster.cli("cancel", NAME, "-y")
    same(wait_over(cluster, NAME)["state"], "cancelled", "the job")
    cluster.controller.terminate()
    same(cluster.controller.wait(20), 0, "a clean end")
    done = subprocess.run([cluster.build / "keepstep-controller", "--config",
                           cluster.folder / "controller.yaml", "--database", cluster.database,
                           "--rebuild"], capture_output=True, text=True, timeout=30, check=False)
    same(done.returncode, 0, done.stderr)


def read_only(cluster):
    """a read-only file system: a clear error, status 4"""
    folder = cluster.database.parent
    subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
    done = subprocess.run([cluster.build / "keepstep-controller", "--config",
                           cluster.folder / "controller.yaml", "--database", cluster.database,
                           "--listen-rest", "", "--listen-socket", "", "--listen-agents",
                           "127.0.0.1:0"],
                          capture_output=True, text=True, timeout=30, check=False)
    same(done.returncode, 4, done.stderr)
    check("read-only" in done.stderr.lower() or "cannot be written" in done.stderr, done.stderr)


def main():
    if os.environ.get(INSIDE) != "1":
        if subprocess.run(["unshare", "--mount", "true"], capture_output=True,
                          check=False).returncode:
            print("skipped: no mount namespace can be made here")
            return 77
        os.execvpe("unshare", ["unshare", "--mount", sys.executable, __file__],
                   {**os.environ, INSIDE: "1"})
    with Cluster(2, start_grace="300ms", beside=QUICK) as cluster:
        folder = cluster.folder / "database"
        folder.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", folder], check=True)
        cluster.database = folder / "keepstep.db"
        cluster.start()
        code = run_in_cluster([disk_full, no_holes, read_only], cluster)
    return code


if __name__ == "__main__":
    sys.exit(main())
