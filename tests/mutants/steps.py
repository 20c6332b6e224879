"""steps.py: the test programs that judge a mutant, and how one of them is run.

The order is by what they cost: the unit tests of the mutant's room, the one named like its file
first; the scenarios; a few fleets of the simulator; then, for a mutant that has survived so far,
the unit tests and scenarios with sanitizers, the scenarios with a controller that dies, the kept
seeds, more fleets, and the kills and strikes at every record. All are seeded: the same mutant is
caught by the same test again."""

import dataclasses
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import threading

from workshop import sha

UNIT = {"controller/core": "core", "agent/core": "agent_core"}
# A mutant may go round for ever. The processor's time decides that, as a busy host takes longer.
CPU_TIMES = 10  # of what the unchanged tree needs
CPU_MORE_S = 10
QUICK_S = 3
FEW_FLEETS = "sim, a few fleets"
FIRST_LOOK = ("scenario", FEW_FLEETS)  # besides the unit tests
WALL_S = 3600  # nothing here sleeps: the host is to blame, and nothing is known of the mutant
MEMORY = 8 << 30
OUTPUT = 256 << 20
TAIL = 65536


@dataclasses.dataclass(frozen=True)
class Step:
    """name: what is told; reads: files of the tree that it depends on; build: of workshop.BUILDS"""

    name: str
    program: str
    arguments: tuple = ()
    environment: tuple = ()
    reads: tuple = ()
    build: str = "plain"


@dataclasses.dataclass(frozen=True)
class Outcome:
    """how: None when it passed. known: False when the host, not the mutant, ended it."""

    how: str
    cpu_s: float
    known: bool = True


def unit_sources(folder, room):
    """{test: its sources}, the helpers beside it among them."""
    files = sorted((folder / "tests/unit" / room).glob("*.c"))
    helpers = [one for one in files if not one.stem.endswith("_test")]
    return {f"unit/{room}/{one.stem}": tuple(file.relative_to(folder).as_posix()
                                             for file in (one, *helpers))
            for one in files if one.stem.endswith("_test")}


def programs(folder):
    """{name: (sources, archives)}: see workshop.Tree.build_all()."""
    found = {}
    for room in UNIT.values():
        for name, sources in unit_sources(folder, room).items():
            found[name] = (sources, ("testlib",))
    scenario = tuple(one.relative_to(folder).as_posix()
                     for one in sorted((folder / "tests/scenario").glob("*.c")))
    found["scenario"] = (scenario, ("testlib", "sim"))
    found["keepstep-sim"] = (("controller/tools/sim_main.c",), ("tools", "sim"))
    return found


def scenario(name, every, texts, build="plain"):
    return Step(name, "scenario", environment=(("SCENARIO_EVERY", str(every)),), reads=texts,
                build=build)


def sim(name, *arguments, reads=()):
    return Step(name, "keepstep-sim", arguments, reads=reads)


def steps(folder, room, fleets, quick):
    """All of a room, those of a first look first; quick: no others."""
    texts = tuple(one.relative_to(folder).as_posix()
                  for one in sorted((folder / "tests/scenario").glob("*.txt")))
    few = min(fleets, 12)
    units = [Step(name, name) for name in unit_sources(folder, UNIT[room])]
    found = [*units, scenario("scenario", 0, texts), sim(FEW_FLEETS, "--seeds", f"1..{few}")]
    if quick:
        return found
    found += [*[Step(f"{one.name}, sanitizers", one.program, build="asan") for one in units],
              scenario("scenario, sanitizers", 0, texts, "asan"),
              scenario("scenario, killed", 10, texts),
              sim("sim, kept seeds", "--replay", "tests/sim/seeds", reads=("tests/sim/seeds",))]
    if fleets > few:
        found.append(sim("sim", "--seeds", f"{few + 1}..{fleets}"))
    found += [sim("sim, killed at every record", "--kill-every-record", "1"),
              sim("sim, struck at every record", "--strike-every-record", "1")]
    return found


