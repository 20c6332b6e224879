"""cluster_lib.py: what the end-to-end tests of a whole cluster share: a small job, a runner that
names each test by what a user would see, and readers of what a run left behind."""

import contextlib
import hashlib
import json
import os
import pathlib
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import traceback

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT))
from tests.lib.cluster import (Cluster, Timeout, build_dir, has_cgroups, trainer_spec,  # noqa: E402
                               whoami)

ALL = os.environ.get("KEEPSTEP_TEST_ALL") == "1"
CRASHED = 86  # exit status of a controller that died on purpose (--crash-at)
# Two runs of these tests on one machine must not meet: their ranks get ports of their own.
PORT_LOW = 20000 + os.getpid() % 90 * 100
QUICK = {"timing.start_quiet": "200ms", "rendezvous.port_low": PORT_LOW,
         "rendezvous.port_high": PORT_LOW + 99}
DEBIAN_PYTHON = "/usr/bin/python3"  # Debian's packages are for this one
SMALL_MODEL = ("--batch", 8, "--context", 16, "--layers", 1, "--width", 16)


class Skipped(Exception):
    """A test that lacks its means; the text says what is missing."""


def no_torch():
    """Why PyTorch cannot be used here, None when it can."""
    try:
        done = subprocess.run([DEBIAN_PYTHON, "-c", "import torch.distributed.run"],
                              capture_output=True, timeout=120, text=True)
    except OSError as error:
        return f"no {DEBIAN_PYTHON}: {error}"
    return None if done.returncode == 0 else f"no python3-torch for {DEBIAN_PYTHON}"


def check(condition, text):
    if not condition:
        raise AssertionError(text)


def same(got, wanted, text):
    if got != wanted:
        raise AssertionError(f"{text}:\n  got    {got!r:.900}\n  wanted {wanted!r:.900}")


def ended(number, _):
    sys.exit(128 + number)


def run_tests(tests, *arguments, on_failure=None):
    """Runs each test with the arguments; its docstring's first line is its name. Returns the exit
    status: 77 when nothing but skipped tests is left, 1 when one failed."""
    signal.signal(signal.SIGTERM, ended) # past its limit: the cluster is still taken down
    failures = []
    skipped = 0
    for test in tests:
        name = (test.__doc__ or test.__name__).strip().splitlines()[0]
        begin = time.monotonic()
        try:
            test(*arguments)
            print(f"ok       {name} ({time.monotonic() - begin:.1f}s)", flush=True)
        except Skipped as why:
            skipped += 1
            print(f"skipped: {why} ({name})", flush=True)
        except (AssertionError, Timeout, OSError, sqlite3.Error, KeyError) as error:
            failures.append(f"{name}: {error}")
            print(f"FAILED   {name} ({time.monotonic() - begin:.1f}s): {error}", flush=True)
            traceback.print_exc(limit=-4, file=sys.stdout)
            if on_failure is not None:
                on_failure()
    for text in failures: # again: what their clusters had to say is long
        print(f"FAILED   {text}", flush=True)
    if failures:
        return 1
    return 77 if skipped == len(tests) else 0


def run_in_cluster(tests, cluster):
    """run_tests() in a running cluster; what a failed test left behind is shown and ended."""
    def clean():
        show(cluster)
        for job in (cluster.get("/v1/jobs") or {"items": []})["items"]:
            if job["state"] not in ("succeeded", "failed", "cancelled"):
                cluster.cli("cancel", job["name"], ok=None)
                with contextlib.suppress(Timeout):
                    cluster.until_state(job["name"], "cancelled", 20)
    return run_tests(tests, cluster, on_failure=clean)


def show(cluster):
    """The last things that the controller and the agents had to say."""
    for row in events(cluster)[-25:]:
        print("   ", row)
    for log in sorted(cluster.folder.glob("*.log")):
        text = log.read_text(errors="replace").strip()
        if text:
            print(f"    -- {log.name}:\n{text[-1200:]}")


# ---- jobs ------------------------------------------------------------------------------------


