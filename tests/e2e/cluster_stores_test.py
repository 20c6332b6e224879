#!/usr/bin/env python3
"""What becomes of running ranks when the database under them is lost, old, damaged or somebody
else's: nobody is stopped, and what can be said is said."""

import contextlib
import shutil
import sqlite3
import subprocess
import sys

from cluster_lib import (QUICK, Cluster, check, once_each, os, processes_of, run_in_cluster, same,
                         sha256, signal, starts, tiny, wait_closed, wait_step)

NAME = "j"
DATABASE_STATUS = 4  # the controller's exit status for a database that it cannot use


def all_ranks(cluster, name=NAME):
    return sorted(pid for pid, environ in processes_of(cluster, name).items()
                  if b"RANK=" in environ)


def copy_database(cluster, target):
    """The files as they are; the controller must be away."""
    target.mkdir()
    for path in cluster.folder.glob("keepstep.db*"):
        shutil.copy(path, target / path.name)


def put_database(cluster, source=None):
    """Makes the database what it was in the copy; gone without one."""
    for path in cluster.folder.glob("keepstep.db*"):
        path.unlink()
    for path in source.iterdir() if source else ():
        shutil.copy(path, cluster.folder / path.name)


def foreign(cluster):
    """Sets of ranks that run and that the store does not know."""
    return [one for one in cluster.get("/v1/foreign")["items"] if one["running"]]


def tries_to_start(cluster, *flags):
    """(exit status, what it said) of a controller that is expected to end at once."""
    done = subprocess.run(
        [cluster.build / "keepstep-controller", "--config", cluster.folder / "controller.yaml",
         "--database", cluster.database, "--listen-agents", "127.0.0.1:0", "--listen-rest", "",
         "--listen-socket", "", *flags], capture_output=True, text=True, timeout=30, check=False)
    return done.returncode, done.stdout + done.stderr


def started_twice(cluster):
    """F1: a second controller on the same database ends with 4; the first and the job go on"""
    cluster.submit(tiny(cluster, NAME, data=4, steps=5000, every=50, step_min_ms=40))
    wait_step(cluster, NAME, 5)
    status, text = tries_to_start(cluster)
    same(status, DATABASE_STATUS, text)
    check("controller" in text, text)
    wait_step(cluster, NAME, cluster.job(NAME)["step"] + 3)
    same(cluster.get("/v1/cluster")["term"], 1, "term")


def yesterdays(cluster):
    """yesterday's database: automation holds and says why; nobody is stopped; adopt goes on"""
    cluster.kill_controller()
    copy_database(cluster, cluster.folder / "yesterday")
    cluster.start_controller()
    wait_step(cluster, NAME, cluster.job(NAME)["step"] + 3)
    os.kill(sorted(cluster.rank_pids(cluster.slot_nodes(NAME)[0]).values())[0], signal.SIGKILL)
    wait_closed(cluster, NAME)
    wait_step(cluster, NAME, 3)
    ranks = all_ranks(cluster)
    cluster.kill_controller()
    copy_database(cluster, cluster.folder / "today")
    put_database(cluster, cluster.folder / "yesterday")
    cluster.start_controller()
    cluster.until(lambda: (cluster.get("/v1/automation") or {}).get("held"), 15, "automation holds")
    text = cluster.get("/v1/automation")["held_text"]
    check("attempt 1" in text and "older" in text, text)
    cluster.until(lambda: len(foreign(cluster)) == 2, 15, "foreign ranks are listed")
    same(all_ranks(cluster), ranks, "the ranks")
    cluster.cli("admin", "adopt", "--reason", "restored the backup", "-y")
    cluster.until(lambda: not cluster.get("/v1/automation")["held"], 5, "automation goes on")
    cluster.until(lambda: cluster.job(NAME)["attempt"] == 1, 10, "the attempt is known")
    wait_step(cluster, NAME, 3)
    same(all_ranks(cluster), ranks, "the ranks")
    same(starts(cluster, NAME), once_each((0, 1), 4), "processes started")


def damaged_node_row(cluster):
    """a damaged row of a node: that node is left alone, the controller starts, the job goes on"""
    ranks = all_ranks(cluster)
    node = cluster.slot_nodes(NAME)[1]
    cluster.kill_controller()
    copy_database(cluster, cluster.folder / "sound")
    with contextlib.closing(sqlite3.connect(cluster.database)) as connection:
        connection.execute("UPDATE journal SET body = '{\"node\": \"x\"}' WHERE seq = "
                           "(SELECT max(seq) FROM journal WHERE kind = 'node_moved' "
                           "AND subject = ?)", ("node/" + node,))
        connection.commit()
    cluster.start_controller()
    cluster.until(lambda: all(one["connected"] for one in cluster.get("/v1/nodes")["items"]), 15,
                  "all agents are back")
    shown = {one["name"]: one for one in cluster.get("/v1/nodes")["items"]}[node]
    same(shown["state"], "unknown", "the state of the node")
    check("quarantined" in [mark["code"] for mark in shown["marks"]], shown)
    wait_step(cluster, NAME, cluster.job(NAME)["step"] + 3)
    same(cluster.job(NAME)["state"], "running", "the job")
    same(all_ranks(cluster), ranks, "the ranks")
    cluster.kill_controller()
    put_database(cluster, cluster.folder / "sound")
    cluster.start_controller()
    wait_step(cluster, NAME, cluster.job(NAME)["step"] + 1)
    same(all_ranks(cluster), ranks, "the ranks")


