#!/usr/bin/env python3
# runs alone: eight ranks of PyTorch need all there is
"""deploy/examples/pytorch/parallel3d.py and its job file: eight ranks of PyTorch, 2 tensor x 2
pipeline x 2 data on four nodes and a spare, under Keepstep; a node is killed whole. An unbroken run
under plain torchrun, and one rank alone, say what must come out."""

import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from trainer_lib import free_port
from cluster_lib import (DEBIAN_PYTHON, QUICK, ROOT, Cluster, check, is_alive, no_torch, rank_log,
                         run_tests, same, show, tree_hashes, wait_closed, wait_over, whoami)

EXAMPLE = ROOT / "deploy" / "examples" / "pytorch" / "parallel3d.py"
JOB_FILE = EXAMPLE.with_suffix(".yaml")
STEPS, EVERY = 25, 10
KILL_AT = 13  # between two checkpoints
JOB = "parallel3d"
NEVER = 93


def environment(**more):
    return {"PATH": "/usr/local/bin:/usr/bin:/bin", "OMP_NUM_THREADS": "1",
            "GLOO_SOCKET_IFNAME": "lo", **more}


def losses(text):
    """{step: loss as it was printed}"""
    return dict(re.findall(r"^step (\d+) loss (\S+)$", text, re.MULTILINE))


def weights_of(text):
    found = re.findall(r"^weights ([0-9a-f]{64})$", text, re.MULTILINE)
    same(len(found), 1, f"lines with the final weights in\n{text[-2000:]}")
    return found[0]


def flags(folder):
    return ["--steps", str(STEPS), "--checkpoint-every", str(EVERY), "--checkpoint-dir",
            str(folder)]


