#!/usr/bin/env python3
"""What a program tells through keepstep.py, as an operator sees it: /v1/jobs/J/ranks, the condition
of a program that numbers its ranks in another way, and the callback that ends what hangs."""

import os
import pathlib
import signal
import sys
import time

from cluster_lib import (QUICK, Cluster, build_dir, check, run_in_cluster, same, spec_of, wait_over,
                         wait_step)

PYTHON = "/usr/bin/python3" if pathlib.Path("/usr/bin/python3").exists() else sys.executable
RANK = pathlib.Path(__file__).resolve().parent.parent.parent / "agent" / "rank"

# Steps without an end. argv: how to get the data rank from the rank; where to say what was heard.
PROGRAM = """
import os, pathlib, signal, sys, time
sys.path.insert(0, sys.argv[1])
import keepstep
restore = keepstep.restore_info()
rank, said = restore.rank, pathlib.Path(sys.argv[3])
def over():
    (said / f"aborted-{restore.attempt}-{rank}").write_text("")
    os._exit(75)
keepstep.on_abort(over)
keepstep.coordinates(data=eval(sys.argv[2]))
dp = keepstep.communicator("dp", "data")
pp = keepstep.communicator("pp", "pipeline")
keepstep.collective(pp, 3, 2, "receive", 1)
if sys.argv[4] == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
n = restore.step
while True:
    n += 1
    time.sleep(0.05)
    keepstep.step_compute(0.01 * (rank + 1))
    keepstep.loss(n, float("nan") if rank == 3 and n > 5 else n / 4)
    keepstep.gradient_norm(n, 0.0)
    keepstep.collective(dp, n + 1, n, "all-reduce")
    keepstep.step(n)
    if n % 10 == 0:
        keepstep.parameter_hash(n, n + (rank == 2))
"""


def program(cluster, name, data="rank", how=""):
    return spec_of(cluster, name,
                   ["/usr/bin/env", f"KEEPSTEP_LIBRARY={build_dir() / 'libkeepstep.so.0'}", PYTHON,
                    "-c", PROGRAM, RANK, data, cluster.folder, how])


def ranks(cluster, name):
    answer = cluster.get(f"/v1/jobs/{name}/ranks")
    return answer["items"] if answer else []


