#!/usr/bin/env python3
"""One script under torchrun and under Keepstep: what its processes were given is the same, but for
what deploy/examples/pytorch/torchrun-differences.tsv lists with its reason.

Both launchers are started in the same unusual state (torchrun_probe.py --odd), so that what is
handed down and what is not becomes visible: ignored and blocked signals, limits, a leaking
descriptor, one processor, a umask, a variable of the caller. A difference that is not listed is a
failure, and so is a listed one that is not there any more or has become another one."""

import fnmatch
import json
import os
import pathlib
import pwd
import resource
import subprocess
import sys

from trainer_lib import free_port
from cluster_lib import (DEBIAN_PYTHON, QUICK, ROOT, Cluster, Skipped, check, no_torch, rank_log,
                         run_tests, same, scratch, show, spec_of, wait_over)

PROBE = ROOT / "tests" / "e2e" / "torchrun_probe.py"
LIST = ROOT / "deploy" / "examples" / "pytorch" / "torchrun-differences.tsv"
NOT_SET, EMPTY = "-", "(empty)"
ARGUMENTS = ["one", "two words"]


def caller():
    """What is in the environment of both launchers, and one variable more than ranks need."""
    entry = pwd.getpwuid(os.getuid())
    return {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": entry.pw_dir, "USER": entry.pw_name,
            "LOGNAME": entry.pw_name, "SHELL": entry.pw_shell, "CALLER_VARIABLE": "anything"}


class OddCluster(Cluster):
    """Its agents are started in the unusual state."""

    def inside(self, name):
        if name is None:
            return []
        variables = [f"{key}={value}" for key, value in caller().items()]
        return ["env", "-i", *variables, DEBIAN_PYTHON, str(PROBE), "--odd"]


def facts_of(out, ranks):
    return [json.loads(pathlib.Path(f"{out}-{rank}.json").read_text()) for rank in range(ranks)]


def under_torchrun(folder, ranks):
    """Facts of each rank, as a user's shell would start them."""
    # -r and -t: this release does not understand its own default (0) under Python 3.11; a
    # choice for a rank that does not exist leaves all of them as they are.
    command = [DEBIAN_PYTHON, str(PROBE), "--odd", DEBIAN_PYTHON, "-m", "torch.distributed.run",
               "--nnodes", "1",
               "--nproc_per_node", str(ranks), "--master_port", str(free_port()),
               "--monitor_interval", "0.1", "-r", "9:3", "-t", "9:3", str(PROBE),
               str(folder / "torchrun"), *ARGUMENTS]
    with open(PROBE, encoding="utf-8") as some_input:
        done = subprocess.run(command, cwd=folder, env=caller(), stdin=some_input, text=True,
                              capture_output=True, timeout=120, check=False)
    same(done.returncode, 0, f"torchrun:\n{done.stdout}{done.stderr}")
    return facts_of(folder / "torchrun", ranks)


def under_keepstep(cluster, folder, ranks, more=""):
    """The same of a job with the same command on one node; `more`: further keys of `run`."""
    name = f"compared-{ranks}"
    spec = spec_of(cluster, name, [DEBIAN_PYTHON, "-u", PROBE, folder / "keepstep", *ARGUMENTS],
                   data=ranks)
    spec = spec.replace(f"ranks_per_node: {cluster.ranks_per_node}", f"ranks_per_node: {ranks}")
    cluster.submit(spec.replace(f"workdir: {cluster.folder}/ckpt-{name}",
                                f"workdir: {folder}{more}"))
    job = wait_over(cluster, name)
    logs = "".join(rank_log(cluster, cluster.names[0], job["id"], 0, rank) for rank in range(ranks))
    same(job["state"], "succeeded", f"the job; {job['reason']}\n{logs}")
    return facts_of(folder / "keepstep", ranks)


# ---- the list --------------------------------------------------------------------------------


def read_list():
    """{fact: (under torchrun, under Keepstep)}: patterns of the shell; - is: not set, (empty): set to
    nothing."""
    rows = {}
    for number, line in enumerate(LIST.read_text().splitlines(), 1):
        if line == "" or line.startswith("#"):
            continue
        cells = line.split("\t")
        check(len(cells) == 4 and all(cells), f"{LIST.name}:{number}: not four cells: {line!r}")
        check(cells[0] not in rows, f"{LIST.name}:{number}: {cells[0]} is listed twice")
        rows[cells[0]] = (cells[1], cells[2])
    return rows