def damaged_row(cluster):
    """F3: a damaged row: the job is quarantined, the controller starts, the ranks are left alone"""
    ranks = all_ranks(cluster)
    cluster.kill_controller()
    copy_database(cluster, cluster.folder / "whole")
    with contextlib.closing(sqlite3.connect(cluster.database)) as connection:
        connection.execute("UPDATE journal SET body = '{' WHERE seq = "
                           "(SELECT max(seq) FROM journal WHERE kind = 'job_moved')")
        connection.commit()
    cluster.start_controller()
    cluster.until(lambda: cluster.spares() == 1, 15, "the spare is back")
    conditions = {one["type"]: one for one in cluster.job(NAME)["conditions"]}
    check("Quarantined" in conditions, conditions)
    cluster.until(lambda: all(node["connected"] for node in cluster.get("/v1/nodes")["items"]), 15,
                  "all agents are back")
    same(all_ranks(cluster), ranks, "the ranks")
    cluster.kill_controller()
    put_database(cluster, cluster.folder / "whole")
    cluster.start_controller()
    wait_step(cluster, NAME, cluster.job(NAME)["step"] + 1)
    same(all_ranks(cluster), ranks, "the ranks")


def refused_files(cluster):
    """a foreign file and a newer database: a clear error, status 4, not a byte written"""
    cluster.kill_controller()
    copy_database(cluster, cluster.folder / "good")

    def refused(words):
        before = {path.name: sha256(path) for path in cluster.folder.glob("keepstep.db*")
                  if not path.name.endswith("-shm")}
        status, text = tries_to_start(cluster)
        after = {path.name: sha256(path) for path in cluster.folder.glob("keepstep.db*")
                 if not path.name.endswith("-shm")}
        same((status, after), (DATABASE_STATUS, before), text)
        check(any(word in text for word in words), text)

    put_database(cluster)
    cluster.database.write_bytes(b"this is a letter, and no database\n" * 400)
    refused(["no SQLite database"])
    put_database(cluster)
    with contextlib.closing(sqlite3.connect(cluster.database)) as connection:
        connection.execute("CREATE TABLE letters (text)")
        connection.commit()
    refused(["another program", "not of keepstep", "not a keepstep", "no keepstep"])
    put_database(cluster, cluster.folder / "good")
    with contextlib.closing(sqlite3.connect(cluster.database)) as connection:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        connection.execute(f"PRAGMA user_version = {version + 1}")
        connection.commit()
    refused(["newer"])
    put_database(cluster, cluster.folder / "good")
    cluster.start_controller()
    wait_step(cluster, NAME, 3)


def empty(cluster):
    """an empty database: agents refuse it, or their ranks are listed as foreign; all run on"""
    ranks = all_ranks(cluster)
    cluster_id = cluster.get("/v1/cluster")["cluster_id"]
    cluster.kill_controller()
    put_database(cluster)
    cluster.start_controller()
    cluster.until(lambda: "another cluster" in cluster.tail("gpu-0001.log"), 15, "agents refuse it")
    same((cluster.get("/v1/nodes")["items"], all_ranks(cluster)), ([], ranks), "nodes, ranks")
    cluster.kill_controller()
    put_database(cluster)
    cluster.start_controller("--cluster-id", cluster_id)
    cluster.until(lambda: len(foreign(cluster)) == 2, 15, "foreign ranks are listed")
    cluster.until(lambda: cluster.get("/v1/automation")["held"], 5,
                  "its term is older: automation holds")
    same((cluster.get("/v1/jobs")["items"], all_ranks(cluster)), ([], ranks), "jobs, ranks")
    text = cluster.cli("admin", "adopt", "--reason", "the disk is gone", "-y")
    check("belong to no job that this store knows" in text, text)
    cluster.until(lambda: cluster.spares() == 1, 20, "the spare is usable")
    cluster.until(lambda: all(node["connected"] for node in cluster.get("/v1/nodes")["items"]), 15,
                  "all agents are back")
    same((len(foreign(cluster)), all_ranks(cluster)), (2, ranks), "foreign, ranks")
    cluster.cli("admin", "stop-foreign", "--reason", "nobody needs them", "-y")
    cluster.until(lambda: not all_ranks(cluster), 45, "an operator has ended them")
    cluster.until(lambda: cluster.spares() == 3, 15, "all nodes are usable")
    cluster.submit(tiny(cluster, "next", data=6, steps=8, extra=["--batch", 12]))
    cluster.until_state("next", "succeeded", 20)


if __name__ == "__main__":
    with Cluster(3, start_grace="300ms", beside=QUICK) as the_cluster:
        the_cluster.start()
        sys.exit(run_in_cluster([started_twice, yesterdays, damaged_row, damaged_node_row,
                                 refused_files, empty],
                                the_cluster))
