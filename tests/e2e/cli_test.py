#!/usr/bin/env python3
"""`keepstep` as people and scripts use it: plans and questions before a change, Ctrl-C, names that are
nearly right, numbers as they should look, and exit codes."""

import http.server
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import threading
import time

from cluster_lib import (QUICK, Cluster, check, contextlib, run_in_cluster, same, tiny, wait_over,
                         wait_step)

NAME = "words"


def run(cluster, *words, env=None, stdin=None):
    """keepstep without -y and without a terminal."""
    return subprocess.run([str(cluster.build / "keepstep"), "-s", f"unix:{cluster.socket}", *words],
                          stdin=subprocess.DEVNULL if stdin is None else None, input=stdin,
                          capture_output=True, text=True, timeout=60, env=env)


def on_terminal(cluster, typed, *words):
    """(exit code, everything shown) of a keepstep on a terminal on which `typed` is answered."""
    pid, fd = pty.fork()
    if pid == 0:
        program = str(cluster.build / "keepstep")
        os.execv(program, [program, "-s", f"unix:{cluster.socket}", *words])
    shown, end = b"", time.monotonic() + 20
    with contextlib.suppress(OSError):  # EIO: it has ended
        while time.monotonic() < end:
            if select.select([fd], [], [], 0.2)[0]:
                shown += os.read(fd, 4096)
                if typed and b"[y/N]" in shown:
                    os.write(fd, typed.encode())
                    typed = ""
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.close(fd)
    return code, shown.decode().replace("\r\n", "\n")


def held_by(cluster, slot):
    return cluster.slot_nodes(NAME)[slot]


# ---- looking ---------------------------------------------------------------------------------


def tables(cluster):
    """get nodes by hostlist, folded and by state; get jobs by name; the describe pages"""
    cluster.submit(tiny(cluster, NAME, steps=5000, every=20, step_min_ms=40))
    wait_step(cluster, NAME, 25)
    rows = cluster.cli("get", "nodes", "gpu-[0001-0003]").splitlines()
    same([row.split()[0] for row in rows], ["NODE", "gpu-0001", "gpu-0002", "gpu-0003"], rows)
    same(len(cluster.cli("get", "nodes", "gpu-0001", "node/gpu-0002").splitlines()), 3, "two names")
    folded = cluster.cli("get", "nodes")
    check(re.search(r"healthy +active +4 +gpu-\[\d", folded), folded)
    check(re.search(r"healthy +spare +2 +gpu-\[\d", folded), folded)
    check(cluster.cli("get", "jobs", NAME).splitlines()[1].startswith(NAME), "get jobs NAME")
    text = cluster.cli("describe", "job", NAME)
    check(re.search(r"^Step: +\d+, \d+ ms/step$", text, re.M), text)
    check("4 nodes" in text and "2 ranks a node" in text, text)
    node = held_by(cluster, 3)
    text = cluster.cli("describe", "node", node)
    check(re.search(rf"^Job: +{NAME}, slot 3$", text, re.M), text)
    check("SlotTaken" in text, text)
    spare = (set(cluster.names) - set(cluster.slot_nodes(NAME))).pop()
    check(re.search(r"^Job: +none$", cluster.cli("describe", "node", spare), re.M),
          "a spare has no job")
    rows = cluster.cli("get", "checkpoints", NAME)
    check(re.search(r"^ *\d+ +complete +0 +\d+s .*newest usable", rows, re.M), rows)
    check(re.search(r"rank 5 = .*on gpu-\d+ GPU 1 \(slot 2\)", cluster.cli("where", NAME, "5")),
          "where")