def under_torchrun(folder):
    folder.mkdir()
    # -r and -t: see torchrun_env_test.py
    done = subprocess.run(
        [DEBIAN_PYTHON, "-m", "torch.distributed.run", "--nnodes", "1", "--nproc_per_node", "8",
         "--master_port", str(free_port()), "--monitor_interval", "0.1", "-r", "9:3", "-t", "9:3",
         str(EXAMPLE), *flags(folder)],
        env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=200,
        check=False)
    same(done.returncode, 0, f"torchrun:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout


def alone(folder, *words, **more):
    """One rank, started by hand: (exit code, stdout, stderr)."""
    folder.mkdir(exist_ok=True)
    done = subprocess.run(
        [DEBIAN_PYTHON, str(EXAMPLE), "--tensor", "1", "--pipeline", "1", *flags(folder), *words],
        env=environment(RANK="0", WORLD_SIZE="1", LOCAL_RANK="0", MASTER_ADDR="127.0.0.1",
                        MASTER_PORT=str(free_port()), **more),
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100, check=False)
    return done.returncode, done.stdout, done.stderr


def job_text(cluster, folder):
    """The job file of the example, with what its first lines say must be changed."""
    library = os.environ.get("KEEPSTEP_LIBRARY", cluster.build / "libkeepstep.so.0")
    text = JOB_FILE.read_text()
    for old, new in (("/shared/parallel3d/checkpoints", str(folder)),
                     ("workdir: /shared/parallel3d", f"workdir: {EXAMPLE.parent}"),
                     ("user: train-a", f"user: {whoami()}\n  allow_root: "
                      + ("true" if os.getuid() == 0 else "false")),
                     ("/usr/local/share/keepstep/python", f"{ROOT}/agent/rank\n"
                      f"    KEEPSTEP_LIBRARY: {library}"),
                     ("_IFNAME: eth0", "_IFNAME: lo"),
                     ('"20", --steps, "200"',
                      f'"{EVERY}", --steps, "{STEPS}", --step-min-ms, "200"')):
        check(old in text, f"{JOB_FILE.name} has no '{old}' any more")
        text = text.replace(old, new)
    return text


def rank_zero(cluster, attempt):
    """What rank 0 printed, wherever it ran."""
    for name in cluster.names:
        try:
            return rank_log(cluster, name, cluster.job(JOB)["id"], attempt, 0)
        except FileNotFoundError:
            continue
    return ""


def kill_a_node(cluster):
    """Kills the node of stage 1, replica 0 between two checkpoints; its name and the spare's."""
    cluster.until(lambda: str(KILL_AT) in losses(rank_zero(cluster, 0)), 120, f"step {KILL_AT}")
    nodes = cluster.slot_nodes(JOB)
    spare, = set(cluster.names) - set(nodes)
    ranks = cluster.rank_pids(nodes[1])
    same(sorted(ranks), [2, 3], f"ranks on {nodes[1]}")
    killed = cluster.kill_node(nodes[1])
    check(len(killed) >= 4, f"agent, shim and two ranks: {killed}")
    cluster.until(lambda: not any(map(is_alive, killed)), 10, f"{killed} are gone")
    return nodes[1], spare


def unbroken(state):
    """under plain torchrun it trains to the end: eight ranks, no Keepstep, no library"""
    state["wanted"] = under_torchrun(state["folder"] / "torchrun")
    found = losses(state["wanted"])
    same(list(found), [str(step) for step in range(1, STEPS + 1)], "steps")
    check(float(found[str(STEPS)]) < 0.05 * float(found["1"]), f"the loss does not fall: {found}")


def same_alone(state):
    """one rank alone computes the losses of 2 x 2 x 2 to 1e-6: the groups do what they are for"""
    code, out, err = alone(state["folder"] / "alone")
    same(code, 0, err)
    state["alone"] = weights_of(out)
    one, eight = losses(out), losses(state["wanted"])
    same(list(one), list(eight), "steps")
    worst = max(abs(float(one[step]) / float(eight[step]) - 1) for step in one)
    check(worst < 1e-6, f"losses differ by {worst:.1e}")
    print(f"largest difference of a loss, 8 ranks to 1: {worst:.1e}")


def recovered(state):
    """a node of eight ranks is killed whole: the spare takes over, the same weights bit for bit"""
    folder = state["folder"] / "keepstep"
    folder.mkdir()
    with Cluster(5, ranks_per_node=2, start_grace="300ms", beside=QUICK) as cluster:
        try:
            cluster.start()
            cluster.submit(job_text(cluster, folder))
            killed, spare = kill_a_node(cluster)
            recovery = wait_closed(cluster, JOB, seconds=100)
            check_recovery(recovery, killed, folder)
            same(cluster.slot_nodes(JOB)[1], spare, "slot 1")
            job = wait_over(cluster, JOB, 100)
            same(job["state"], "succeeded", f"the job; {job['reason']}")
            same(len(cluster.recoveries(JOB)), 1, "recoveries")
            check_output(state["wanted"], *(rank_zero(cluster, attempt) for attempt in (0, 1)),
                         folder)
        except BaseException:
            show(cluster)
            show_ranks(cluster)
            raise
    phases = ", ".join(f"{phase['name']} {phase['ms']}" for phase in recovery["phases"])
    print(f"recovered in {recovery['took_ms']} ms, {recovery['lost_steps']} steps lost: {phases}")


def check_recovery(recovery, killed, folder):
    for key, wanted in (("outcome", "recovered"), ("cause", "node"), ("blamed", [killed]),
                        ("restore_step", EVERY), ("moved_nodes", 1), ("shifted_ranks", 0)):
        same(recovery[key], wanted, f"the recovery's {key}; {recovery['why']}")
    check((folder / f"step-{EVERY}.a-0" / "manifest.json").exists(), "the checkpoint")


def check_output(wanted, before, after, folder):
    """Both attempts computed what the unbroken run computes, to the last printed digit and bit."""
    first = f"after step {EVERY}: {folder}/step-{EVERY}.a-0"
    same(after.splitlines()[0], first, "where the second attempt began")
    for text, steps in ((before, range(1, KILL_AT + 1)), (after, range(EVERY + 1, STEPS + 1))):
        got, all_of_them = losses(text), losses(wanted)
        same([got.get(str(step)) for step in steps], [all_of_them[str(step)] for step in steps],
             f"losses of steps {steps}")
    same(weights_of(after), weights_of(wanted), "the final weights, all eight ranks")


def show_ranks(cluster):
    for path in sorted((cluster.folder / "nodes").glob("*/state/logs/job-*/attempt-*/rank-*.log")):
        print(f"    -- {path.parent.name}, {path.stem}:\n{path.read_text()[-1500:]}")


def told_by_the_environment(state):
    """without the library, KEEPSTEP_RESTORE_STEP tells what to restore: the same weights again"""
    folder = state["folder"] / "alone"
    newer = sorted(folder.glob("step-2*"))
    same([path.name for path in newer], ["step-20.a-0", f"step-{STEPS}.a-0"], "newer ones")
    code, out, err = alone(folder, KEEPSTEP_RESTORE_STEP=str(EVERY), KEEPSTEP_RESTORE_ATTEMPT="0",
                           KEEPSTEP_JOB=JOB, TORCHELASTIC_RESTART_COUNT="1")
    same(code, 0, err)
    same(out.splitlines()[0], f"after step {EVERY}: {folder}/step-{EVERY}.a-0", "where it began")
    same(weights_of(out), state["alone"], "the final weights")
    check(all(path.exists() for path in newer), "what another attempt saved is left alone")


def refusals(state):
    """another seed, another order, a torn shard: a sentence that says which, and nothing is lost"""
    folder = state["folder"] / "alone"
    newest = folder / f"step-{STEPS}.a-1"
    shard = newest / "rank-00000.pt"
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.write_bytes(data)
    before = tree_hashes(folder)
    cases = ((("--seed", "2"), {}, NEVER, (f"{newest} is of step", "'seed': 1", "'seed': 2")),
             ((), {"KEEPSTEP_PP_RANK": "1"}, NEVER, ("rank 0 is pp 0 here and 1 in the job file",)),
             ((), {}, 1, (f"{shard} is not what was written",)))
    with concurrent.futures.ThreadPoolExecutor(len(cases)) as pool:
        ends = [pool.submit(alone, folder, *words, **more) for words, more, _, _ in cases]
        for (words, more, wanted, texts), end in zip(cases, ends):
            code, _, err = end.result()
            same(code, wanted, f"{words} {more}: {err}")
            for text in texts:
                check(text in err, f"{words} {more}: no '{text}' in {err}")
    same(tree_hashes(folder), before, "what lay in the folder")


def main():
    missing = no_torch()
    if missing:
        print(f"skipped: {missing}")
        return 77
    folder = pathlib.Path(tempfile.mkdtemp(prefix="ks-"))
    try:
        return run_tests([unbroken, same_alone, recovered, told_by_the_environment, refusals],
                         {"folder": folder})
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
