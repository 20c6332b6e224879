#!/usr/bin/env python3
"""demo.py: the main job on one machine, without a GPU, with real processes and real kills.

A controller, four active nodes of two ranks and two spares train a byte-level language model on the
licence texts that Debian ships: 2 x 2 x 2 ranks, tensor x pipeline x data parallel. Then:
  1. a node is killed whole with kill -9,
  2. the newest checkpoint is damaged and a rank of another node is killed, and while that recovery
     runs the controller is killed with kill -9 and started again,
  3. an operator drains a third node.
Each recovers by itself; the second from the checkpoint before the damaged one. The same job then
runs unbroken in a fresh process tree with an empty checkpoint folder, and the final weights are
compared bit for bit. build/demo/report.json says what was seen. `--keep` leaves the cluster running
afterwards, to play with.
"""

import argparse
import hashlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent))
from tests.lib.cluster import Cluster, Timeout, build_dir, trainer_spec  # noqa: E402

STEPS = 220
EVERY = 20       # steps between two checkpoints
STEP_MS = 80     # a floor for a step, so that a kill can hit a running one
JOB = "demo"


class Screen:
    """Progress as lines with the seconds since the start."""

    def __init__(self):
        self.begin = time.monotonic()

    def say(self, text):
        print(f"{time.monotonic() - self.begin:6.1f}s  {text}", flush=True)

    def head(self, text):
        print(f"\n{time.monotonic() - self.begin:6.1f}s  == {text}", flush=True)