def names(cluster):
    """a name that is nearly right is answered with the right one, and with exit code 3"""
    for words, wanted in ((("get", "nodes", "gpu-001"), "did you mean gpu-0001?"),
                          (("describe", "node", "gpu-0O01"), "did you mean gpu-0001?"),
                          (("drain", "gpu-01", "--reason", "x"), "there is no node gpu-01"),
                          (("get", "jobs", "wrds"), f"did you mean {NAME}?"),
                          (("describe", "job", "wrods"), f"did you mean {NAME}?"),
                          (("logs", "nobody"), "there is no job nobody"),
                          (("logs", NAME, "--node", "gpu-0099"), "there is no node gpu-0099"),
                          (("watch", "job", "nobody"), "there is no job/nobody")):
        done = run(cluster, *words)
        same(done.returncode, 3, f"{words}: {done.stderr}")
        check(wanted in done.stderr, f"{words}: {done.stderr}")
    for words, wanted in ((("get", "jobs", "--state", "runing"), "not runing"),
                          (("get", "jobs", "--sate", "x"), "did you mean --state?"),
                          (("cancel", NAME, "--when", "now"), "cancel takes no --when"),
                          (("get", "spares", "--problems"), "get takes no --problems"),
                          (("wait", "job", NAME, "--for", "done"), "running, succeeded or step=N"),
                          (("logs", NAME, "--tail", "0"), "a number of lines"),
                          (("watch", "events", "--since", "soon"), "--since"),
                          (("drain", "gpu-0001"), "a reason is required")):
        done = run(cluster, *words)
        same(done.returncode, 2, f"{words}: {done.stderr}")
        check(wanted in done.stderr, f"{words}: {done.stderr}")


def machines(cluster):
    """-o jsonl, -o name, KEEPSTEP_SERVER, help of every verb; nobody answers: 6"""
    lines = cluster.cli("get", "nodes", "-o", "jsonl").splitlines()
    same(sorted(json.loads(line)["name"] for line in lines), cluster.names, "jsonl")
    one = json.loads(cluster.cli("describe", "job", NAME, "-o", "jsonl"))
    same(one["name"], NAME, "jsonl of one object")
    same(cluster.cli("get", "nodes", "-o", "name").split(), cluster.names, "name")
    program = str(cluster.build / "keepstep")
    env = {"KEEPSTEP_SERVER": f"unix:{cluster.socket}"}
    done = subprocess.run([program, "get", "jobs", "-o", "name"], env=env, capture_output=True,
                          text=True)
    same((done.returncode, done.stdout), (0, f"{NAME}\n"), "KEEPSTEP_SERVER")
    env = {"KEEPSTEP_SERVER": "unix:/nowhere/api.sock"}
    done = subprocess.run([program, "get", "jobs"], env=env, capture_output=True, text=True)
    same(done.returncode, 6, done.stderr)
    check("is keepstep-controller running?" in done.stderr, done.stderr)
    verbs = re.findall(r"^  (\w+) +\S",
                       run(cluster, "help").stdout.split("Verbs")[1].split("Global")[0], re.M)
    check(len(verbs) > 20, verbs)
    for verb in verbs:
        done = run(cluster, verb, "--help")
        same(done.returncode, 0, verb)
        check(f"  keepstep {verb}" in done.stdout, f"an example of {verb}")
    with open("/dev/full", "w") as full:
        done = subprocess.run([program, "-s", f"unix:{cluster.socket}", "get", "nodes"],
                              stdout=full,
                              stderr=subprocess.PIPE, text=True)
    check(done.returncode == 1 and "could not be written" in done.stderr, done.stderr)


class Pages(http.server.BaseHTTPRequestHandler):
    """Nodes in pages of two; a proxy's page for everything else."""

    def do_GET(self):
        at = int((re.findall(r"cursor=(\d+)", self.path) or [0])[0])
        names = [f"gpu-{i:04d}" for i in range(at + 1, min(at + 2, 5) + 1)]
        items = [{"name": n, "state": "healthy", "role": "spare", "connected": True, "marks": []}
                 for n in names]
        body = {"revision": 7, "items": items, "next": str(at + 2) if at + 2 < 5 else None}
        nodes = self.path.startswith("/v1/nodes")
        text = json.dumps(body).encode() if nodes else b"<html>bad gateway</html>"
        self.send_response(200 if nodes else 502)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


def pages(cluster):
    """a table has all pages of a list, -o json is one of them as it came; a proxy's error is told"""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        program = [str(cluster.build / "keepstep"), "-s", f"http://127.0.0.1:{server.server_port}",
                   "get"]

        def out(*words):
            return subprocess.run([*program, *words], capture_output=True, text=True, timeout=20)

        same(out("nodes", "-o", "name").stdout.split(), [f"gpu-{i:04d}" for i in range(1, 6)],
             "names")
        check(re.search(r"healthy +spare +5 +gpu-\[0001-0005\]", out("nodes").stdout),
              out("nodes").stdout)
        same(len(out("nodes", "-o", "jsonl").stdout.splitlines()), 5, "jsonl")
        same(json.loads(out("nodes", "-o", "json").stdout)["next"], "2", "json")
        same(out("nodes", "--limit", "2", "-o", "name").stdout.split(), ["gpu-0001", "gpu-0002"],
             "--limit")
        done = out("jobs")
        same(done.returncode, 1, done.stderr)
        check("502" in done.stderr, done.stderr)
        server.shutdown()


