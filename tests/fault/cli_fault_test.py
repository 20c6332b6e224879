#!/usr/bin/env python3
"""`keepstep` of which one call fails: it says what is wrong and ends with a code that means it; a
submit that said yes is there, one that did not can be said again."""

import subprocess
import sys
import tempfile

from fault_lib import (BUILD, NEVER, Fault, Skipped, check, check_end, loop, one_by_one,
                       run_tests, same, sanitized)

from cluster_lib import QUICK, Cluster, spec_of

PROGRAM = "keepstep"
CODES = (0, 1, 2, 6)  # done, failed, usage, unreachable
RUNS = {"memory": 12, "socket": 6, "open": 6}


class Asked:
    """One verb of a CLI that has a fault."""

    def __init__(self, cluster, fault, words):
        done = subprocess.run(
            [str(BUILD / PROGRAM), "-s", f"unix:{cluster.socket}", "-y", *words],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
            env=fault.environment())
        what = f"keepstep {words[0]}, {fault.name}"
        self.status, self.out, self.struck = done.returncode, done.stdout, fault.failed > 0
        check_end(self.status, done.stderr, CODES, what)
        check(self.struck or self.status == 0, f"{what}: {self.status}: {done.stderr}")
        check("Traceback" not in done.stderr, done.stderr)


def faults(cluster, kind, ever, words, after):
    """Loops over the failing calls of one verb; after(asked) judges what came of it."""
    def ask(nth):
        fault = Fault(cluster.folder, PROGRAM, kind, nth, ever)
        asked = Asked(cluster, fault, words)
        after(asked)
        return asked.struck

    def count():
        fault = Fault(cluster.folder, PROGRAM, kind, NEVER, ever)
        same(Asked(cluster, fault, words).status, 0, "without a fault")
        return fault.calls
    loop(count, one_by_one(ask), RUNS[kind])


def listing(kind, ever):
    def test(cluster):
        whole = cluster.cli("get", "jobs", "-o", "json")

        def complete(asked):
            # What it has printed by the time that it says yes is all of it.
            check(asked.status != 0 or asked.out == whole, f"it said yes to {asked.out!r}")
        faults(cluster, kind, ever, ["get", "jobs", "-o", "json"], complete)
    return named(test, kind, ever, "a listing is whole or refused")


def submitting(kind, ever):
    def test(cluster):
        path = cluster.folder / "job.yaml"

        def prepare(name):
            path.write_text(spec_of(cluster, name, ["/bin/true"]))
            return name

        number = iter(range(1 << 20))
        names = [prepare(f"{kind}-{'ever' if ever else 'once'}-{next(number)}")]

        def there(asked):
            name = names[-1]
            job = cluster.job(name)
            check(asked.status != 0 or job is not None, f"{name} was accepted and is not there")
            cluster.cli("submit", str(path))  # again: name and file make it one job
            again = cluster.job(name)
            same(again["id"], job["id"] if job else again["id"], f"{name}: its id")
            cluster.cli("cancel", name)
            names.append(prepare(f"{kind}-{'ever' if ever else 'once'}-{next(number)}"))
        faults(cluster, kind, ever, ["submit", str(path)], there)
    return named(test, kind, ever, "a submit that said yes is there, once")


def named(test, kind, ever, what):
    def run(cluster):
        if kind == "memory" and sanitized():
            raise Skipped("the sanitizer has its own allocator")
        test(cluster)
    run.__doc__ = f"keepstep, a {kind} call fails, {'for ever' if ever else 'once'}: {what}"
    return run


def main():
    with tempfile.TemporaryDirectory(prefix="ks-fault-") as folder, \
            Cluster(0, folder=folder, start_grace="200ms", beside=QUICK) as cluster:
        cluster.start_controller()
        path = cluster.folder / "first.yaml"
        path.write_text(spec_of(cluster, "first", ["/bin/true"]))
        cluster.cli("submit", str(path))
        tests = [make(kind, ever) for make in (listing, submitting)
                 for kind in ("memory", "socket", "open") for ever in (False, True)]
        return run_tests(tests, cluster)


if __name__ == "__main__":
    sys.exit(main())
