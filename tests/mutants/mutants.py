#!/usr/bin/env python3
"""mutants.py: do the tests notice when a core decides wrongly?

    mutants.py [--planted] [--flips] [--count 200] [--seed 1] [--lanes 2] [--only WORD]
               [--fleets 60] [--json FILE]

Planted: the faults of planted.py, each a mistake that would harm a running job. At least 19 of 20
have to be caught. Flips: --count small mistakes (flips.py), drawn from --seed over every line of
controller/core and agent/core; at least 85 % have to be caught. By what: the unit tests of the
core, the scenarios, the simulator's seeds, and its kills at every record, in this order; the first
that fails, crashes or does not end catches it. A flip that survives stands in survivors.tsv with
the reason why nobody needs to see it, or is a test that is missing.

Each lane has a copy of the tree of its own; nothing here is changed. The exit status is 1 when too
few are caught, or a survivor has no reason."""

import argparse
import concurrent.futures
import json
import os
import pathlib
import queue
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time

import flips
from planted import PLANTED

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
ROOMS = ("controller/core", "agent/core")
UNIT = {"controller/core": "core", "agent/core": "agent_core"}
PLANTED_LEAST = 19
FLIPS_LEAST = 0.85
COMPILE_S = 300
CPU_S = 300  # of one test program: several times what the slowest takes
TEST_S = 1800
FLAGS = ("BUILD=build", "CFLAGS=-O1", "CUDA=no", "CC=gcc")