# ---- watching --------------------------------------------------------------------------------


def interrupted(cluster):
    """Ctrl-C leaves a watch with the revision to go on from; in wait it is exit code 130"""
    program = [str(cluster.build / "keepstep"), "-s", f"unix:{cluster.socket}"]
    path = cluster.folder / "watched"
    command = [*program, "watch", "events", "--since-revision", "0"]
    with open(path, "w") as out, subprocess.Popen(command, stdout=out, stderr=subprocess.PIPE,
                                                  text=True) as watcher:
        cluster.until(lambda: path.read_text().count("\n") > 20, 10, "events are shown")
        watcher.send_signal(signal.SIGINT)
        said = watcher.communicate(timeout=10)[1]
    seen = path.read_text().splitlines()
    same(watcher.returncode, 0, said)
    same(seen[0].split(), ["TIME", "SEV", "SUBJECT", "EVENT", "MESSAGE"], "the head")
    left = re.fullmatch(r"stopped watching at revision (\d+); go on with --since-revision (\d+)\n",
                        said)
    check(left and left[1] == left[2], said)
    upto = [e for e in cluster.get("/v1/events?after=0")["items"] if e["revision"] <= int(left[1])]
    same(len(seen) - 1, len(upto), "everything up to that revision was shown")
    with subprocess.Popen([*program, "wait", "job", NAME], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE,
                          text=True) as waiter:
        time.sleep(0.5)
        waiter.send_signal(signal.SIGINT)
        same(waiter.wait(timeout=10), 130, waiter.stderr.read())


def since(cluster):
    """watch --since shows what is younger, and --type and --severity choose"""
    program = [str(cluster.build / "keepstep"), "-s", f"unix:{cluster.socket}", "watch", "events",
               "-o", "jsonl"]

    def first(*words):
        with subprocess.Popen([*program, *words], stdout=subprocess.PIPE, text=True) as watcher:
            line = json.loads(watcher.stdout.readline())
            watcher.kill()
        return line

    same(first("--since", "1h")["revision"],
         cluster.get("/v1/events?after=0")["items"][0]["revision"], "1h")
    time.sleep(1.1)
    cluster.cli("cordon", "gpu-0006", "--reason", "young")
    check("young" in json.dumps(first("--since", "1s", "--for", "node/gpu-0006")),
          "only what is young")
    same(first("--since", "1h", "--type", "SlotTaken")["type"], "SlotTaken", "by type")
    cluster.cli("uncordon", "gpu-0006")


def waiting(cluster):
    """wait --for step=N comes back soon after it; --timeout is kept, with exit code 7"""
    step = cluster.job(NAME)["step"] + 30
    begin = time.monotonic()
    same(run(cluster, "wait", "job", NAME, "--for", f"step={step}").returncode, 0, "reached")
    check(time.monotonic() - begin < 10, "soon")
    check(cluster.job(NAME)["step"] >= step, "really")
    begin = time.monotonic()
    done = run(cluster, "wait", "job", NAME, "--timeout", "2s")
    same(done.returncode, 7, done.stderr)
    check(1.5 < time.monotonic() - begin < 5, f"{time.monotonic() - begin:.1f} s")


def logs(cluster):
    """logs --tail N is N lines; -f goes on with what comes, each line once, until the end"""
    def five():
        lines = cluster.cli("logs", NAME, "--tail", "5").splitlines()
        return len(lines) == 5 and all("loss" in line for line in lines)
    cluster.until(five, 10, "five lines of steps")
    cluster.submit(tiny(cluster, "short", data=4, steps=60, every=20, step_min_ms=50))
    wait_step(cluster, "short", 3)
    done = run(cluster, "logs", "short", "-f")
    same(done.returncode, 0, done.stderr)
    steps = [int(n) for n in re.findall(r"^step (\d+) loss", done.stdout, re.M)]
    same(steps, list(range(1, 61)), "every step once, in order")


# ---- changing --------------------------------------------------------------------------------


