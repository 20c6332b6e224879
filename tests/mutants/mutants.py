#!/usr/bin/env python3
"""mutants.py: do the tests notice when a core decides wrongly?

    mutants.py [--planted] [--flips] [--count 200] [--seed 1] [--lanes 1] [--only WORD]
               [--fleets 40] [--quick] [--build FOLDER] [--json FILE]

Planted: the faults of planted.py, each a mistake that would harm a running job. At least 19 of 20
have to be caught. Flips: --count small mistakes (flips.py), drawn from --seed over every line of
controller/core and agent/core; at least 85 % have to be caught. By what: steps.py. A flip that
changes no code, or does not compile, is none: another is drawn in its place. One that survives
stands in survivors.tsv with the reason why nobody needs to see it, or is a test that is missing;
with a reason it is spared the slow tests.

What each test said of each mutant is kept in results.jsonl in the build folder: a run that was
interrupted goes on, and after a change only what the change can have touched runs again. A lane
needs a core for itself. The exit status is 1 when too few are caught or a survivor has no reason,
130 when interrupted."""

import argparse
import dataclasses
import fcntl
import json
import os
import pathlib
import signal
import sys
import threading
import time
from typing import Callable

import flips
import steps
import workshop
from planted import PLANTED

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PLANTED_LEAST = 19
FLIPS_LEAST = 0.85
NO_CODE = ("equivalent", "does not compile")
UNKNOWN = "unknown"


@dataclasses.dataclass(frozen=True)
class Mutant:
    """key: as survivors.tsv names it; source(): the whole file, broken"""

    label: str
    path: str
    key: str
    source: Callable[[], str]


@dataclasses.dataclass(frozen=True)
class Verdict:
    """by: the test that caught it; None: it survived. Or one of NO_CODE, or UNKNOWN: the host ended
    a test. how: more about it."""

    by: str
    how: str = ""

    @property
    def caught(self):
        return self.by is not None and self.by not in (*NO_CODE, UNKNOWN)


class Unfit(Exception):
    """Nothing can be judged."""


class Memory:
    """What is known from this run and earlier ones: a line each in a file."""

    def __init__(self, path):
        self.found = {}
        self.hints = {}  # key of a mutant: the test that caught it once, of whatever sources
        self.guard = threading.Lock()
        if path.exists():
            for line in path.read_text().splitlines():
                try:
                    one = json.loads(line)
                except ValueError:
                    continue  # the end of a run that was interrupted
                self.take(one)
        self.file = path.open("a")

    def take(self, one):
        self.found[one["mutant"], one["step"]] = one
        if one["how"] is not None and "by" in one:
            self.hints[one["key"]] = one["by"]

    def get(self, mutant, step):
        return self.found.get((mutant, step))

    def put(self, mutant, step, **what):
        one = {"mutant": mutant, "step": step, **what}
        with self.guard:
            self.take(one)
            self.file.write(json.dumps(one) + "\n")
            self.file.flush()
        return one


