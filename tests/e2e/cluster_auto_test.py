#!/usr/bin/env python3
"""What is chosen for a job: how often it saves, how many spares it keeps, what is said of both."""

import os
import sys

from cluster_lib import (QUICK, Cluster, check, journal, query, run_in_cluster, same, tiny,
                         wait_step)

# Seconds that a chosen interval is waited for.
PATIENCE = 90 if os.environ.get("KEEPSTEP_TEST_ALL") else 15


def with_keys(text, interval, more=""):
    """The job file with an interval of saves."""
    return text.replace("drain_wait: 20s}", f"drain_wait: 20s, interval: {interval}}}") + more


def complete(cluster, name):
    """Steps of the job's complete checkpoints, newest first."""
    items = cluster.get(f"/v1/jobs/{name}/checkpoints?state=complete")["items"]
    return [one["step"] for one in items]


def stop(cluster, name):
    cluster.cli("cancel", name)
    cluster.until_state(name, "cancelled", 30)


def asked(cluster, name):
    """the controller asks a trainer that never saves by itself, as often as its file says"""
    cluster.submit(with_keys(tiny(cluster, name, data=2, steps=100000, every=0), "1s"))
    cluster.until(lambda: len(complete(cluster, name)) >= 4, 30, "four saves")
    job = cluster.job(name)
    interval = job["interval"]
    same((interval["origin"], interval["seconds"], interval["asks"], interval["chosen"]),
         ("file", 1.0, True, None), "the interval")
    check(interval["best_seconds"] >= 10, interval)
    # A save that stands for less than a millisecond costs nothing: then the best is what is allowed.
    costly = interval["stall_seconds"] > 0
    check(interval["best_cost"] > 0 and (interval["gain"] > 0) == costly and
          (interval["cost"] > interval["best_cost"]) == costly, interval)
    text = cluster.cli("describe", "job", name)
    check("Interval:     each 1.0 s (file), costs" in text, text)
    begins = query(cluster, "SELECT wall_ms FROM journal WHERE kind = 'checkpoint_moved' "
                   "AND json_extract(body, '$.state') = 'writing' AND subject = ? ORDER BY seq",
                   f"job/{name}")
    gaps = [b[0] - a[0] for a, b in zip(begins, begins[1:])]
    check(all(gap >= 990 for gap in gaps), f"ms between saves: {gaps}")
    same([body for kind, subject, body in journal(cluster, "interval_chosen")], [], "choices")
    stop(cluster, name)


def chosen(cluster, name):
    """interval: auto is chosen by what a save was measured to take, stays, and counts"""
    cluster.submit(with_keys(tiny(cluster, name, data=2, steps=100000, every=0), "auto"))
    wait_step(cluster, name, 3)
    interval = cluster.until(lambda: (cluster.job(name)["interval"]["chosen"] and
                                      cluster.job(name)["interval"]), 10, "a first choice")
    same((interval["origin"], interval["chosen"]["saves"], interval["chosen"]["seconds"]),
         ("auto", 0, 120.0), "before a save was measured")
    cluster.cli("checkpoint", "now", name)
    first = cluster.until(lambda: complete(cluster, name), 20, "the save that was asked for")
    interval = cluster.until(lambda: (cluster.job(name)["interval"]["chosen"]["saves"] == 1 and
                                      cluster.job(name)["interval"]), 10, "a choice")
    one = interval["chosen"]
    same((one["stall_seconds"], one["save_seconds"], one["failures"]),
         (interval["stall_seconds"], interval["save_seconds"], 0), "what was measured")
    check(86400 <= one["failure_gap_seconds"] < 86400 + 600, one)
    best = max((2 * max(one["stall_seconds"], 0.001) * one["failure_gap_seconds"]) ** 0.5,
               one["save_seconds"], 10)
    check(abs(one["seconds"] - best) <= best / 50 + one["stall_seconds"], f"{one}, not {best}")
    check("(auto), costs" in cluster.cli("describe", "job", name), "describe")
    cluster.kill_controller()
    cluster.start_controller()
    cluster.until_state(name, "running", 20)
    same(cluster.job(name)["interval"]["chosen"], one, "the choice after a restart")
    if one["seconds"] > PATIENCE:
        print(f"         the next save, due after {one['seconds']:.0f} s, is not waited for")
    else:
        cluster.until(lambda: complete(cluster, name) > first, one["seconds"] + 30,
                      "a save by itself")
    stop(cluster, name)


