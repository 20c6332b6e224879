"""fault_lib.py: real programs of which one call fails, and what may become of them.

tests/bin/fault_preload.c says which calls there are. A loop over n visits every point with
KEEPSTEP_TEST_ALL=1, until a run comes through with nothing left to fail; else some of them, spread
over all."""

import itertools
import os
import pathlib
import signal
import struct
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "e2e"))
from cluster_lib import ALL, Skipped, build_dir, check, run_tests, same  # noqa: E402

BUILD = build_dir()
PRELOAD = BUILD / "tests" / "bin" / "fault_preload.so"
NUMBERS = itertools.count()
POINTS_MAX = 20000  # a loop that has not ended by then never will


def sanitized():
    """Whether the programs have sanitizers, whose allocator nobody may stand in front of."""
    return "-fsanitize" in (BUILD / "flags").read_text()


class Fault:
    """One failing call, or all from it on, of programs that are started with its environment."""

    def __init__(self, folder, program, kind, nth, ever=False, places=True):
        self.name = f"{kind}:{nth}{':ever' if ever else ''}{':places' if places else ''}"
        self.program = program
        # Never one of before: a process of then may still write into its own.
        self.counts = pathlib.Path(folder) / f"fault-{next(NUMBERS)}"
        self.counts.write_bytes(bytes(16))

    def environment(self):
        # gcc's AddressSanitizer wants to be loaded first, which matters to its allocator alone.
        options = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
        return {**os.environ, "LD_PRELOAD": str(PRELOAD), "KEEPSTEP_FAULT": self.name,
                "KEEPSTEP_FAULT_PROGRAM": self.program, "ASAN_OPTIONS": options.lstrip(":"),
                "KEEPSTEP_FAULT_COUNT": str(self.counts)}

    def _read(self):
        return struct.unpack("=QQ", self.counts.read_bytes())

    @property
    def calls(self):
        return self._read()[0]

    @property
    def failed(self):
        return self._read()[1]


NEVER = 1 << 60


def one_by_one(visit):
    return lambda points: [visit(point) for point in points]


def loop(count_calls, visit_all, runs, chunk=1):
    """Visits n = 1, 2, 3 … until nothing failed any more; or `runs` of them, first and last among
    them, of those that count_calls() has found. visit_all(points) says for each whether anything
    failed; it gets `chunk` points of an endless loop at a time. Returns how many were struck."""
    if ALL:
        first, hits = 1, [True]
        while hits[-1] and first < POINTS_MAX:
            hits = visit_all(range(first, first + chunk))
            first += chunk
        check(not hits[-1], f"{first} points and no end")
        return first - 1
    points = spread(count_calls(), runs)
    hits = sum(visit_all(points))
    check_hits(hits, len(points))
    return hits


def spread(calls, runs):
    """`runs` of 1 … calls, the first and the last among them."""
    check(calls > 0, "nothing was called that could fail")
    runs = min(runs, calls)
    return sorted({1 + number * (calls - 1) // max(1, runs - 1) for number in range(runs)})


def check_hits(hits, points):
    """The last ones may be missed: no two runs of a program make quite the same calls."""
    check(hits * 2 >= points, f"of {points} runs only {hits} were struck")


def check_end(status, said, allowed, what):
    """A process ended as it may: with one of its exit codes, saying why; for want of memory; or by a
    library that gave up. A check of ours that failed is a mistake of ours."""
    check("Sanitizer" not in said and "runtime error:" not in said, f"{what}: {said[-3000:]}")
    if status == -signal.SIGABRT:
        known = "out of memory" in said or '"aborted"' in said
        check(known and "check failed" not in said, f"{what}: it aborted: {said[-600:]}")
    else:
        check(status in allowed, f"{what}: it ended with {status}: {said[-600:]}")
        check(status == 0 or said.strip() != "", f"{what}: {status} without a word")


__all__ = [name for name in dir() if not name.startswith("_")]