class Court:
    """Judges mutants by the steps."""

    def __init__(self, tree, builds, memory, fleets, quick):
        self.builds = builds
        self.memory = memory
        self.quick = quick
        self.reasons = reasons()
        self.runner = steps.Runner()
        self.sources = tree.print()
        self.steps = {room: steps.steps(tree.folder, room, fleets, quick)
                      for room in workshop.ROOMS}
        self.prints = {step: steps.fingerprint(builds[step.build], step)
                       for found in self.steps.values() for step in found}
        self.costs = {}  # of each step, in seconds of the processor
        self.measuring = threading.Lock()

    def cost(self, step):
        """The unchanged tree has to pass, or a mutant that fails means nothing: before the first
        mutant is put to the step."""
        with self.measuring:
            if step not in self.costs:
                self.costs[step] = self.measure(step)
            return self.costs[step]

    def measure(self, step):
        name = workshop.sha(self.sources)
        known = self.memory.get(name, self.prints[step])
        if known is None:
            build = self.builds[step.build]
            outcome = self.runner.run(build, step, build.folder, steps.WALL_S)
            if outcome.how is not None:
                raise Unfit(f"the unchanged tree fails in {step.name}: {outcome.how}; mend that "
                            "first")
            print(f"the unchanged tree passes {step.name} {' '.join(step.arguments)} "
                  f"({outcome.cpu_s:.1f} s)", flush=True)
            known = self.memory.put(name, self.prints[step], how=None, cpu=outcome.cpu_s)
        return known["cpu"]

    def costs_of(self, room):
        """Of what the order rests on."""
        return {step: self.cost(step) for step in self.steps[room] if step.build == "plain" and
                (step.name in steps.FIRST_LOOK or step.name.startswith("unit/"))}

    def judge(self, lane, mutant):
        source = mutant.source()
        name = workshop.sha(self.sources, mutant.path, source)
        room = next(room for room in workshop.ROOMS if mutant.path.startswith(room + "/"))
        short = self.quick or mutant.key in self.reasons
        order = [step for step, quick in steps.ordered(self.steps[room], mutant.path,
                                                       self.costs_of(room))
                 if quick or not short]
        hint = self.memory.hints.get(mutant.key)
        order.sort(key=lambda step: step.name != hint)
        compiled = self.memory.get(name, "compiler")
        if compiled is not None:
            return Verdict(*compiled["how"])
        seen = {step: self.memory.get(name, self.prints[step]) for step in order}
        for step, known in seen.items():
            if known is not None and known["how"] is not None:
                return Verdict(step.name, known["how"])
        left = [step for step, known in seen.items() if known is None]
        if not left:
            return Verdict(None)
        error = lane.make(self.builds["plain"], mutant.path, source)
        if error is not None:
            how = ("equivalent", "") if error == "equivalent" else ("does not compile", error)
            self.memory.put(name, "compiler", how=how, key=mutant.key)
            return Verdict(*how)
        last = self.builds["plain"]
        for step in left:
            build = self.builds[step.build]
            if build is not last:
                lane.make(build, mutant.path, source)
                last = build
            limit_s = int(steps.CPU_MORE_S + steps.CPU_TIMES * self.cost(step))
            outcome = self.runner.run(build, step, lane.library(build), limit_s)
            if not outcome.known:
                return Verdict(UNKNOWN, f"the host ended {step.name}")
            self.memory.put(name, self.prints[step], how=outcome.how, cpu=outcome.cpu_s,
                            by=step.name, key=mutant.key)
            if outcome.how is not None:
                return Verdict(step.name, outcome.how)
        return Verdict(None)