def limit_cpu():
    """In the child: a mutant may go round for ever, a busy host takes longer than an idle one."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))


class Lane:
    """A copy of the tree with a build of its own."""

    def __init__(self, folder, fleets):
        self.folder = folder
        self.fleets = fleets

    def make(self, *targets):
        done = subprocess.run(["make", "-s", *FLAGS, *targets], cwd=self.folder, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=COMPILE_S, check=False)
        return done.returncode, done.stdout

    def programs(self, room):
        tests = sorted((self.folder / "tests/unit" / UNIT[room]).glob("*_test.c"))
        unit = [f"build/tests/unit/{UNIT[room]}/{one.stem}" for one in tests]
        scenarios = [f"build/tests/scenario/{one.stem}" for one in
                     sorted((self.folder / "tests/scenario").glob("*_test.c"))]
        return unit, scenarios

    def steps(self, room):
        """[(name, command)], the quick ones first."""
        unit, scenarios = self.programs(room)
        sim = "build/keepstep-sim"
        return ([("unit " + pathlib.Path(one).name, [one]) for one in unit] +
                [("scenario", [one]) for one in scenarios] +
                [("sim", [sim, "--quiet", "--seeds", f"1..{self.fleets}"]),
                 ("sim, killed at every record", [sim, "--quiet", "--kill-every-record", "1"])])

    def targets(self, room):
        unit, scenarios = self.programs(room)
        return [*unit, *scenarios, "build/keepstep-sim"]

    def run(self, command):
        """None: passed; else how it failed."""
        try:
            done = subprocess.run(command, cwd=self.folder, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL, timeout=TEST_S, check=False,
                                  preexec_fn=limit_cpu,
                                  env={**os.environ, "KEEPSTEP_SOURCE": str(self.folder),
                                       "KEEPSTEP_BUILD": str(self.folder / "build")})
        except subprocess.TimeoutExpired:
            return "does not end"
        return None if done.returncode == 0 else f"status {done.returncode}"

    def judge(self, room, path, source):
        """(by what it was caught, or None; how)."""
        target = self.folder / path
        whole = target.read_text()
        target.write_text(source)
        try:
            code, output = self.make(*self.targets(room))
            if code != 0:
                return "compiler", output.strip().split("\n")[0][:200]
            for name, command in self.steps(room):
                how = self.run(command)
                if how is not None:
                    return name, how
            return None, ""
        finally:
            target.write_text(whole)


def copy_tree(folder):
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z", "-co",
                             "--exclude-standard"], stdout=subprocess.PIPE, check=True).stdout
    for name in listed.decode().split("\0"):
        source = ROOT / name
        if name and source.exists():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target, follow_symlinks=False)


def make_lanes(base, count, fleets):
    """The unchanged tree has to pass, or nothing below means anything."""
    first = Lane(base / "lane0", fleets)
    copy_tree(first.folder)
    for room in ROOMS:
        code, output = first.make(*first.targets(room))
        if code != 0:
            sys.exit(f"mutants.py: the unchanged tree does not build:\n{output}")
        for name, command in first.steps(room):
            how = first.run(command)
            if how is not None:
                sys.exit(f"mutants.py: the unchanged tree fails in {name} of {room} ({how}); "
                         "mend that first")
    lanes = [first]
    for number in range(1, count):
        folder = base / f"lane{number}"
        shutil.copytree(first.folder, folder, symlinks=True)
        lanes.append(Lane(folder, fleets))
    return lanes


def room_of(path):
    return next(room for room in ROOMS if path.startswith(room + "/"))


def planted_mutants(only):
    """[(label, path, source)]; a fault whose place has gone is an error, not a pass."""
    mutants = []
    for one in PLANTED:
        if only not in one.name:
            continue
        source = (ROOT / one.path).read_text()
        if source.count(one.old) != 1:
            sys.exit(f"mutants.py: planted.py, {one.name}: its text is in {one.path} "
                     f"{source.count(one.old)} times; write it anew")
        mutants.append((one.name, one.path, source.replace(one.old, one.new), one.name))
    return mutants


def flip_mutants(count, seed, only):
    places = []
    for room in ROOMS:
        for path in sorted((ROOT / room).glob("*.c")):
            name = str(path.relative_to(ROOT))
            places += flips.find(name, path.read_text())
    drawn = random.Random(seed).sample(places, min(count, len(places)))
    print(f"{len(places)} places, {len(drawn)} drawn from seed {seed}", flush=True)
    return [(f"{one.path}:{one.line}: {one.kind}: {one.text[:70]}", one.path,
             one.apply((ROOT / one.path).read_text()), one.key())
            for one in drawn if only in one.path]


def reasons():
    """{key: reason} of survivors.tsv: file, line of code, flip, reason."""
    known = {}
    path = pathlib.Path(__file__).with_name("survivors.tsv")
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            file, text, kind, reason = line.split("\t")
            known[f"{file}\t{text}\t{kind}"] = reason
    return known


def hunt(lanes, mutants, title, log):
    free = queue.Queue()
    for lane in lanes:
        free.put(lane)

    def one(mutant):
        label, path, source, key = mutant
        lane = free.get()
        began = time.monotonic()
        try:
            by, how = lane.judge(room_of(path), path, source)
        finally:
            free.put(lane)
        took = time.monotonic() - began
        print(f"{'SURVIVED' if by is None else 'caught':9}{label}"
              f"{'' if by is None else f' -- by {by} ({how})'} ({took:.0f}s)", flush=True)
        log.append({"kind": title, "label": label, "key": key, "by": by, "how": how,
                    "seconds": round(took, 1)})
        return by

    with concurrent.futures.ThreadPoolExecutor(len(lanes)) as pool:
        return list(pool.map(one, mutants))


def tell_planted(mutants, caught_by):
    caught = sum(by is not None and by != "compiler" for by in caught_by)
    print(f"\nplanted: {caught} of {len(mutants)} caught")
    return caught >= min(PLANTED_LEAST, len(mutants))


def tell_flips(mutants, caught_by):
    """A flip that does not compile is none; those count on neither side."""
    known = reasons()
    real = [(mutant, by) for mutant, by in zip(mutants, caught_by) if by != "compiler"]
    caught = [mutant for mutant, by in real if by is not None]
    counts = {}
    for _, by in real:
        if by is not None:
            name = by.split(" ")[0].rstrip(",")
            counts[name] = counts.get(name, 0) + 1
    share = len(caught) / len(real) if real else 1.0
    print(f"\nflips: {len(caught)} of {len(real)} caught, {100 * share:.1f} % "
          f"({', '.join(f'{name} {count}' for name, count in sorted(counts.items()))}); "
          f"{len(mutants) - len(real)} did not compile")
    unexplained = 0
    for mutant, by in real:
        if by is None:
            reason = known.get(mutant[3])
            unexplained += reason is None
            print(f"    {mutant[0]}\n        {reason or 'NO REASON GIVEN: ' + repr(mutant[3])}")
    return share >= FLIPS_LEAST and unexplained == 0


def main():
    parser = argparse.ArgumentParser(description="Do the tests notice a core that is wrong?")
    parser.add_argument("--planted", action="store_true", help="only the planted faults")
    parser.add_argument("--flips", action="store_true", help="only the drawn flips")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lanes", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--fleets", type=int, default=60, help="seeds of the simulator for each")
    parser.add_argument("--only", default="", metavar="WORD", help="names or files with this word")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE")
    arguments = parser.parse_args()
    if min(arguments.count, arguments.lanes, arguments.fleets) < 1:
        parser.error("--count, --lanes and --fleets are at least 1")
    both = arguments.planted == arguments.flips
    log = []
    good = True
    with tempfile.TemporaryDirectory(prefix="keepstep-mutants.") as base:
        lanes = make_lanes(pathlib.Path(base), arguments.lanes, arguments.fleets)
        if both or arguments.planted:
            mutants = planted_mutants(arguments.only)
            good = tell_planted(mutants, hunt(lanes, mutants, "planted", log)) and good
        if both or arguments.flips:
            mutants = flip_mutants(arguments.count, arguments.seed, arguments.only)
            good = tell_flips(mutants, hunt(lanes, mutants, "flip", log)) and good
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(log, indent=1) + "\n")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