def shown(cluster):
    """what ranks tell is shown, of all of them and of one"""
    cluster.submit(program(cluster, "told"))
    wait_step(cluster, "told", 45)
    cluster.until(lambda: all(one["parameter_hash"] for one in ranks(cluster, "told")), 10,
                  "hashes")
    items = ranks(cluster, "told")
    same([one["rank"] for one in items], [0, 1, 2, 3], "ranks")
    for one in items:
        same((one["state"], one["phase"], one["data"], one["node"]),
             ("running", "step", one["rank"], cluster.slot_nodes("told")[one["rank"] // 2]),
             "a rank")
        same(one["coordinates_computed"], {"tensor": 0, "context": 0, "pipeline": 0,
                                           "data": one["rank"]}, "coordinates")
        dp, pp = one["communicators"]
        same((dp["name"], dp["axis"], dp["operation"], dp["peer"]),
             ("dp", "data", "all-reduce", None),
             "its communicator")
        same(dp["enqueued"], dp["completed"] + 1, "its counts")
        same(pp, {"name": "pp", "axis": "pipeline", "enqueued": 3, "completed": 2,
                  "operation": "receive", "peer": 1}, "the other one")
    same([one["loss"] == "nan" for one in items], [False, False, False, True], "losses")
    same({one["gradient_norm"] for one in items}, {0.0}, "gradient norms")
    whole = cluster.get("/v1/jobs/told/ranks/2")
    steps = [step["step"] for step in whole["steps"]]
    same(steps, list(range(steps[0], steps[0] + 32)), "steps of one rank")
    check(all(step["loss"] == step["step"] / 4 and step["compute_seconds"] == 0.03
              for step in whole["steps"]), f"its values: {whole['steps'][:2]}")
    check(all(int(one["hash"], 16) == one["step"] + 1 for one in whole["parameter_hashes"]),
          f"its hashes: {whole['parameter_hashes']}")
    seen = set(steps)  # a reader of once a second loses no step
    while len(seen) < 100:
        time.sleep(0.5)
        seen |= {step["step"] for step in cluster.get("/v1/jobs/told/ranks/2")["steps"]}
    same(sorted(seen), list(range(min(seen), max(seen) + 1)), "steps seen")
    page = cluster.get("/v1/jobs/told/ranks?limit=3")
    same(len(page["items"]), 3, "a page")
    rest = cluster.get(f"/v1/jobs/told/ranks?cursor={page['next']}")
    same([one["rank"] for one in rest["items"]], [3], "the next page")
    check(not any(one["type"] == "LayoutMismatch" for one in cluster.job("told")["conditions"]),
          "no mismatch")


def again(cluster):
    """a controller that starts anew knows it again within the agents' ten seconds"""
    cluster.kill_controller()
    cluster.start_controller()
    cluster.until(lambda: len(ranks(cluster, "told")) == 4 and
                  all(one["communicators"] for one in ranks(cluster, "told")), 20,
                  "all is told again")
    cluster.cli("cancel", "told")
    same(wait_over(cluster, "told")["state"], "cancelled", "the job")
    same(list(cluster.folder.glob("aborted-*")), [], "a cancelled job's ranks may use their grace")


def mismatch(cluster):
    """a program that numbers its ranks otherwise is shown at once, with what to do"""
    cluster.submit(program(cluster, "other", data="3 - rank"))
    def condition():
        return next((one for one in cluster.job("other")["conditions"]
                     if one["type"] == "LayoutMismatch"), None)
    found = cluster.until(condition, 10, "the condition")
    cluster.until(lambda: condition()["message"].startswith("4 ranks differ: rank 0 computed"), 10,
                  f"all of them ({condition()['message']})")
    for part in ("data 3, but tp-cp-pp-dp makes it", "blame by stage is off", "layout.order"):
        check(part in condition()["message"], f"{part} in {condition()['message']}")
    same(found["status"], "True", "status")
    check("LayoutMismatch" in cluster.cli("describe", "job", "other"), "describe shows it")
    cluster.cli("cancel", "other")
    wait_over(cluster, "other")


def abort(cluster):
    """when a rank fails the others are told to abort, before KILL and though they are deaf to TERM"""
    cluster.submit(program(cluster, "stuck", how="deaf"))
    wait_step(cluster, "stuck", 10)
    victim = cluster.slot_nodes("stuck")[1]
    os.kill(cluster.rank_pids(victim)[3], signal.SIGKILL)
    cluster.until(lambda: (cluster.job("stuck") or {}).get("attempt") == 1, 20, "the next attempt")
    heard = sorted(path.name for path in cluster.folder.glob("aborted-0-*"))
    same(heard, ["aborted-0-0", "aborted-0-1", "aborted-0-2"], "ranks of attempt 0 that heard it")
    wait_step(cluster, "stuck", 5)
    same(list(cluster.folder.glob("aborted-1-*")), [], "attempt 1")
    cluster.cli("cancel", "stuck")
    wait_over(cluster, "stuck")


if __name__ == "__main__":
    if b"__asan" in (build_dir() / "libkeepstep.so.0").read_bytes() or \
            b"__tsan" in (build_dir() / "libkeepstep.so.0").read_bytes():
        print("skipped: a sanitizer's library cannot be loaded into a plain interpreter")
        sys.exit(77)
    with Cluster(3, start_grace="300ms", beside=QUICK) as the_cluster:
        the_cluster.start()
        sys.exit(run_in_cluster([shown, again, mismatch, abort], the_cluster))