class Hunt:
    """Judges the first `count` mutants that are any, over all lanes: the same ones each time."""

    def __init__(self, court, mutants, count):
        self.court = court
        self.mutants = mutants
        self.count = count
        self.verdicts = {}  # index: verdict
        self.real = 0
        self.under_way = 0
        self.next = 0
        self.changed = threading.Condition()
        self.began = time.monotonic()
        self.errors = []

    def take(self):
        """The index of the next one, or None: as many as are wanted have been judged."""
        with self.changed:
            while True:
                if self.real >= self.count or self.next >= len(self.mutants) or self.errors:
                    return None
                if self.real + self.under_way < self.count:
                    self.next += 1
                    self.under_way += 1
                    return self.next - 1
                self.changed.wait()

    def put(self, index, verdict, took):
        with self.changed:
            self.under_way -= 1
            self.verdicts[index] = verdict
            self.real += verdict.by not in NO_CODE
            self.say(self.mutants[index], verdict, took)
            self.changed.notify_all()

    def say(self, mutant, verdict, took):
        word = "caught" if verdict.caught else verdict.by or "SURVIVED"
        left = (time.monotonic() - self.began) / max(1, self.real) * (self.count - self.real)
        by = f" -- {verdict.by}: {verdict.how}" if verdict.caught else ""
        print(f"[{self.real}/{self.count}] {word}: {mutant.label}{by} "
              f"({took:.1f} s; {left / 60:.0f} min left)", flush=True)

    def work(self, lane):
        try:
            index = self.take()
            while index is not None:
                began = time.monotonic()
                verdict = self.court.judge(lane, self.mutants[index])
                self.put(index, verdict, time.monotonic() - began)
                index = self.take()
        except BaseException as error:  # pylint: disable=broad-except
            with self.changed:
                self.errors.append(error)
                self.changed.notify_all()

    def run(self, lanes):
        """[(mutant, verdict)] in the order in which they were drawn."""
        threads = [threading.Thread(target=self.work, args=(lane,), daemon=True) for lane in lanes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self.errors:
            raise self.errors[0]
        return [(self.mutants[index], self.verdicts[index]) for index in sorted(self.verdicts)]


def planted_mutants(folder, only):
    """A fault whose place has gone is an error, not a pass."""
    mutants = []
    for one in PLANTED:
        if only not in one.name and only not in one.path:
            continue
        source = (folder / one.path).read_text()
        if source.count(one.old) != 1:
            sys.exit(f"mutants.py: planted.py, {one.name}: its text is in {one.path} "
                     f"{source.count(one.old)} times; write it anew")
        line = source.count("\n", 0, source.index(one.old)) + 1
        broken = source.replace(one.old, one.new)
        mutants.append(Mutant(f"{one.path}:{line}: {one.name}", one.path, one.name,
                              lambda broken=broken: broken))
    return mutants


def flip_mutants(folder, seed, only):
    """All of them, in the order in which the seed draws them: each place has its lot by its name, so
    that a change elsewhere in the code leaves it in its turn."""
    places = []
    sources = {}
    for room in workshop.ROOMS:
        for path in sorted((folder / room).glob("*.c")):
            name = path.relative_to(folder).as_posix()
            sources[name] = path.read_text()
            places += flips.find(name, sources[name])
    print(f"{len(places)} places for a flip, drawn from seed {seed}", flush=True)
    places.sort(key=lambda one: workshop.sha(seed, one.key()))
    return [Mutant(f"{one.path}:{one.line}: {one.kind}: {one.place[:110]}", one.path, one.key(),
                   lambda one=one: one.apply(sources[one.path]))
            for one in places if only in one.path]


def reasons():
    """{key: reason} of survivors.tsv: file, place, flip, reason."""
    known = {}
    path = pathlib.Path(__file__).with_name("survivors.tsv")
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            file, place, kind, reason = line.split("\t")
            known[f"{file}\t{place}\t{kind}"] = reason
    return known


def table(title, judged, base):
    """Prints who caught what, and keeps it as a file."""
    lines = []
    for mutant, verdict in judged:
        by = "survived" if verdict.by is None else f"{verdict.by}: {verdict.how}"
        lines.append(f"{mutant.label}\n    {by}")
    text = "\n".join(lines)
    print(f"\n{title}:\n{text}")
    (base / f"{title}.txt").write_text(text + "\n")


def tell_planted(judged):
    caught = sum(verdict.caught for _, verdict in judged)
    print(f"\nplanted: {caught} of {len(judged)} caught", flush=True)
    return caught >= min(PLANTED_LEAST, len(judged))


def tell_flips(judged, count):
    known = reasons()
    real = [(mutant, verdict) for mutant, verdict in judged if verdict.by not in NO_CODE]
    caught = [verdict for _, verdict in real if verdict.caught]
    counts = {}
    for verdict in caught:
        kind = verdict.by.split("/")[0].split(",")[0]
        counts[kind] = counts.get(kind, 0) + 1
    share = len(caught) / len(real) if real else 0.0
    others = [sum(verdict.by == word for _, verdict in judged) for word in NO_CODE]
    print(f"\nflips: {len(caught)} of {len(real)} caught, {100 * share:.1f} % "
          f"({', '.join(f'{name} {number}' for name, number in sorted(counts.items()))}); "
          f"others drawn for {others[0]} that change no code and {others[1]} that do not compile")
    unexplained = 0
    for mutant, verdict in real:
        if verdict.by is None:
            reason = known.get(mutant.key)
            unexplained += reason is None
            print(f"    {mutant.label}\n        "
                  f"{reason or 'NO REASON GIVEN: ' + repr(mutant.key)}")
    if len(real) < count:
        print(f"only {len(real)} of {count} places: there are no more")
    return share >= FLIPS_LEAST and unexplained == 0


def parse():
    parser = argparse.ArgumentParser(description="Do the tests notice a core that is wrong?")
    parser.add_argument("--planted", action="store_true", help="only the planted faults")
    parser.add_argument("--flips", action="store_true", help="only the drawn flips")
    parser.add_argument("--count", type=int, default=200, help="how many flips (%(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lanes", type=int, default=int(os.environ.get("MUTANTS_LANES") or 1),
                        help="mutants judged side by side (MUTANTS_LANES, or 1)")
    parser.add_argument("--fleets", type=int, default=40,
                        help="seeds of the simulator for each (%(default)s)")
    parser.add_argument("--quick", action="store_true",
                        help="survived is what the quick tests do not catch, for a first look")
    parser.add_argument("--only", default="", metavar="WORD", help="names or files with this word")
    parser.add_argument("--build", type=pathlib.Path, metavar="FOLDER",
                        default=pathlib.Path(os.environ.get("KEEPSTEP_BUILD") or ROOT / "build"))
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE")
    arguments = parser.parse_args()
    if min(arguments.count, arguments.lanes, arguments.fleets) < 1:
        parser.error("--count, --lanes and --fleets are at least 1")
    return arguments


def write_json(path, found):
    rows = [{"kind": title, "label": mutant.label, "key": mutant.key, "by": verdict.by,
             "how": verdict.how} for title, judged in found for mutant, verdict in judged]
    path.write_text(json.dumps(rows, indent=1) + "\n")


def work(arguments, base):
    tree = workshop.Tree(ROOT, base)
    builds = {name: workshop.Build(tree, name) for name in workshop.BUILDS
              if name == "plain" or not arguments.quick}
    for build in builds.values():
        build.build_all(steps.programs(tree.folder))
    court = Court(tree, builds, Memory(base / "results.jsonl"), arguments.fleets,
                  arguments.quick)
    lanes = [workshop.Lane(tree, base, number + 1) for number in range(arguments.lanes)]
    both = arguments.planted == arguments.flips
    found = []
    good = True
    try:
        if both or arguments.planted:
            mutants = planted_mutants(tree.folder, arguments.only)
            judged = Hunt(court, mutants, len(mutants)).run(lanes)
            found.append(("planted", judged))
            table("planted", judged, base)
            good = tell_planted(judged) and good
        if both or arguments.flips:
            mutants = flip_mutants(tree.folder, arguments.seed, arguments.only)
            judged = Hunt(court, mutants, arguments.count).run(lanes)
            found.append(("flips", judged))
            table("flips", judged, base)
            good = tell_flips(judged, arguments.count) and good
    finally:
        court.runner.stop()
    if arguments.json is not None:
        write_json(arguments.json, found)
    unknown = [mutant for _, judged in found for mutant, verdict in judged
               if verdict.by == UNKNOWN]
    for mutant in unknown:
        print(f"not judged, as the host ended its test; run this again: {mutant.label}")
    return 0 if good and not unknown else 1


def main():
    arguments = parse()
    base = arguments.build.resolve() / "mutants"
    base.mkdir(parents=True, exist_ok=True)
    with (base / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit(f"mutants.py: another run works in {base}; wait for it, or give --build")
        signal.signal(signal.SIGTERM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
        try:
            return work(arguments, base)
        except Unfit as error:
            print(f"mutants.py: {error}", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            print(f"\ninterrupted; what is known stays in {base}/results.jsonl", file=sys.stderr)
            sys.stderr.flush()
            os._exit(130)


if __name__ == "__main__":
    sys.exit(main())
