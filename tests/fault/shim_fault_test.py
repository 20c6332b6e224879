#!/usr/bin/env python3
"""keepstep-ranks of which one call fails: whatever becomes of it, no rank is started twice, none
without a record, every end is told or its loss is, and nothing is left behind."""

import os
import shutil
import subprocess
import sys
import tempfile

from fault_lib import (NEVER, Fault, Skipped, check, check_end, loop, one_by_one, run_tests, same,
                       sanitized)

import shim_lib as lib

KINDS = ("memory", "file", "socket", "open", "child")
RUNS = 8
RANKS = 2


class Trial:
    """One start of a shim with two ranks that say that they ran, and its end."""

    def __init__(self, folder, fault):
        self.fault = fault
        self.attempt = lib.Attempt(folder)
        self.ran = self.attempt.path("ran")
        script = f'echo "$RANK" >>{self.ran}; exit 7'
        self.attempt.write_launch(lib.launch_bytes(
            [(lib.shell(script), [f"RANK={rank}"], "") for rank in range(RANKS)]))

    def start(self, environment=None):
        done = subprocess.run([lib.SHIM, "--dir", self.attempt.folder], capture_output=True,
                              env=environment, text=True, timeout=60, check=False)
        return done.returncode, done.stderr

    def said(self, text):
        return text + lib.read_file(self.attempt.path("log"))

    def judge(self):
        status, text = self.start(self.fault.environment())
        check_end(status, self.said(text), (lib.OK, lib.SYSTEM, lib.SPENT), self.fault.name)
        self.until_over()
        records = self.attempt.records()
        kinds = [record["kind"] for record in records]
        ran = sorted(lib.read_file(self.ran).split())
        same(len(set(ran)), len(ran), f"{self.fault.name}: ranks that ran")
        check(len(ran) <= kinds.count(lib.START), f"{self.fault.name}: {ran} ran, {records}")
        if status == lib.OK and kinds[-1:] == [lib.EMPTY]:
            for rank in range(RANKS):
                end = self.attempt.end_of(rank)
                wanted = (lib.EXITED, 7) if str(rank) in ran else (lib.UNSTARTED, end["code"])
                same((end["kind"], end["code"]), wanted, f"{self.fault.name}: rank {rank}'s end")
        # The next try of an agent, with nothing in its way.
        again, _ = self.start()
        wanted = (lib.SPENT,) if lib.OPEN in kinds else (lib.OK, lib.SPENT)
        check(again in wanted, f"{self.fault.name}: again: {again} after {kinds}")
        self.until_over()
        ran = sorted(lib.read_file(self.ran).split())
        same(len(set(ran)), len(ran), f"{self.fault.name}: ranks that ran in the end")
        return self.fault.failed > 0

    def waits_for_disk(self, pid):
        if not self.fault.name.startswith("file:") or ":ever" not in self.fault.name:
            return False
        lib.wait_for(lambda: not lib.is_alive(pid) or
                     "cannot be recorded" in lib.read_file(self.attempt.path("log")),
                     what="the shim's end, or its word on why not")
        return lib.is_alive(pid)

    def until_over(self):
        """The shim is gone, and so is everything that it started. One that can never record how its
        ranks ended waits for its disk: it says so, and is killed."""
        records = self.attempt.records()
        if records and self.waits_for_disk(records[0]["pid"]):
            lib.kill_shim(self.attempt)
        elif records:
            lib.wait_gone(records[0]["pid"])
        def swept():
            return self.attempt.sweep("--kill")[0] in (lib.OK, lib.UNPROVEN)
        lib.wait_for(swept, what="nothing is left")


def failing(kind, ever):
    def test():
        if kind == "memory" and sanitized():
            raise Skipped("the sanitizer has its own allocator")
        folder = tempfile.mkdtemp(prefix="ks-fault-")
        os.chmod(folder, 0o755)

        def trial(nth):
            return Trial(folder, Fault(folder, "keepstep-ranks", kind, nth, ever, places=False))

        def count():
            one = trial(NEVER)
            one.judge()
            return one.fault.calls

        try:
            loop(count, one_by_one(lambda nth: trial(nth).judge()), RUNS)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    test.__doc__ = f"keepstep-ranks: a {kind} call fails, {'for ever' if ever else 'once'}"
    return test


if __name__ == "__main__":
    sys.exit(run_tests([failing(kind, ever) for kind in KINDS for ever in (False, True)]))