def kept(cluster, name):
    """a reserve is kept from other jobs; too few spares are said, as a condition and in events"""
    cluster.submit(tiny(cluster, name, data=2, steps=100000, every=0,
                        more="spares: {reserve: 2, min_ready: 2}\n"))
    cluster.until_state(name, "running", 20)
    spares = cluster.job(name)["spares"]
    same((spares["origin"], spares["reserve"], spares["wanted"], spares["ready"], spares["low"]),
         ("file", 2, 2, 2, False), "spares")
    cluster.submit(tiny(cluster, "second", data=2, steps=100000, every=0))
    reason = cluster.until(lambda: cluster.job("second")["reason"], 10, "a reason")
    same(reason, "waits for nodes: 1 wanted, 2 usable now, 2 of them kept for other jobs", "reason")
    cluster.cli("cordon", "gpu-0003", "--reason", "test")
    event = cluster.until(lambda: [body for _, _, body in journal(cluster, "spares_low")], 30,
                          "too few spares")
    same((event[0]["low"], event[0]["ready"], event[0]["wanted"]), (True, 1, 2), "the record")
    text = cluster.cli("describe", "job", name)
    check("Spares:       2 reserved, 1 ready, 2 wanted: LOW" in text, text)
    rows = [row.split() for row in cluster.cli("get", "spares").splitlines()]
    check(["kept", "2", "file", "1", "2", "yes"] in rows, rows)
    condition = [one for one in cluster.job(name)["conditions"] if one["type"] == "Protected"]
    same([(one["status"], one["reason"]) for one in condition], [("False", "SparesLow")],
         "condition")
    cluster.cli("uncordon", "gpu-0003")
    cluster.until(lambda: not cluster.job(name)["spares"]["low"], 30, "enough again")
    stop(cluster, name)
    cluster.until_state("second", "running", 20)
    stop(cluster, "second")


def auto_reserve(cluster, name):
    """spares.reserve: auto is a number with its reasons; what is no number is refused"""
    text = tiny(cluster, name, data=2, steps=100000, every=0, more="spares: {reserve: auto}\n")
    cluster.submit(text)
    one = cluster.until(lambda: (cluster.job(name) or {"spares": {}})["spares"].get("chosen"), 20,
                        "a choice")
    same((one["count"], one["losses"], one["away_seconds"]), (0, 0, 86400.0), "one node")
    check(one["node_gap_seconds"] > 260 * 86400, one)
    listed = cluster.get("/v1/spares")["items"][0]
    same(listed["jobs"], [], "jobs that keep spares") # it keeps none
    stop(cluster, name)
    for key, wanted in (("reserve: some", "spares.reserve"), ("reserve: -1", "spares.reserve")):
        path = cluster.folder / "bad.yaml"
        path.write_text(text.replace("reserve: auto", key))
        done = cluster.cli("submit", str(path), ok=None)
        same(done.returncode, 2, done.stderr)
        check(wanted in done.stderr, done.stderr)


def main():
    with Cluster(3, start_grace="300ms", beside=QUICK) as cluster:
        cluster.start()
        tests = [asked, chosen, kept, auto_reserve]
        return run_in_cluster([named(test) for test in tests], cluster)


def named(test):
    """The test with the name of its job."""
    def run(cluster):
        test(cluster, test.__name__.replace("_", "-"))
    run.__doc__ = test.__doc__
    return run


if __name__ == "__main__":
    sys.exit(main())
