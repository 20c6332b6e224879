#!/usr/bin/env python3
"""deploy/examples/pytorch as it is shipped: an ordinary DDP script of two ranks on two nodes, one
spare. A node is killed whole: the job ends with the weights of a run that nobody disturbed, bit for
bit; so does the same script without one line of Keepstep in it, whose steps are known from what it
prints. Needs Debian's python3-torch."""

import os
import re
import sys

from cluster_lib import (QUICK, ROOT, Cluster, all_usable, build_dir, check, no_torch, rank_log,
                         run_in_cluster, same, sha256, wait_over, whoami)

EXAMPLE = ROOT / "deploy" / "examples" / "pytorch"
STEPS = 120
EVERY = 20
KILL_AFTER = 45  # a step between two saves


def plain_script(folder):
    """The script without the lines that name Keepstep."""
    lines = (EXAMPLE / "train.py").read_text().splitlines(keepends=True)
    calls = [line for line in lines if re.search(r"\bkeepstep\.\w+\(|^import keepstep", line)]
    same(len(calls), 3, "lines of Keepstep in train.py: the import, and two")
    path = folder / "plain.py"
    path.write_text("".join(line for line in lines if line not in calls))
    return path


def job(cluster, name, script=None, pace="0.03"):
    """The example's job file, for this cluster."""
    folder = cluster.folder / name
    folder.mkdir(exist_ok=True)
    text = (EXAMPLE / "job.yaml").read_text()
    changes = {
        "name: ddp": f"name: {name}",
        "/usr/share/keepstep/examples/pytorch/train.py": str(script or EXAMPLE / "train.py"),
        "/shared/ddp": str(folder),
        "PYTHONPATH: /usr/share/keepstep/python":
            f"PYTHONPATH: {ROOT / 'agent' / 'rank'}, GLOO_SOCKET_IFNAME: lo, "
            f"KEEPSTEP_LIBRARY: {build_dir() / 'libkeepstep.so.0'}",
        '"200", --checkpoint-every, "20"]':
            f'"{STEPS}", --checkpoint-every, "{EVERY}", --pace, "{pace}", --weights, '
            f'"{folder}.weights"]',
        "layout:": f"  user: {whoami()}\n  allow_root: {'true' if os.getuid() == 0 else 'false'}\n"
                   "layout:",
    }
    for old, new in changes.items():
        check(old in text, f"job.yaml has {old!r}")
        text = text.replace(old, new)
    return text


def weights(cluster, name):
    return sha256(cluster.folder / f"{name}.weights")


def said(cluster, name, attempt):
    """What rank 0 printed in an attempt, on whichever node it was."""
    number = cluster.job(name)["id"]
    for node in cluster.names:
        try:
            return rank_log(cluster, node, number, attempt, 0)
        except OSError:
            continue
    return ""


def steps_done(cluster, name):
    """By the checkpoints on disk: also for a script that tells nobody of its steps."""
    return max((int(re.match(r"step-(\d+)", path.name).group(1))
                for path in (cluster.folder / name).glob("step-*")), default=0)


def unbroken(cluster):
    """the run that nobody disturbs"""
    cluster.submit(job(cluster, "calm", pace="0"))
    done = wait_over(cluster, "calm")
    same((done["state"], done["attempt"], done["step"]), ("succeeded", 0, STEPS), "the job")
    losses = [float(one) for one in re.findall(r"loss ([\d.]+)", said(cluster, "calm", 0))]
    check(losses[0] > losses[-1], f"its loss falls: {losses}")
    found = cluster.get("/v1/jobs/calm/checkpoints")["items"]
    same([one["step"] for one in found if one["state"] == "complete"],
         list(range(STEPS, 0, -EVERY)), "checkpoints that it said were done")


def kill_one(cluster, name, ready):
    cluster.until(ready, 60, f"{name} is far enough")
    victim = cluster.slot_nodes(name)[1]
    cluster.kill_node(victim)
    done = wait_over(cluster, name, 90)
    same(done["state"], "succeeded", f"the job: {done['reason']}")
    same(done["attempt"], 1, "attempts: one more")
    check(victim not in cluster.slot_nodes(name), f"{victim} was swapped")
    begun = int(re.search(r"begins at step (\d+) of", said(cluster, name, 1)).group(1))
    check(begun > 1 and (begun - 1) % EVERY == 0, f"it began again at step {begun}")
    same(weights(cluster, name), weights(cluster, "calm"), "weights")
    cluster.start_agent(victim)
    return begun


def killed(cluster):
    """a node is killed whole: the same weights, bit for bit"""
    cluster.submit(job(cluster, "broken"))
    begun = kill_one(cluster, "broken",
                     lambda: (cluster.job("broken") or {}).get("step", 0) >= KILL_AFTER)
    recovery = cluster.recoveries("broken")[0]
    same((recovery["restore_step"], recovery["moved_nodes"]), (begun - 1, 1), "the recovery")
    same(recovery["lost_steps"], recovery["last_step"] - recovery["restore_step"], "steps lost")
    print(f"         began again at step {begun}, {recovery['lost_steps']} steps lost, recovered in "
          f"{recovery['took_ms'] / 1000:.1f} s")


def killed_plain(cluster):
    """the same without a line of Keepstep in the script, by what it prints"""
    all_usable(cluster, 30)
    cluster.submit(job(cluster, "plain", script=plain_script(cluster.folder)))
    begun = kill_one(cluster, "plain", lambda: steps_done(cluster, "plain") >= 2 * EVERY)
    same(cluster.get("/v1/jobs/plain/checkpoints")["items"], [], "checkpoints that it told of")
    recovery = cluster.recoveries("plain")[0]
    check(recovery["last_step"] in (begun - 1, begun - 1 + EVERY),
          f"it was seen to print step {recovery['last_step']}, and began again at {begun}")
    same(recovery["lost_steps"], recovery["last_step"], "steps lost, since it told of no save")
    print(f"         began again at step {begun} by itself, was seen at {recovery['last_step']}, "
          f"recovered in {recovery['took_ms'] / 1000:.1f} s")


def main():
    missing = no_torch()
    if missing:
        print(f"skipped: {missing}")
        return 77
    library = (build_dir() / "libkeepstep.so.0").read_bytes()
    if b"__asan" in library or b"__tsan" in library:
        print("skipped: a sanitizer's library cannot be loaded into a plain interpreter")
        return 77
    with Cluster(3, ranks_per_node=1, start_grace="300ms", beside=QUICK) as cluster:
        cluster.start()
        return run_in_cluster([unbroken, killed, killed_plain], cluster)


if __name__ == "__main__":
    sys.exit(main())
