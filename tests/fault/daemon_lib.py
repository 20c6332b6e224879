"""daemon_lib.py: a small cluster in which the controller or an agent has one call that fails, again
and again, on one journal. Whatever becomes of the daemon, it is started again as the service
manager would, and then: what was acknowledged is there, the job comes to its end, no rank was
started twice in an attempt, and the journal folds to the state that the controller had."""

import concurrent.futures
import contextlib
import itertools
import signal
import subprocess
import threading

from fault_lib import (ALL, BUILD, NEVER, Fault, check, check_hits, loop, same, sanitized,
                       spread)

from cluster_lib import QUICK, Cluster, recorded, show, spec_of, starts

LANES = 4           # clusters side by side: they wait most of the time
STRUCK_SECONDS = 2  # a daemon that lives on after its fault is ended after so long
OVER = ("succeeded", "failed", "cancelled")


def log_size(cluster, name):
    path = cluster.folder / name
    return path.stat().st_size if path.exists() else 0


def log_since(cluster, name, size):
    path = cluster.folder / name
    return path.read_bytes()[size:].decode(errors="replace") if path.exists() else ""


@contextlib.contextmanager
def environment_of(cluster, fault):
    """Daemons that are started meanwhile have the fault."""
    cluster.environment = fault.environment()
    try:
        yield
    finally:
        cluster.environment = None


class Trials:
    """One cluster, and one trial after the other in it."""

    def __init__(self, nodes):
        self.cluster = Cluster(nodes, start_grace="300ms", beside=QUICK, ranks_per_node=1)
        self.number = itertools.count()
        self.facts = 0

    def begin(self, data):
        """Writes the next job: the first attempt loses a rank, the second one ends well."""
        name = f"j{next(self.number)}"
        stub = f"{BUILD}/tests/bin/rank_stub --folder={self.cluster.folder}/ckpt-{name}"
        script = (f'if [ "$KEEPSTEP_ATTEMPT" = 0 ]; then exec {stub} --steps=400 --step-ms=20 '
                  f'--inject=exit=75@$((2 + 1000 * (RANK != 1 % {data}))); fi; '
                  f'exec {stub} --steps=2 --step-ms=10')
        text = recorded(self.cluster, name,
                        spec_of(self.cluster, name, ["/bin/sh", "-c", script], data=data))
        path = self.cluster.folder / f"{name}.yaml"
        path.write_text(text)
        return name, path

    def submit(self, path):
        """What the CLI says, whatever that is."""
        return subprocess.run([str(BUILD / "keepstep"), "-s", f"unix:{self.cluster.socket}",
                               "submit", str(path)], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=60, check=False)

    def over(self, name):
        job = self.cluster.job(name) or {}
        return job.get("state") in OVER

    def finish(self, name, path, what, acknowledged):
        """With every daemon whole: the job comes to its end. It is there if that was said."""
        cluster = self.cluster

        def there():
            return cluster.job(name) is not None or (
                not acknowledged and self.submit(path).returncode == 0)
        cluster.until(there, 20, f"{what}: {name} is there, acknowledged: {acknowledged}")

        def over():
            self.look_after()
            return self.over(name)
        cluster.until(over, 40, f"{what}: {name} is over", every=0.05)
        job = cluster.job(name)
        same(job["state"], "succeeded", f"{what}: {name}: {job.get('reason')}")
        counts = starts(cluster, name)
        same({key: count for key, count in counts.items() if count != 1}, {},
             f"{what}: processes started more than once in an attempt")
        return job

    def look_after(self):
        """What an operator does about what the fault left: marks, and automation that is held."""
        cluster, why = self.cluster, ("--reason", "the fault is gone")
        for node in (cluster.get("/v1/nodes") or {"items": []})["items"]:
            for mark in node["marks"]:
                cluster.cli("undrain", node["name"], "--clear", mark["code"], *why, ok=None)
        if (cluster.get("/v1/automation") or {}).get("held"):
            cluster.cli("automation", "resume", *why, ok=None)

    def judge_journal(self, what):
        """The controller has ended cleanly: its last state is the fold of its journal."""
        done = subprocess.run([str(BUILD / "tests" / "bin" / "journal_fold"),
                               str(self.cluster.database)], capture_output=True, text=True,
                              timeout=60, check=False)
        same(done.returncode, 0, f"{what}: {done.stderr}")
        words = dict(word.split("=") for word in done.stdout.split())
        check(int(words["facts"]) > self.facts, f"{what}: {words} after {self.facts} facts")
        same(words["snapshot"], "yes", f"{what}: a controller that ends leaves a snapshot")
        self.facts = int(words["facts"])


def end_by_term(process, seconds=20):
    """Its exit status; 0 for one that had not come so far yet as to hear the signal."""
    process.send_signal(signal.SIGTERM)
    status = process.wait(seconds)
    return 0 if status == -signal.SIGTERM else status


class Lanes:
    """LANES threads, each with a cluster of its own, for trials of failing calls."""

    def __init__(self, make_trials):
        self.make_trials = make_trials
        self.pool = concurrent.futures.ThreadPoolExecutor(LANES)
        self.own, self.made, self.showing = threading.local(), [], threading.Lock()

    def visit(self, case):
        """One trial; the fault, with its counts."""
        kind, ever, nth = case
        if not hasattr(self.own, "trials"):
            self.own.trials = self.make_trials()
            self.made.append(self.own.trials)
        trials = self.own.trials
        fault = Fault(trials.cluster.folder, trials.program, kind, nth, ever)
        try:
            trials.run(fault)
        except BaseException:
            with self.showing:
                show(trials.cluster)
            del self.own.trials  # nobody knows what is left in it
            raise
        return fault

    def every(self, kind, ever):
        """n = 1, 2, 3 … until nothing failed any more."""
        def all_of(points):
            cases = [(kind, ever, nth) for nth in points]
            return [fault.failed > 0 for fault in self.pool.map(self.visit, cases)]
        print(f"{kind}, ever={ever}: {loop(None, all_of, 0, LANES)} points", flush=True)

    def some(self, runs):
        """{kind: number of n's}, spread over all of them, once and for ever, all side by side."""
        counts = self.pool.map(self.visit, [(kind, False, NEVER) for kind in runs])
        cases = []
        for kind, fault in zip(runs, counts):
            points = spread(fault.calls, runs[kind])
            cases += [(kind, ever, nth) for nth in points for ever in (False, True)]
            print(f"{kind}: {fault.calls} places, at {points}", flush=True)
        hits = sum(fault.failed > 0 for fault in self.pool.map(self.visit, cases))
        check_hits(hits, len(cases))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.pool.shutdown()
        for trials in self.made:
            trials.cluster.close()


def fail_calls(make_trials, runs):
    """Every call of every kind with KEEPSTEP_TEST_ALL=1, else `runs` of each kind."""
    if sanitized(): # it has its own allocator
        runs = {kind: count for kind, count in runs.items() if kind != "memory"}
    with Lanes(make_trials) as lanes:
        if not ALL:
            lanes.some(runs)
            return
        for kind in runs:
            lanes.every(kind, False)
            lanes.every(kind, True)


__all__ = [name for name in dir() if not name.startswith("_")]