def tiny(cluster, name, steps=12, every=4, step_min_ms=30, extra=(), data=8, more="", seed=1,
         witness=False):
    """A job of small steps of which every process first records that it was started."""
    folder = cluster.folder / f"ckpt-{name}"
    text = trainer_spec(cluster, name=name, data=data, steps=steps, every=every, seed=seed,
                        step_min_ms=step_min_ms, folder=folder, more=more,
                        extra=[*SMALL_MODEL, "--output-weights", weights_path(cluster, name),
                               *extra])
    return recorded(cluster, name, text, witness)


def spec_of(cluster, name, command, data=4, more=""):
    """A job file around any command."""
    folder = cluster.folder / f"ckpt-{name}"
    folder.mkdir(exist_ok=True)
    return f"""name: {name}
run:
  command: {json.dumps([str(word) for word in command])}
  workdir: {folder}
  user: {whoami()}
  allow_root: {"true" if os.getuid() == 0 else "false"}
layout: {{data: {data}, ranks_per_node: {cluster.ranks_per_node}}}
checkpoint: {{dir: {folder}}}
signals: {{stop_grace: 2s, recovery_grace: 1s}}
{more}"""


def stub(cluster, name, *words, data=4, more="", witness=False):
    """A job of ranks that train nothing, tests/bin/rank_stub."""
    command = [cluster.build / "tests" / "bin" / "rank_stub",
               f"--folder={cluster.folder}/ckpt-{name}",
               *words]
    return recorded(cluster, name, spec_of(cluster, name, command, data, more), witness)


def recorded(cluster, name, text, witness=False):
    """The job file with its command behind one that records each start of a process: by the shell,
    which is quick, or by the witness, which also looks for what is left of older attempts."""
    head, _, rest = text.partition("  command: ")
    line, _, rest = rest.partition("\n")
    record = starts_path(cluster, name)
    if witness:
        before = [sys.executable, "-S", str(HERE / "cluster_witness.py"), str(record)]
    else:
        script = f'echo "$RANK $KEEPSTEP_ATTEMPT" >>{record}; exec "$@"'
        before = ["/bin/sh", "-c", script, "rank"]
    return f"{head}  command: {json.dumps([*before, *json.loads(line)])}\n{rest}"


def starts_path(cluster, name):
    return cluster.folder / f"starts-{name}"


def weights_path(cluster, name):
    return cluster.folder / f"weights-{name}"


def start_lines(cluster, name):
    """What was recorded of each start, as dicts."""
    lines = []
    with contextlib.suppress(FileNotFoundError):
        for line in starts_path(cluster, name).read_text().splitlines():
            if line.startswith("{"):
                lines.append(json.loads(line))
            else:
                lines.append(dict(zip(("rank", "attempt"), map(int, line.split()))))
    return lines


def starts(cluster, name):
    """{(attempt, rank): processes that were started}"""
    counts = {}
    for line in start_lines(cluster, name):
        key = line["attempt"], line["rank"]
        counts[key] = counts.get(key, 0) + 1
    return counts


def once_each(attempts, ranks):
    """What starts() is when every rank was started once in each of these attempts."""
    return {(attempt, rank): 1 for attempt in attempts for rank in range(ranks)}


def nothing_left(cluster, name, attempts, ranks=4):
    """Every rank was started once in each attempt, and its witness found nothing of an older one;
    the lines of the witnesses."""
    lines = start_lines(cluster, name)
    same(starts(cluster, name), once_each(attempts, ranks), "processes started")
    same([line["left"] for line in lines], [[]] * len(lines), "alive when a rank was started")
    return lines


def weights(cluster, name):
    return sha256(weights_path(cluster, name))


def all_usable(cluster, seconds=20):
    """Takes all marks off all nodes, as an operator may, and waits until no job has any."""
    for node in cluster.get("/v1/nodes")["items"]:
        for mark in node["marks"]:
            cluster.cli("undrain", node["name"], "--clear", mark["code"], "--reason", "next test")
    cluster.until(lambda: cluster.spares() == len(cluster.names), seconds, "all nodes are usable")


