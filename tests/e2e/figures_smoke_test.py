#!/usr/bin/env python3
# runs alone: it measures
"""tests/bench/figures.py measures what it says: one repetition of each kind gives figures."""

import json
import os
import subprocess
import sys

from cluster_lib import ROOT, check, run_tests, same, scratch


def measured(only):
    """{figure: line} of a run with one repetition of what the word names."""
    with scratch() as folder:
        lines = folder / "figures.jsonl"
        done = subprocess.run(
            [sys.executable, str(ROOT / "tests/bench/figures.py"), "--only", only, "--json",
             str(lines)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
            env={**os.environ, "FIGURES_RUNS": "1", "FIGURES_FORCE": "1"}, check=False)
        same(done.returncode, 0, done.stdout + done.stderr)
        return {one["figure"]: one for one in map(json.loads, lines.read_text().splitlines())}


def test_kills():
    """killed ranks and nodes are timed to the record"""
    figures = {**measured("rank_ends"), **measured("node_kills")}
    for key in ("stop_committed", "ranks_gone", "ranks_started", "ranks_started_swap",
                "node_killed_lost"):
        figure = figures[key]
        check(figure["runs"] == 1 and figure["p50"] == figure["p99"] > 0, f"{key}: {figure}")
        check(figure["verdict"] in ("within", "over"), f"{key}: {figure}")
    # Lost without the grace for a connection that comes back would be a wrong verdict.
    check(figures["node_killed_lost"]["p50"] >= 3000, figures["node_killed_lost"])


def test_silence():
    """a silent host is timed, or the reason why it cannot be is given"""
    figure = measured("silence")["host_silent_lost"]
    check(figure.get("p50", 0) > 2000 or figure["verdict"].startswith("skipped: "), figure)


if __name__ == "__main__":
    sys.exit(run_tests([test_kills, test_silence]))
