"""measure.py: what the programs that measure share: figures and their bars, the load before, the
journal beside the controller, what a process has used."""

import contextlib
import json
import math
import os
import pathlib
import re
import sqlite3
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))
from tests.lib.cluster import Timeout  # noqa: E402

LOAD_LIMIT = 0.5
LOAD_WAIT_S = 120  # a build just before leaves a load that goes away by itself


# ---- figures ---------------------------------------------------------------------------------


class Figure:
    """One line of the table. bar None: there is none, the figure is for comparison."""

    def __init__(self, key, name, unit, bar=None, note=""):
        self.key, self.name, self.unit, self.bar, self.note = key, name, unit, bar, note
        self.samples = []
        self.skipped = ""

    def add(self, sample):
        self.samples.append(sample)

    def percentile(self, percent):
        """Nearest rank: a value that was really seen."""
        ordered = sorted(self.samples)
        return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]

    def verdict(self):
        if self.skipped:
            return f"skipped: {self.skipped}"
        if not self.samples:
            return "NOT MEASURED"
        if self.bar is None:
            return ""
        return "within" if self.percentile(99) <= self.bar else "over"

    def row(self):
        digits = 3 if self.unit == "%" else 0 if self.unit in ("ns", "lost", "kB") else 1
        cells = [f"{self.percentile(p):.{digits}f} {self.unit}" if self.samples else "-"
                 for p in (50, 99)]
        bar = "-" if self.bar is None else f"{self.bar:g} {self.unit}"
        return (f"{self.name:56}{cells[0]:>13}{cells[1]:>13}{bar:>12}{len(self.samples):>5}  "
                f"{self.verdict()}")

    def as_json(self, with_samples=False):
        made = {"figure": self.key, "name": self.name, "unit": self.unit, "bar": self.bar,
                "runs": len(self.samples), "verdict": self.verdict()}
        if self.samples:
            made.update(p50=round(self.percentile(50), 4), p99=round(self.percentile(99), 4))
        if self.note:
            made["note"] = self.note
        if with_samples:
            made["samples"] = [round(one, 4) for one in self.samples]
        return made


def commit():
    """The commit of the tree; with -dirty when files of it were changed."""
    def git(*words):
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True,
                              check=False)
        return done.stdout.strip() if done.returncode == 0 else ""
    name = git("rev-parse", "--short=12", "HEAD") or "unknown"
    return name + ("-dirty" if git("status", "--porcelain") else "")


def wait_for_quiet(program):
    """The load before, by core; exits with 2 when the machine stays busy. program: names the
    variable, PROGRAM_FORCE=1, with which one goes on all the same."""
    cores = os.cpu_count() or 1
    force = f"{program.upper()}_FORCE"
    end = time.monotonic() + LOAD_WAIT_S
    told = False
    while True:
        load = os.getloadavg()[0] / cores
        if load <= LOAD_LIMIT or os.environ.get(force) == "1":
            return round(load, 2)
        if time.monotonic() >= end:
            print(f"{program}: load {load:.2f} for each of {cores} cores, the bars are for an idle "
                  f"machine (at most {LOAD_LIMIT}); {force}=1 measures all the same",
                  file=sys.stderr)
            sys.exit(2)
        if not told:
            print(f"load {load:.2f} a core; waiting up to {LOAD_WAIT_S} s for {LOAD_LIMIT} …",
                  flush=True)
            told = True
        time.sleep(2)


# ---- looking at the journal ------------------------------------------------------------------


class Journal:
    """A reader beside the controller: what was committed, and when it was seen to be."""

    def __init__(self, cluster):
        self.connection = sqlite3.connect(f"file:{cluster.database}?mode=ro", uri=True, timeout=5,
                                          check_same_thread=False, isolation_level=None)

    def close(self):
        self.connection.close()

    def last(self):
        return self.connection.execute("SELECT max(seq) FROM journal").fetchone()[0] or 0

    def after(self, seq):
        """[(seq, kind, subject, body)] of the records after that one."""
        rows = self.connection.execute(
            "SELECT seq, kind, subject, body FROM journal WHERE seq > ? ORDER BY seq", (seq,))
        return [(*row[:3], json.loads(row[3])) for row in rows]

    def watch(self, since, wanted, seconds, every):
        """Waits until each of wanted {name: test(kind, subject, body)} was seen once; returns
        {name: monotonic seconds}."""
        seen = {}
        end = time.monotonic() + seconds
        while len(seen) < len(wanted):
            rows = self.after(since)
            now = time.monotonic()
            for seq, kind, subject, body in rows:
                since = seq
                for name, test in wanted.items():
                    if name not in seen and test(kind, subject, body):
                        seen[name] = now
            if now >= end:
                raise Timeout(f"not within {seconds} s: "
                              f"{', '.join(name for name in wanted if name not in seen)}")
            time.sleep(every)
        return seen


def phase(word):
    return lambda kind, _, body: kind == "recovery_phase" and body["phase"] == word


def is_kind(word):
    return lambda kind, *_: kind == word


def lost(node):
    return lambda kind, subject, _: kind == "node_lost" and subject == f"node/{node}"


# ---- processes -------------------------------------------------------------------------------


def cpu_ns(pid):
    """What all threads of a process have run, in ns."""
    total = 0
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError):
            total += int((task / "schedstat").read_text().split()[0])
    return total


def memory_kb(pid, word):
    """A line of /proc/PID/smaps_rollup: Rss or Pss."""
    text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(re.search(rf"^{word}:\s+(\d+) kB", text, re.MULTILINE).group(1))


def say(text):
    print(f"  {text}", flush=True)
