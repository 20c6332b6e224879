#!/usr/bin/env python3
"""keepstep simulate from the command line: what it prints, what it refuses, and that its tables are
those of their generator."""

import json
import math
import os
import pathlib
import subprocess
import sys

from cluster_lib import ROOT, check, run_tests, same, scratch

BUILD = pathlib.Path(os.environ.get("KEEPSTEP_BUILD", ROOT / "build"))
SMALL = ["--nodes", "72", "--spares", "40", "--mtbf", "3h", "--days", "3"]


def simulate(*words):
    """The finished process."""
    return subprocess.run([str(BUILD / "keepstep"), "simulate", *words], capture_output=True,
                          stdin=subprocess.DEVNULL, text=True, timeout=120, check=False)


def good(*words):
    """What it prints; it must work."""
    done = simulate(*words)
    same((done.returncode, done.stderr), (0, ""), words)
    return done.stdout


def test_table_and_json():
    """assumptions come first, goodput is on top of the JSON, and a seed repeats"""
    lines = good(*SMALL).splitlines()
    check(lines[0].startswith("preset llama3: 72 nodes, 40 of them spare"), lines[0])
    same(lines[1], "assumed:", lines)
    check(any(line.startswith("goodput  9") for line in lines), lines)
    told = json.loads(good(*SMALL, "--seeds", "2", "-o", "json"))
    check(0.9 < told["goodput"] < 1, told["goodput"])
    same(told["runs"], 2, told)
    parts = [told[key] for key in ("useful_ms", "stall_ms", "start_ms", "unsettled_ms")]
    costs = [cost[key] for cost in told["loss_by_cause"].values()
             for key in ("redo_ms", "detect_ms", "restart_ms")]
    same(sum(parts) + sum(costs), told["wall_ms"], told)
    again = json.loads(good(*SMALL, "--seeds", "2", "-o", "json"))
    same(again["records_hash"], told["records_hash"], "the same seeds")


def test_sweep_and_plot():
    """a sweep is a table with its best, JSON with its points, and a picture"""
    with scratch() as folder:
        plot = folder / "sweep.svg"
        lines = good(*SMALL, "--sweep", "interval=5..45", "--plot", str(plot)).splitlines()
        same(sum("<- best" in line for line in lines), 1, lines)
        text = plot.read_text()
        check(text.startswith("<svg") and text.rstrip().endswith("</svg>"), text[:80])
        same(text.count("<circle"), 6, text)
    told = json.loads(good(*SMALL, "--sweep", "load=10s,5m", "-o", "json"))
    fast, slow = told["sweep"]["points"]
    check(fast["goodput"] > slow["goodput"], (fast["goodput"], slow["goodput"]))
    same(told["goodput"], fast["goodput"], "the best is on top")


def test_trace():
    """given failures strike; a line that makes no sense is named"""
    with scratch() as folder:
        trace = folder / "trace.csv"
        trace.write_text("# day,node,kind\n0.5,3,gpu-memory\n1,4,software\n1.25,5,disk\n")
        told = json.loads(good(*SMALL, "--drains", "0", "--trace", str(trace), "-o", "json"))
        same(told["failures"], 3, told)
        same({word: cost["count"] for word, cost in told["loss_by_cause"].items()},
             {"gpu-memory": 1, "software": 1, "disk": 1}, told)
        for line, why in (("x,3,disk", "no day"), ("2,99,disk", "no node"), ("2,3", "day,node,kind"),
                          ("2,3,flood", "no kind"), ("0.25,3,disk", "before the line above")):
            trace.write_text(f"0.5,1,disk\n{line}\n")
            done = simulate(*SMALL, "--trace", str(trace))
            same(done.returncode, 2, done.stdout + done.stderr)
            check("line 2" in done.stderr and why in done.stderr, done.stderr)
        trace.write_text("0.5,60,disk\n1,3,disk\n")
        for key in ("nodes=64,80", "nodes=48..72"):
            done = simulate("--nodes", "72", "--spares", "4", "--trace", str(trace), "--sweep", key)
            same((done.returncode, done.stdout), (2, "") if key[6] == "4" else (0, done.stdout),
                 done.stderr)
        done = simulate(*SMALL, "--trace", str(folder))
        same(done.returncode, 2, done.stdout)
        check("cannot be read" in done.stderr, done.stderr)
        trace.write_text("# nothing\n")
        same(simulate(*SMALL, "--trace", str(trace)).returncode, 2, "an empty trace")


def test_spares_auto():
    """--spares auto is the quantile of those that are away at a time"""
    for nodes, repair_days in ((300, 3), (150, 0.5), (72, 10)):
        mean = nodes * 3789e-6 * 363 / 419 * repair_days # the other 56 failures take no node
        enough, left = 0, 0.99
        while left > 0:
            left -= math.exp(-mean) * mean ** enough / math.factorial(enough)
            enough += left > 0
        told = json.loads(good("--nodes", str(nodes), "--repair", f"{int(repair_days * 24)}h",
                               "--spares", "auto", "--days", "1", "-o", "json"))
        same(told["assumptions"]["spares"], enough, told["assumptions"])
    done = simulate("--spares", "some")
    same((done.returncode, done.stdout), (2, ""), "no number")
    check("--spares takes a whole number or auto" in done.stderr, done.stderr)


def test_refusals():
    """options out of range and impossible fleets: what is wrong, on stderr, and 2"""
    for words, why in (
            (["--nodes", "4", "--spares", "8"], "leave none for the job"),
            (["--nodes", "100000"], "nodes is 100000"), (["--days", "0"], "--days takes 1 to"),
            (["--drains", "4294967295"], "drains per node-day"),
            (["--load", "soon"], "--load takes a time"), (["--interval", "1"], "5 steps or more"),
            (["--preset", "alpaca"], "llama3 or field"), (["--frobnicate", "1"], "--frobnicate"),
            (["--seeds", "9..1"], "--seeds"), (["-o", "xml"], "table or json"), (["--days"], "value"),
            (["--sweep", "load"], "KEY=A..B"), (["--sweep", "load=9s..1s"], "smaller first"),
            (["--sweep", "spares=10..3000"], "leave none"), (["--plot", "x.svg"], "give --sweep"),
            (["--trace", "/nonexistent"], "cannot be read"), (["seven"], "")):
        done = simulate(*words)
        same((done.returncode, done.stdout), (2, ""), words)
        check(why in done.stderr, (words, done.stderr))


def test_tables():
    """goodput_quantiles.c is what its generator writes"""
    folder = ROOT / "controller/sim"
    done = subprocess.run([sys.executable, str(folder / "goodput_quantiles.py")],
                          capture_output=True, text=True, timeout=60, check=True)
    check(done.stdout == (folder / "goodput_quantiles.c").read_text(), "they differ: run it again")


if __name__ == "__main__":
    sys.exit(run_tests([test_table_and_json, test_sweep_and_plot, test_trace,
                        test_spares_auto, test_refusals, test_tables]))