def plans(cluster):
    """a drain shows what it will do: nodes folded, slots, spares, when, cost, and what comes next"""
    nodes = f"{held_by(cluster, 0)},{held_by(cluster, 1)}"
    done = run(cluster, "drain", nodes, "--reason", "x", "--when", "now", "--dry-run")
    same(done.returncode, 10, done.stderr)
    for part in (r"2 nodes \(gpu-\[?[\d,\-\[\]gpu]+\) hold 2 slots of words\.",
                 r"2 of 2 ready would take them",
                 r"When: +now",
                 r"one restart of the 8 ranks of words(, and about \d+ steps? done again)?",
                 r"Nothing was changed"):
        check(re.search(part, done.stdout), f"{part}:\n{done.stdout}")
    one = run(cluster, "drain", held_by(cluster, 0), "--reason", "x", "--dry-run").stdout
    check(re.search(r"gpu-\d+ holds 1 slot of words\.\nSpares: 1 of 2 ready would take it", one),
          one)
    spare = (set(cluster.names) - set(cluster.slot_nodes(NAME))).pop()
    done = run(cluster, "drain", spare, "--reason", "x", "--dry-run")
    check("holds no slot of any job: nothing has to move" in done.stdout, done.stdout)
    same(cluster.get(f"/v1/nodes/{spare}")["marks"], [], "nothing was changed")
    done = run(cluster, "submit", "-", "--dry-run", stdin=tiny(cluster, "other", data=16))
    same(done.returncode, 10, done.stderr)
    check("16 ranks = 1 tensor x 1 pipeline x 16 data, 8 nodes of 2" in done.stdout, done.stdout)
    check("8 nodes wanted, 2 ready" in done.stdout and "wait for 6 more nodes" in done.stdout,
          done.stdout)


def questions(cluster):
    """what disrupts is asked on a terminal; without one, -y is needed, and its lack is exit code 2"""
    node = held_by(cluster, 0)
    drain = ("drain", node, "--reason", "ask me")
    for words in (drain, ("cancel", NAME), ("hold", NAME), ("restart", NAME),
                  ("remove", node, "--reason", "x", "--no-input")):
        done = run(cluster, *words)
        check(done.returncode in (2, 4), f"{words}: {done.returncode} {done.stderr}")
        check("-y" in done.stderr or "drain" in done.stderr, done.stderr)
    code, shown = on_terminal(cluster, "n\r", *drain)
    same(code, 1, shown)
    check("holds 1 slot of words" in shown and "Drain? [y/N]" in shown
          and "nothing was changed" in shown, shown)
    same(cluster.get(f"/v1/nodes/{node}")["marks"], [], "marks after no")
    code, shown = on_terminal(cluster, "", "cordon", "gpu-0005", "--reason", "no question")
    same(code, 0, shown)
    check("[y/N]" not in shown and "keepstep uncordon gpu-0005" in shown, shown)
    run(cluster, "uncordon", "gpu-0005")
    code, shown = on_terminal(cluster, "y\r", *drain)
    same(code, 0, shown)
    for part in (f"{node}: draining.", f"keepstep watch events --for job/{NAME}",
                 f"keepstep undrain {node}"):
        check(part in shown, f"{part}:\n{shown}")
    cluster.until(lambda: cluster.get(f"/v1/nodes/{node}")["state"] == "drained", 20,
                  f"{node} is drained")
    done = run(cluster, "undrain", node)
    same((done.returncode, f"{node}: validating (quick), then spare." in done.stdout), (0, True),
         done.stdout)


def cancelled(cluster):
    """cancel says what it does and what to do next; a job that is over says so; wait: 21"""
    done = run(cluster, "cancel", NAME, "--dry-run")
    same(done.returncode, 10, done.stderr)
    check("Cancelling stops its 8 ranks for good" in done.stdout, done.stdout)
    done = run(cluster, "cancel", NAME, "-y", "--reason", "test")
    same(done.returncode, 0, done.stderr)
    check(f"keepstep describe job {NAME}" in done.stdout, done.stdout)
    same(wait_over(cluster, NAME)["state"], "cancelled", "the job")
    done = run(cluster, "wait", "job", NAME)
    same(done.returncode, 21, done.stderr)
    same(run(cluster, "cancel", NAME, "-y").returncode, 0, "again changes nothing")
    done = run(cluster, "restart", NAME, "-y")
    same(done.returncode, 4, done.stderr)


if __name__ == "__main__":
    with Cluster(6, start_grace="300ms", beside=QUICK) as the_cluster:
        the_cluster.start()
        sys.exit(run_in_cluster([tables, names, machines, pages, interrupted, since, waiting,
                                 plans, questions, logs,
                                 cancelled], the_cluster))
