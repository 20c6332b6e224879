#!/usr/bin/env python3
"""The README's own questions to the database, put to that of a real run with sqlite3: a node is
killed, the job recovers and ends, and each answer has rows and names who it should."""

import re
import shutil
import subprocess
import sys

from cluster_lib import (QUICK, ROOT, Cluster, Skipped, check, run_tests, same, show, tiny,
                         wait_closed, wait_step)

JOB = "demo"
# Answers that must name the node that was killed: those drawn from one of these views.
OF_NODES = ("last_night", "node_history", "slot_holder")


def questions():
    """The text of each ```sql block of the README."""
    text = (ROOT / "README.md").read_text()
    return [block.strip() for block in re.findall(r"^```sql\n(.*?)^```", text, re.M | re.S)]


def ask(cluster, question):
    """What the sqlite3 program prints, without a header; it must not complain."""
    done = subprocess.run(["sqlite3", "-readonly", str(cluster.database), question],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20,
                          check=False)
    same((done.returncode, done.stderr), (0, ""), question)
    return done.stdout.splitlines()


def victim(cluster, asked):
    """The node to kill: the one that the README asks about, or any that holds a slot."""
    holders = cluster.slot_nodes(JOB)
    named = set(re.findall(r"gpu-\d{4}", " ".join(asked)))
    check(len(named) < 2, f"the README names several nodes: {named}")
    check(named <= set(holders), f"the README asks about {named}, the job runs on {holders}")
    return (named or {holders[1]}).pop()


def broken_run(cluster, asked):
    """The job loses a node, recovers and succeeds; returns the node."""
    cluster.start_controller()
    # The nodes that are there first are those that the job gets; the rest are its spares.
    for group in (cluster.names[:4], cluster.names[4:]):
        before = max(cluster.spares(), 0)
        for name in group:
            cluster.start_agent(name)
        cluster.until(lambda: cluster.spares() == before + len(group), 20, "the nodes are ready")
        if not before:
            cluster.submit(tiny(cluster, JOB, steps=40, every=5))
            wait_step(cluster, JOB, 7)
    node = victim(cluster, asked)
    cluster.kill_node(node)
    wait_closed(cluster, JOB)
    cluster.until_state(JOB, "succeeded", 40)
    return node


def judge_answers(cluster, asked, node):
    for question in asked:
        rows = ask(cluster, question)
        check(rows, f"no row answers:\n{question}")
        if any(view in question for view in OF_NODES):
            check(any(node in row for row in rows),
                  f"{node} was killed, and no row of this says so:\n{question}\n"
                  + "\n".join(rows))


def test_answers():
    """the README's questions are answered after a night with a lost node (Done 5)"""
    if shutil.which("sqlite3") is None:
        raise Skipped("sqlite3 is not installed")
    asked = questions()
    check(len(asked) >= 3, f"the README has {len(asked)} questions to the database, not 3")
    with Cluster(6, beside=QUICK) as cluster:
        try:
            node = broken_run(cluster, asked)
            judge_answers(cluster, asked, node)
            # The same beside nobody: who looks the morning after may have stopped the controller.
            cluster.controller.terminate()
            cluster.controller.wait()
            judge_answers(cluster, asked, node)
        except BaseException:
            show(cluster)
            raise


if __name__ == "__main__":
    sys.exit(run_tests([test_answers]))
