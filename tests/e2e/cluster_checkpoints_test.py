#!/usr/bin/env python3
"""Checkpoints that are found by looking, and what a person may do with single ones."""

import json
import pathlib
import re
import signal
import sys

from cluster_lib import (QUICK, ROOT, Cluster, check, run_in_cluster, same, send, spec_of, tiny,
                         wait_over, wait_step)

EXAMPLE = ROOT / "deploy" / "examples" / "megatron" / "job.yaml"

# Leaves what Megatron leaves: a piece of each rank, then, from rank 0, the number. Saves at 10, 20
# and 30, then waits for the file `go`.
PROGRAM = """
import os, pathlib, sys, time
folder, step, rank = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(os.environ["RANK"])
with open(folder / "starts", "a") as starts:
    starts.write(f"{os.environ['KEEPSTEP_ATTEMPT']} {step} {os.environ['KEEPSTEP_RESTORE_DIR']}\\n")
def wait(test):
    while not test():
        time.sleep(0.01)
while step < 30:
    step += 10
    iteration = folder / f"iter_{step:07d}"
    piece = iteration / f"mp_rank_{rank:02d}"
    piece.mkdir(parents=True, exist_ok=True)
    (piece / "model_optim_rng.pt").write_text(f"{step}")
    number = folder / "latest_checkpointed_iteration.txt"
    if rank == 0:
        wait(lambda: all((iteration / f"mp_rank_{r:02d}" / "model_optim_rng.pt").exists()
                         and (iteration / f"mp_rank_{r:02d}" / "model_optim_rng.pt").read_text()
                         for r in range(2)))
        new = folder / "number"
        new.write_text(str(step))
        new.rename(number)
    wait(lambda: number.exists() and int(number.read_text()) >= step)
wait((folder / "go").exists)
"""


def example(cluster):
    """the Megatron example is a job file that the checker takes as it is"""
    done = cluster.cli("submit", str(EXAMPLE), "--dry-run", ok=None)
    same(done.returncode, 10, done.stderr)
    check("256" in done.stdout and "32" in done.stdout, done.stdout)


def megatron_job(cluster, name):
    """A job that is like the example where it matters."""
    folder = cluster.folder / f"ckpt-{name}"
    text = spec_of(cluster, name, [sys.executable, "-S", "-c", PROGRAM, "{checkpoint.dir}",
                                   "{checkpoint.step}"], data=2)
    text = text.replace(f"checkpoint: {{dir: {folder}}}",
                        f"checkpoint: {{dir: {folder}, format: megatron}}")
    return folder, text.replace("layout: {data: 2,", "layout: {tensor: 2, data: 1,")


def tracker(folder):
    path = folder / "latest_checkpointed_iteration.txt"
    return int(path.read_text()) if path.exists() else 0


def explained(cluster, incident):
    """one command tells which rule decided, by which facts, and what was ruled out"""
    shown = cluster.cli("explain", "verdict", incident)
    told = cluster.get(f"/v1/incidents/{incident}")
    rule = told["verdict"]["rule"]
    same(told["explanation"]["rule"], rule, told)
    check(told["explanation"]["facts_used"], told["explanation"])
    for wanted in (rf"Rule +{rule}: ", r"\n  \* .* rank-end +rank 1 was ended by signal 9",
                   r"Ruled out +[a-z-]+: \d+ facts? of its kind", r"Not seen +.*fatal-signal"):
        check(re.search(wanted, shown), (wanted, shown))
    rules = [one["rule"] for one in cluster.get("/v1/rules")["items"]]
    check(rule in rules and rules[-1] == "no-evidence", rules)
    lines = cluster.cli("explain", "rules").splitlines()
    same([line.split()[1] for line in lines if line[:2].strip().isdigit()], rules, "rules")


def megatron(cluster):
    """a Megatron tree: the torn newest is passed over at once, shown, and the one before restored"""
    folder, text = megatron_job(cluster, "mega")
    cluster.submit(text)
    cluster.until(lambda: tracker(folder) == 30, 30, "three saves")
    piece = folder / "iter_0000030" / "mp_rank_01" / "model_optim_rng.pt"
    piece.write_text("")
    node = cluster.slot_nodes("mega")[0]
    send([cluster.rank_pids(node)[1]], signal.SIGKILL)
    cluster.until(lambda: len((folder / "starts").read_text().splitlines()) == 4, 30, "a restart")
    starts = sorted(set((folder / "starts").read_text().splitlines()))
    same(starts, ["0 0 ", f"1 20 {folder}/iter_0000020"], "attempt, step and folder of each start")
    recovery = cluster.recoveries("mega")[0]
    same([(one["step"], one["state"]) for one in recovery["skipped"]], [(30, "incomplete")],
         "passed over")
    check("mp_rank_01/model_optim_rng.pt is empty" in recovery["skipped"][0]["note"], recovery)
    shown = cluster.cli("recover", "show", recovery["id"])
    check(re.search(r"Skipped +step 30 .*is empty", shown), shown)
    explained(cluster, recovery["incident"])
    cluster.until(lambda: piece.read_text() == "30", 30, "step 30 is written anew")
    (folder / "go").touch()
    same(wait_over(cluster, "mega")["state"], "succeeded", "the job")