def ordered(found, path, costs):
    """[(step, whether a first look has it)] for a mutant of this file: what is quick, the unit
    tests of its name first; what is slow of its name; then what is left, quick or not, but for the
    unit tests, of which only the quick ones and those of its name are of use. costs: of the unit
    tests and of what a first look has besides them."""
    stem = pathlib.Path(path).stem
    of_program = {step.program: costs[step] for step in found if step in costs}

    def rank(step):
        unit = re.fullmatch(r"unit/(?:agent_)?core/(\w+)_test(.*)", step.name)
        if unit is None:
            return 1 if step in costs else 3
        quick = of_program[step.program] < QUICK_S
        named = stem == unit[1] or stem.startswith(unit[1] + "_")
        if unit[2]:
            return 3 if named or quick else None
        if quick:
            return 0 if named else 1
        return 2 if named else None

    ranked = [(step, rank(step)) for step in found]
    ranked = sorted((one for one in ranked if one[1] is not None),
                    key=lambda one: (one[1], costs[one[0]] if one[1] < 3 else 0))
    return [(step, place < 3) for step, place in ranked]


def fingerprint(build, step):
    """Changes when the test does: what is known of an earlier run holds as long as it does not."""
    return sha(build.program(step.program).read_bytes(), step.arguments, step.environment,
               *[(build.tree.folder / one).read_bytes() for one in step.reads])


def failing(text):
    """Which test of a program, or which seed, was under way at the end."""
    runs = re.findall(r"^\[ RUN +\] (.*)$", text, re.MULTILINE)
    if runs:
        return runs[-1]
    wrong = re.findall(r"^seed \d+: (?!\d+ nodes).*$", text, re.MULTILINE)
    begun = re.findall(r"^seed \d+", text, re.MULTILINE)
    return wrong[-1] if wrong else begun[-1] if begun else ""


def ended(code, text, limit_s):
    if code == 0:
        return None
    if code in (-signal.SIGXCPU, -signal.SIGKILL):
        return f"{failing(text)}: does not end in {limit_s} s of the processor"
    checks = re.findall(r"^\S+\.[ch]:\d+: .*$|^.*(?:Sanitizer|runtime error): .*$", text,
                        re.MULTILINE)
    asserted = re.findall(r"^\[ +LINE +\] --- (\S+:\d+): error", text, re.MULTILINE)
    what = f"signal {-code}" if code < 0 else f"status {code}"
    why = (checks or asserted or [what])[-1]
    return ": ".join(part for part in (failing(text), why) if part)[:300]


class Runner:
    """Runs steps; stop() ends what is under way."""

    def __init__(self):
        self.running = set()
        self.guard = threading.Lock()

    def stop(self):
        with self.guard:
            for process in self.running:
                process.kill()

    def run(self, build, step, library, limit_s):
        """library: the folder of the libcores.so that is judged."""
        tree = build.tree.folder
        # The first test that fails ends a program: CMOCKA_TEST_ABORT.
        environment = {**os.environ, "LD_LIBRARY_PATH": str(library), "CMOCKA_TEST_ABORT": "1",
                       "CMOCKA_MESSAGE_OUTPUT": "STDOUT", "KEEPSTEP_SOURCE": str(tree),
                       "KEEPSTEP_BUILD": str(build.folder), **dict(step.environment)}
        command = ["prlimit", f"--cpu={limit_s}:{limit_s + 5}", f"--fsize={OUTPUT}", "--core=0",
                   *([] if build.sanitize else [f"--as={MEMORY}"]),
                   str(build.program(step.program)), *step.arguments]
        with tempfile.TemporaryFile() as output:
            with self.guard:
                process = subprocess.Popen(command, cwd=tree, stdout=output,
                                           stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                           env=environment)
                self.running.add(process)
            late = threading.Event()

            def too_late():
                late.set()
                process.kill()

            timer = threading.Timer(WALL_S, too_late)
            timer.daemon = True
            timer.start()
            _, status, usage = os.wait4(process.pid, 0)
            timer.cancel()
            process.returncode = os.waitstatus_to_exitcode(status)
            with self.guard:
                self.running.discard(process)
            output.seek(max(0, output.seek(0, os.SEEK_END) - TAIL))
            text = output.read().decode(errors="replace")
        cpu_s = usage.ru_utime + usage.ru_stime
        killed = process.returncode == -signal.SIGKILL and cpu_s < limit_s
        return Outcome(ended(process.returncode, text, limit_s), round(cpu_s, 2),
                       not (late.is_set() or killed))