def sha256(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()


def spec(cluster, weights, initial, seed=1, steps=STEPS):
    extra = ["--output-weights", weights, "--dump-initial-weights", initial]
    return trainer_spec(cluster, name=JOB, tensor=2, pipeline=2, data=2, steps=steps,
                        folder=cluster.folder / "ckpt", extra=extra, every=EVERY,
                        step_min_ms=STEP_MS, seed=seed)


def newest_line(cluster):
    """(step, loss) of the newest line in rank 0's output: fresher than any report; (0, None)."""
    status, text = cluster.request("GET", f"/v1/jobs/{JOB}/logs?rank=0&tail_bytes=400")
    found = re.findall(r"step (\d+) loss ([0-9.]+)", text) if status == 200 else []
    return (int(found[-1][0]), float(found[-1][1])) if found else (0, None)


def many(count, what):
    return f"{count} {what}{'' if count == 1 else 's'}"


def show_phases(screen, recovery):
    parts = [f"{p['name']} {p['ms'] / 1000:.2f}s" for p in recovery["phases"]]
    screen.say("   " + " | ".join(parts))
    blamed = ", ".join(recovery["blamed"]) or "nobody"
    for one in recovery["skipped"]:
        screen.say(f"   checkpoint of step {one['step']} passed over: {one['note']}")
    screen.say(f"   blamed {blamed}; {many(recovery['lost_steps'], 'step')} lost, "
               f"{many(recovery['moved_nodes'], 'node')} moved, "
               f"{many(recovery['shifted_ranks'], 'rank')} shifted, "
               f"{recovery['took_ms'] / 1000:.2f} s in all")


def wait_step(cluster, screen, step, seconds=60):
    """Until the job has done that step; shows the loss on the way."""
    cluster.until(lambda: (cluster.job(JOB) or {}).get("step", 0) >= step
                  and cluster.job(JOB)["state"] == "running", seconds, f"step {step}")
    now, loss = newest_line(cluster)
    screen.say(f"step {now}" + (f", loss {loss:.3f}" if loss else ""))


def off_checkpoint(cluster):
    """Waits until the newest completed step lies well between two checkpoints; returns it."""
    def between():
        step, _ = newest_line(cluster)
        return step if 5 <= step % EVERY <= EVERY - 6 else 0
    return cluster.until(between, 30, "a step between two checkpoints")


def wait_recovered(cluster, screen, known):
    """Until one more recovery than `known` is closed; shows and returns it."""
    def closed():
        found = [r for r in cluster.recoveries(JOB) if r["outcome"] != "open"]
        return found[0] if len(found) > known else None
    recovery = cluster.until(closed, 40, "the recovery is over")
    if recovery["outcome"] not in ("recovered", "succeeded"):
        raise Timeout(f"the recovery ended as {recovery['outcome']}: {recovery['why']}")
    show_phases(screen, recovery)
    return recovery


def fault_node(cluster, screen):
    screen.head("1. a node is killed whole (kill -9 of agent, shim and ranks)")
    victim = cluster.slot_nodes(JOB)[2]
    step = off_checkpoint(cluster)
    pids = cluster.kill_node(victim)
    screen.say(f"{victim}: {len(pids)} processes killed after step {step}, while the next one ran")
    return {"fault": "node", "node": victim, "step": step}


def damage_newest(cluster, screen):
    """Flips one bit in a shard of the newest complete checkpoint; returns its step."""
    newest = max((one for one in cluster.get(f"/v1/jobs/{JOB}/checkpoints")["items"]
                  if one["state"] == "complete"), key=lambda one: one["step"])
    shard = sorted(pathlib.Path(newest["directory"]).glob("shard-*"))[3]
    with open(shard, "r+b") as file:
        file.seek(shard.stat().st_size // 2)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 1]))
    screen.say(f"one bit flipped in {shard.parent.name}/{shard.name}")
    return newest["step"]


def fault_rank(cluster, screen):
    screen.head("2. the newest checkpoint is damaged, a rank killed, the controller too meanwhile")
    victim = cluster.slot_nodes(JOB)[1]
    step = off_checkpoint(cluster)
    damaged = damage_newest(cluster, screen)
    rank, pid = sorted(cluster.rank_pids(victim).items())[0]
    os.kill(pid, signal.SIGKILL)
    screen.say(f"rank {rank} on {victim} (pid {pid}) killed after step {step}, while the next one ran")
    cluster.until(lambda: (cluster.job(JOB) or {}).get("state") == "recovering", 10,
                  "the recovery begins")
    phase = cluster.job(JOB)["phase"]
    cluster.kill_controller()
    screen.say(f"controller killed in phase {phase}")
    cluster.start_controller()
    screen.say("controller started again")
    return {"fault": "rank", "node": victim, "rank": rank, "step": step, "damaged_step": damaged}


def fault_drain(cluster, screen):
    screen.head("3. an operator drains a node")
    victim = cluster.slot_nodes(JOB)[3]
    step, _ = newest_line(cluster)
    for line in cluster.cli("drain", victim, "--reason", "swap DIMMs, DC-4520").splitlines():
        screen.say(f"   {line}")
    return {"fault": "planned", "node": victim, "step": step}


def broken_run(cluster, screen, folder):
    cluster.start()
    screen.say(f"controller and {len(cluster.names)} agents are up")
    cluster.submit(spec(cluster, folder / "broken.weights", folder / "initial.weights"))
    wait_step(cluster, screen, 30)
    faults = []
    recoveries = []
    for fault, until_step in ((fault_node, 75), (fault_rank, 130), (fault_drain, 0)):
        faults.append(fault(cluster, screen))
        recoveries.append(wait_recovered(cluster, screen, len(recoveries)))
        if until_step:
            wait_step(cluster, screen, until_step)
    cluster.until_state(JOB, "succeeded", 60)
    screen.say("the job succeeded")
    return faults, recoveries


def plain_run(folder, name, seed, steps=STEPS, step_ms=0):
    """The same job unbroken, in a fresh cluster; returns the final weights' path."""
    with Cluster(4, folder=folder / name) as cluster:
        cluster.start()
        text = spec(cluster, folder / f"{name}.weights", folder / f"{name}.initial", seed, steps)
        cluster.submit(text.replace(f'"--step-min-ms", "{STEP_MS}"',
                                    f'"--step-min-ms", "{step_ms}"'))
        cluster.until_state(JOB, "succeeded", 120)
        if cluster.recoveries(JOB):
            raise Timeout("the unbroken run was broken")
    return folder / f"{name}.weights"


def commit_of_tree():
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True,
                          cwd=pathlib.Path(__file__).parent, check=False)
    return done.stdout.strip() or "unknown"


def make_report(faults, recoveries, hashes, seconds):
    listed = [{"id": r["id"], "cause": r["cause"], "blamed": r["blamed"], "why": r["why"],
               "phases_ms": {p["name"]: p["ms"] for p in r["phases"]}, "took_ms": r["took_ms"],
               "last_step": r["last_step"], "restore_step": r["restore_step"],
               "skipped": [{"step": one["step"], "why": one["note"]} for one in r["skipped"]],
               "lost_steps": r["lost_steps"], "moved_nodes": r["moved_nodes"],
               "shifted_ranks": r["shifted_ranks"]} for r in recoveries]
    return {"commit": commit_of_tree(), "weights_identical": hashes["broken"] == hashes["unbroken"],
            "sha256": hashes, "failures": len(faults), "faults": faults, "recoveries": listed,
            "wall_seconds": round(seconds, 1)}


def judge(report):
    """What the demo promises, as a list of what was broken."""
    wrong = []
    hashes = report["sha256"]
    if not report["weights_identical"]:
        wrong.append("the weights of the broken and the unbroken run differ")
    if len({hashes["broken"], hashes["initial"], hashes["other_seed"]}) != 3:
        wrong.append("initial weights, or those of another seed, equal the final ones")
    for fault, recovery in zip(report["faults"], report["recoveries"]):
        damaged = fault.get("damaged_step")
        if damaged is not None and (recovery["restore_step"] >= damaged or damaged not in
                                    [one["step"] for one in recovery["skipped"]]):
            wrong.append(f"the damaged checkpoint of step {damaged} was not passed over")
        if recovery["last_step"] < fault["step"]:
            wrong.append(f"{fault['fault']}: hit after step {fault['step']}, but the recovery knows "
                         f"of step {recovery['last_step']} only")
    causes = [r["cause"] for r in report["recoveries"]]
    if causes != ["node", "rank", "planned"]:
        wrong.append(f"causes are {causes}, not node, rank, planned")
    if not any(r["lost_steps"] >= 1 for r in report["recoveries"]):
        wrong.append("no recovery lost a step: the kills hit nothing")
    if any(r["shifted_ranks"] for r in report["recoveries"]):
        wrong.append("ranks were shifted")
    return wrong


def table(recoveries):
    print(f"\n{'ID':8}{'CAUSE':9}{'BLAMED':11}{'STOP':>7}{'PLAN':>7}{'CHECK':>7}{'LAUNCH':>8}"
          f"{'INIT':>7}{'RESTORE':>9}{'FIRST':>7}{'TOTAL':>8}{'LOST':>6}{'MOVED':>7}")
    for r in recoveries:
        ms = {p["name"]: p["ms"] for p in r["phases"]}
        cells = [f"{ms.get(n, 0) / 1000:.2f}s" for n in
                 ("stop", "plan", "check", "launch", "init", "restore", "first_step")]
        print(f"{r['id']:8}{r['cause']:9}{(r['blamed'] or ['-'])[0]:11}{cells[0]:>7}{cells[1]:>7}"
              f"{cells[2]:>7}{cells[3]:>8}{cells[4]:>7}{cells[5]:>9}{cells[6]:>7}"
              f"{r['took_ms'] / 1000:>7.2f}s{r['lost_steps']:>6}{r['moved_nodes']:>7}")


def next_steps(cluster, keep, report_path):
    exe = f"{os.path.relpath(build_dir())}/keepstep -s unix:{cluster.socket}"
    print(f"\nReport: {os.path.relpath(report_path)}")
    if keep:
        print(f"Left running. Try:\n  {exe} get nodes\n  {exe} recover history {JOB}\n"
              f"  {exe} describe job {JOB}\n  {exe} watch events --since-revision 0\n"
              f"  sqlite3 -readonly {cluster.database} 'SELECT * FROM last_night'\n"
              f"End it:  kill {cluster.controller.pid} "
              + " ".join(str(a.pid) for a in cluster.agents.values() if a.poll() is None))
    else:
        print("Try next:  make demo KEEP=1   leaves the cluster running, for\n"
              "  keepstep get nodes · recover show r-0002 · describe job demo · watch events")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--keep", action="store_true", help="leave the cluster running")
    keep = parser.parse_args().keep
    folder = build_dir() / "demo"
    subprocess.run(["rm", "-rf", str(folder)], check=True)
    folder.mkdir(parents=True)
    screen = Screen()
    cluster = Cluster(6, folder=folder / "cluster")
    done = False
    try:
        faults, recoveries = broken_run(cluster, screen, folder)
        screen.head("the same job unbroken, in a fresh process tree")
        plain_run(folder, "unbroken", seed=1)
        screen.say("done; and a short one with another seed")
        plain_run(folder, "other", seed=2)
        hashes = {"broken": sha256(folder / "broken.weights"),
                  "unbroken": sha256(folder / "unbroken.weights"),
                  "initial": sha256(folder / "initial.weights"),
                  "other_seed": sha256(folder / "other.weights")}
        report = make_report(faults, recoveries, hashes, time.monotonic() - screen.begin)
        wrong = judge(report)
        report["promises_broken"] = wrong
        (folder / "report.json").write_text(json.dumps(report, indent=2) + "\n")
        table(recoveries)
        print(f"\nweights identical: {report['weights_identical']}   sha256 "
              f"{hashes['broken'][:16]}… == {hashes['unbroken'][:16]}…   "
              f"{report['wall_seconds']} s in all")
        done = not wrong
        for one in wrong:
            print(f"BROKEN PROMISE: {one}", file=sys.stderr)
        next_steps(cluster, keep and done, folder / "report.json")
    except (Timeout, AssertionError) as error:
        print(f"\nThe demo failed: {error}\nLogs: {folder}/cluster/*.log", file=sys.stderr)
    finally:
        if not (keep and done):
            cluster.close()
    return 0 if done else 1


if __name__ == "__main__":
    sys.exit(main())