def unseen(cluster):
    """a first start whose folder cannot be understood waits for a person, then goes on from it"""
    folder, text = megatron_job(cluster, "unseen")
    folder.mkdir(exist_ok=True)
    (folder / "latest_checkpointed_iteration.txt").write_text("garbage")
    (folder / "go").touch()
    cluster.submit(text)
    cluster.until_state("unseen", "held", 30)
    reason = cluster.job("unseen")["reason"]
    check("neither a number" in reason and "keepstep release unseen" in reason, reason)
    for rank in range(2):
        piece = folder / "iter_0000020" / f"mp_rank_{rank:02d}"
        piece.mkdir(parents=True)
        (piece / "model_optim_rng.pt").write_text("20")
    (folder / "latest_checkpointed_iteration.txt").write_text("20\n")
    cluster.cli("release", "unseen")
    same(wait_over(cluster, "unseen")["state"], "succeeded", "the job")
    same(sorted(set((folder / "starts").read_text().splitlines())),
         [f"0 20 {folder}/iter_0000020"], "starts")


def of_step(cluster, name, step):
    return cluster.get(f"/v1/jobs/{name}/checkpoints/{step}")


def single_ones(cluster):
    """pin, unpin, verify: verified and corrupt are found out by reading, and stay known"""
    cluster.submit(tiny(cluster, "ones", data=2, steps=2000, every=5, step_min_ms=40))
    wait_step(cluster, "ones", 17)
    cluster.cli("checkpoint", "pin", "ones", "5", "--reason", "before lr change")
    cluster.cli("checkpoint", "verify", "ones", "5", "--wait")
    one = of_step(cluster, "ones", 5)
    same((one["state"], one["missing_parts"]), ("verified", ["scheduler"]), "step 5")
    check("all hashes read again on gpu-" in one["note"], one["note"])
    shard = pathlib.Path(of_step(cluster, "ones", 10)["directory"]) / "shard-00001.bin"
    data = bytearray(shard.read_bytes())
    data[-1] ^= 1
    shard.write_bytes(data)
    done = cluster.cli("checkpoint", "verify", "ones", "10", "--wait", ok=None)
    same(done.returncode, 1, done.stdout + done.stderr)
    check("shard-00001.bin: its hash is" in done.stdout, done.stdout)
    cluster.kill_controller()
    cluster.start_controller()
    same(of_step(cluster, "ones", 5)["state"], "verified", "step 5 after a restart")
    same(of_step(cluster, "ones", 10)["state"], "corrupt", "step 10 after a restart")
    table = cluster.cli("get", "checkpoints", "ones")
    line = next(row for row in table.splitlines() if row.split()[0] == "5")
    check("verified" in line and "before lr change" in line and "lacks scheduler" in line, table)
    cluster.cli("checkpoint", "unpin", "ones", "5")
    same(of_step(cluster, "ones", 5)["pinned_by"], None, "unpinned")
    same(cluster.cli("checkpoint", "verify", "ones", "6", ok=None).returncode, 3, "no such step")
    same(cluster.cli("checkpoint", "pin", "ones", "x", ok=None).returncode, 2, "no step at all")
    cluster.cli("cancel", "ones")
    wait_over(cluster, "ones")


def what_is_kept(cluster):
    """keep_last: the newest and the pinned stay, the others go through the trash"""
    text = tiny(cluster, "kept", data=2, steps=2000, every=5, step_min_ms=40)
    folder = cluster.folder / "ckpt-kept"
    check(f"{{dir: {folder}," in text, text)
    text = text.replace(f"{{dir: {folder},", f"{{dir: {folder}, keep_last: 2,")
    cluster.submit(text)
    cluster.until(lambda: of_step(cluster, "kept", 5), 30, "the first save")
    cluster.cli("checkpoint", "pin", "kept", "5")
    wait_step(cluster, "kept", 42)

    def left():
        return sorted(int(re.match(r"step-(\d+)", path.name)[1]) for path in folder.glob("step-*"))
    cluster.until(lambda: left()[0] == 5 and 3 <= len(left()) <= 4 and left()[1] >= 30, 20,
                  "only the pinned one and the newest are left")
    cluster.until(lambda: not list((folder / ".trash").iterdir()), 10, "the trash is emptied")
    known = [one["step"] for one in cluster.get("/v1/jobs/kept/checkpoints")["items"]]
    check(5 in known and 10 not in known, known)
    cluster.cli("cancel", "kept")
    wait_over(cluster, "kept")


def wrong_keys(cluster):
    """formats, markers and readers that do not fit each other are refused with what to write"""
    good = spec_of(cluster, "keys", ["/bin/true"])
    folder = cluster.folder / "ckpt-keys"
    for keys, wanted in (("format: pickle", "megatron"),
                         ("format: marker", "checkpoint.marker"),
                         ("format: command, reader: ../../bin/sh", "checkpoint.reader"),
                         ("format: megatron, keep_last: 3", "checkpoint.keep_last")):
        path = cluster.folder / "try.yaml"
        path.write_text(good.replace(f"{{dir: {folder}}}", f"{{dir: {folder}, {keys}}}"))
        done = cluster.cli("submit", str(path), ok=None)
        same(done.returncode, 2, f"{keys}: {done.stderr}")
        check(wanted in done.stderr, done.stderr)
    check(json.dumps(cluster.get("/v1/jobs")["items"]).count('"keys"') == 0,
          "nothing was submitted")


if __name__ == "__main__":
    with Cluster(2, start_grace="300ms", beside=QUICK) as the_cluster:
        the_cluster.start()
        sys.exit(run_in_cluster([example, wrong_keys, megatron, unseen, single_ones, what_is_kept],
                                the_cluster))