def not_seen_here():
    """Listed differences that this machine cannot show: {fact: why}."""
    why = {}
    if len(os.sched_getaffinity(0)) == 1:
        why["processors"] = "there is one"
    if resource.getrlimit(resource.RLIMIT_CORE)[1] == 0:
        why["limit core"] = "its hard limit is 0"
    for name, fact, odd in (("RLIMIT_NOFILE", "limit nofile", 512),
                            ("RLIMIT_MEMLOCK", "limit memlock", 65536)):
        if 0 <= resource.getrlimit(getattr(resource, name))[1] <= odd:
            why[fact] = "its hard limit is lower than what the test sets"
    return why


def compare(torchrun, keepstep, rows):
    """Texts of what is wrong, for the two ranks of one number."""
    wrong = []
    unseen = not_seen_here()
    for fact in sorted({*torchrun, *keepstep, *rows}):
        pair = torchrun.get(fact, NOT_SET) or EMPTY, keepstep.get(fact, NOT_SET) or EMPTY
        shown = f"{fact}: torchrun {pair[0]!r}, keepstep {pair[1]!r}"
        if fact not in rows:
            if pair[0] != pair[1]:
                wrong.append(f"not listed: {shown}")
        elif fact in unseen:
            print(f"not seen here: {fact}: {unseen[fact]}")
        elif pair[0] == pair[1]:
            wrong.append(f"listed, but the same: {shown}")
        elif not all(map(fnmatch.fnmatchcase, pair, rows[fact])):
            wrong.append(f"listed as {rows[fact]}: {shown}")
    return wrong


def pairs(cluster, ranks):
    """[(facts under torchrun, facts under Keepstep)] by rank."""
    with scratch() as folder:
        return list(zip(under_torchrun(folder, ranks), under_keepstep(cluster, folder, ranks)))


def check_pairs(found, rows):
    wrong = []
    for rank, (torchrun, keepstep) in enumerate(found):
        wrong += [f"rank {rank}: {text}" for text in compare(torchrun, keepstep, rows)]
    check(not wrong, f"{len(wrong)} differences\n  " + "\n  ".join(wrong))
    print(f"{len(found[0][0])} facts of a rank under torchrun, {len(found[0][1])} under Keepstep, "
          f"{len(rows)} differences, all listed")


def two_ranks_a_node(cluster, found):
    """a rank gets from Keepstep what torchrun gives it, but for what is listed with a reason"""
    found += pairs(cluster, 2)
    check_pairs(found, read_list())


def one_rank_a_node(cluster, _):
    """the same where a node has one rank, which may use all its processors: no OMP_NUM_THREADS"""
    found = pairs(cluster, 1)
    check_pairs(found, read_list())
    check("$OMP_NUM_THREADS" not in found[0][1], "OMP_NUM_THREADS is set for a lone rank")


def dumps_when_asked_for(cluster, _):
    """run.core: true leaves a rank the core dumps that torchrun leaves it"""
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    if hard == 0:
        raise Skipped("core dumps are forbidden here: their hard limit is 0")
    with scratch() as folder:
        facts = under_keepstep(cluster, folder, 2, more="\n  core: true")
    same([one["limit core"] for one in facts], ["the hard limit"] * 2, "limit core")


def the_comparison_can_fail(_, found):
    """a difference that is not listed, and one that is listed and not there, are both found"""
    rows = read_list()
    torchrun, keepstep = found[0]
    for fact in ("$LOCAL_WORLD_SIZE", "umask", "folder"):
        same(len(compare(torchrun, {**keepstep, fact: "another"}, rows)), 1, f"{fact} changed")
    less = {fact: value for fact, value in keepstep.items() if fact != "$GROUP_RANK"}
    same(len(compare(torchrun, less, rows)), 1, "a variable is missing")
    same(len(compare(torchrun, {**keepstep, "$NEW": "1"}, rows)), 1, "a variable more")
    same(len(compare(torchrun, keepstep, {**rows, "nice": ("0", "1")})), 1, "listed, not there")
    some = {fact: pair for fact, pair in rows.items() if fact != "$MASTER_PORT"}
    same(len(compare(torchrun, keepstep, some)), 1, "one line less in the list")


def main():
    missing = no_torch()
    if missing:
        print(f"skipped: {missing}")
        return 77
    with OddCluster(1, ranks_per_node=2, start_grace="300ms", beside=QUICK) as cluster:
        cluster.start()
        return run_tests([two_ranks_a_node, the_comparison_can_fail, one_rank_a_node,
                          dumps_when_asked_for], cluster, [], on_failure=lambda: show(cluster))


if __name__ == "__main__":
    sys.exit(main())
