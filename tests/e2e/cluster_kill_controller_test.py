#!/usr/bin/env python3
"""kill -9 of the controller around its journal records, while a job starts, loses a rank, recovers
and ends: every run comes to the same end as the undisturbed one, and nothing is started twice."""

import sys

from cluster_lib import (ALL, CRASHED, QUICK, Cluster, check, journal, once_each, run_tests, same,
                         show, starts, tiny, weights)

JOB = "j"
WHEN = ("before", "after", "mid") # its commit; then, amid what rests on it
DECISIONS = ("job_submitted", "job_moved", "attempt_made", "slot_taken",
             "recovery_opened", "recovery_plan", "recovery_closed", "attempt_ended", "blamed",
             "slot_done", "slot_left")
MOVES = ("recovering", "held", "stopping", "succeeded", "failed", "cancelled")
TIMELESS = ("since_service_ms", "from", "lost_steps", "last_step", "step", "phase", "stepped",
            "text_hash")


def decisions(cluster):
    """What was decided, without the times, each kind in its own order."""
    wanted = {}
    names = {body["node"]: subject for _, subject, body in journal(cluster, "node_joined")}
    for kind, subject, body in journal(cluster, *DECISIONS):
        if kind == "job_moved" and body["to"] not in MOVES:
            continue # a rank may crash before a controller that is away has seen the job run
        facts = {key: value for key, value in body.items() if key not in TIMELESS}
        if "node" in facts: # ids are given in the order of arrival
            facts["node"] = names[facts["node"]]
        if facts.get("outcome") == "succeeded":
            facts["outcome"] = "recovered" # the job ended while its controller was away
        wanted.setdefault(kind, []).append((subject, sorted(facts.items(), key=str)))
    wanted["slot_done"] = sorted(wanted.get("slot_done", []), key=str)
    return wanted


def final_state(cluster):
    job = cluster.job(JOB)
    checkpoints = cluster.get(f"/v1/jobs/{JOB}/checkpoints")["items"]
    nodes = cluster.get("/v1/nodes")["items"]
    return {
        "job": [job[key] for key in ("state", "attempt", "step")],
        # Which attempt wrote a step is a race between its last save and its rank's crash.
        "checkpoints": sorted({one["step"] for one in checkpoints if one["state"] == "complete"}),
        "nodes": sorted((one["name"], one["state"], one["role"]) for one in nodes),
        "weights": weights(cluster, JOB),
    }


def scenario(crash=None):
    """Runs it; returns what happened. The controller is started again whenever it died."""
    seen = {"deaths": 0}
    with Cluster(6, start_grace="300ms", beside=QUICK) as cluster:
        def alive():
            if cluster.controller.poll() is None:
                return True
            same(cluster.controller.returncode, CRASHED, cluster.tail("controller.log"))
            seen["deaths"] += 1
            cluster.start_controller()
            return True

        def submitted():
            # A user whose submit was cut off says it again: name and file make it one job.
            cluster.cli("submit", str(path), ok=(0, 6))
            return alive() and cluster.job(JOB) is not None

        def over():
            return alive() and (cluster.job(JOB) or {}).get("state") in ("succeeded", "failed")

        try:
            cluster.start_controller(*([f"--crash-at={crash}"] if crash else []), wait=False)
            for name in cluster.names:
                cluster.start_agent(name)
            cluster.until(lambda: alive() and cluster.spares() == 6, 20, "all nodes are ready")
            path = cluster.folder / "job.yaml"
            path.write_text(tiny(cluster, JOB, steps=30, every=8,
                                 extra=["--inject", "crash@20:rank=3:attempt=0"]))
            cluster.until(submitted, 20, "the job is there")
            cluster.cli("submit", str(path), ok=(0, 6))
            cluster.until(over, 60, "the job is over")
            cluster.until(lambda: alive() and cluster.spares() == 6, 20, "all nodes are free")
            seen["decisions"] = decisions(cluster)
            seen["state"] = final_state(cluster)
            seen["starts"] = starts(cluster, JOB)
            seen["records"] = len(journal(cluster))
        except BaseException:
            show(cluster)
            raise
    return seen


def compare(crash, undisturbed):
    seen = scenario(crash)
    # A run may end with a record or two less than the undisturbed one, and so before the last n.
    reached = seen["records"] > int(crash.split(":")[1])
    same(seen["deaths"], 1 if reached else seen["deaths"], f"{crash}: deaths of the controller")
    same(seen["starts"], once_each((0, 1), 8), f"{crash}: processes started")
    same(seen["state"], undisturbed["state"], f"{crash}: final state")
    for kind in DECISIONS:
        same(seen["decisions"].get(kind), undisturbed["decisions"].get(kind), f"{crash}: {kind}")


def main():
    undisturbed = {}

    def quiet_run():
        """an undisturbed run: a rank crashes once, the job recovers and succeeds"""
        undisturbed.update(scenario())
        same(undisturbed["starts"], once_each((0, 1), 8), "processes started")
        same(undisturbed["state"]["job"], ["succeeded", 1, 30], "the job")

    code = run_tests([quiet_run])
    if code != 0:
        return code
    records = undisturbed["records"]
    check(records > 60, f"{records} records")

    def at(when, number):
        def test():
            compare(f"{when}:{number}", undisturbed)
        test.__doc__ = f"the controller dies {when} record {number} of {records} (Done 2, F3)"
        return test

    if ALL:
        moments = [(when, number) for number in range(1, records + 1) for when in WHEN]
    else: # spread over the scenario, each moment in turn
        moments = [(WHEN[i % len(WHEN)], 1 + i * (records - 3) // 11) for i in range(12)]
    return run_tests([at(when, number) for when, number in moments])


if __name__ == "__main__":
    sys.exit(main())