def wait_spares(cluster, count, what, seconds=40):
    """Until so many nodes are ready spares."""
    def ready():
        cluster.vouch()
        return cluster.spares() == count
    cluster.until(ready, seconds, what)


def wait_step(cluster, name, step, seconds=30):
    """Until the job runs and has done that step; returns the step."""
    def there():
        job = cluster.job(name) or {}
        return job["step"] if job.get("state") == "running" and job["step"] >= step else 0
    return cluster.until(there, seconds, f"{name} is at step {step}")


def wait_over(cluster, name, seconds=60):
    """Until the job is over; the job."""
    def over():
        job = cluster.job(name) or {}
        return job if job.get("state") in ("succeeded", "failed", "cancelled") else None
    return cluster.until(over, seconds, f"{name} is over")


def wait_closed(cluster, name, count=1, seconds=40):
    """Until that many recoveries of the job are closed; the newest of them."""
    def closed():
        found = [one for one in cluster.recoveries(name) if one["outcome"] != "open"]
        return found[0] if len(found) >= count else None
    return cluster.until(closed, seconds, f"{count} recoveries of {name} are over")


# ---- what is left behind ---------------------------------------------------------------------


def sha256(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()


def tree_hashes(folder, pattern="**/*"):
    """{path: sha256} of the files below a folder."""
    return {str(path.relative_to(folder)): sha256(path)
            for path in sorted(pathlib.Path(folder).glob(pattern)) if path.is_file()}


def query(cluster, sql, *parameters):
    """Rows of the database, read beside the running controller."""
    connection = sqlite3.connect(f"file:{cluster.database}?mode=ro", uri=True, timeout=10)
    with contextlib.closing(connection):
        return connection.execute(sql, parameters).fetchall()


def journal(cluster, *kinds):
    """[(kind, subject, body as dict)] in order; of all kinds when none is named."""
    rows = query(cluster, "SELECT kind, subject, body FROM journal ORDER BY seq")
    return [(kind, subject, json.loads(body)) for kind, subject, body in rows
            if not kinds or kind in kinds]


def events(cluster):
    with contextlib.suppress(sqlite3.Error):
        return query(cluster, "SELECT seq, service_ms, subject, event, message FROM journal "
                     "WHERE event <> '' ORDER BY seq")
    return []


# ---- processes -------------------------------------------------------------------------------


def rank_log(cluster, node, job, attempt, rank):
    """What a rank has printed, from its node's own file."""
    logs = cluster.folder / "nodes" / node / "state" / "logs"
    return (logs / f"job-{job}" / f"attempt-{attempt}" / f"rank-{rank}.log").read_text()


def children_said(cluster, name):
    """[(node, pid)] of the children that ranks of the present attempt said they left behind."""
    job, found = cluster.job(name), []
    placed = [(slot, node) for slot, node in enumerate(cluster.slot_nodes(name)) if node]
    for slot, node in placed:
        for rank in range(slot * cluster.ranks_per_node, (slot + 1) * cluster.ranks_per_node):
            with contextlib.suppress(OSError):
                text = rank_log(cluster, node, job["id"], job["attempt"], rank)
                found += [(node, int(line.split()[-1])) for line in text.splitlines()
                          if line.startswith(("child ", "injected: child "))]
    return found


def process_state(pid):
    """The state letter of a process; None when there is none."""
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    return None


def is_alive(pid):
    return process_state(pid) not in (None, "Z", "X")


def processes_of(cluster, name):
    """{pid: environment} of living processes of a job: its ranks, and what they left behind."""
    found = {}
    marks = f"KEEPSTEP_JOB={name}\0".encode(), str(cluster.folder).encode()
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                environ = (entry / "environ").read_bytes()
                if all(mark in environ for mark in marks) and is_alive(int(entry.name)):
                    found[int(entry.name)] = environ
    return found


def send(pids, number):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


@contextlib.contextmanager
def scratch(prefix="ks-"):
    folder = pathlib.Path(tempfile.mkdtemp(prefix=prefix))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


__all__ = [name for name in dir() if not name.startswith("_")]
