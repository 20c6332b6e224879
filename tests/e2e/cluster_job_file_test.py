#!/usr/bin/env python3
"""Job files and names with mistakes: what the command line says, and with which exit code."""

import re
import sys

from cluster_lib import QUICK, Cluster, check, run_in_cluster, same, spec_of, tiny, wait_over

TEN_FAULTS = """\
name: not a name
priority: 900
run:
  comand: [python]
  command: []
  workdir: relative/path
  umask: "0999"
  allow_root: true
layout: {tensor: 0, data: 4}
checkpoint: {interval: 10 mins, restore: sometimes}
recovery: {retries: {unknown: many}}
"""
# line, key: the ten of them
WANTED = [(1, "name"), (2, "priority"), (4, "run.comand"), (5, "run.command"), (6, "run.workdir"),
          (7, "run.umask"), (9, "layout.tensor"), (10, "checkpoint.interval"),
          (10, "checkpoint.restore"), (11, "recovery.retries.unknown")]


def try_submit(cluster, text, *flags):
    path = cluster.folder / "try.yaml"
    path.write_text(text)
    return cluster.cli("submit", str(path), *flags, ok=None)


def ten_faults(cluster):
    """a job file with ten different faults: all ten are reported with their lines; exit 2"""
    done = try_submit(cluster, TEN_FAULTS)
    same(done.returncode, 2, done.stdout + done.stderr)
    found = [(int(line), key) for line, key in
             re.findall(r"try\.yaml:(\d+):(?:\d+:)? ([\w.]+):", done.stderr)]
    same([one for one in WANTED if one not in found], [], f"not reported in\n{done.stderr}")
    check("did you mean command" in done.stderr, done.stderr)
    check("10 problems; nothing was submitted" in done.stderr, done.stderr)
    same(cluster.get("/v1/jobs")["items"], [], "jobs")


def odd_layout(cluster):
    """a layout that does not multiply out is refused, with the numbers"""
    good = spec_of(cluster, "odd", ["/bin/true"])
    for layout, wanted in (("{data: 3, ranks_per_node: 2}", "3"),
                           ("{tensor: 4, data: 2, ranks_per_node: 2}", "tensor"),
                           ("{data: 4, ranks_per_node: 2, order: dp-tp}", "order")):
        text = good.replace("{data: 4, ranks_per_node: 2}", layout)
        done = try_submit(cluster, text)
        same(done.returncode, 2, f"{layout}: {done.stderr}")
        check("layout" in done.stderr and wanted in done.stderr, done.stderr)


def too_big(cluster):
    """a layout that does not fit the cluster waits, and says what it waits for"""
    cluster.submit(spec_of(cluster, "big", ["/bin/true"], data=64))
    job = cluster.job("big")
    same(job["state"], "pending", "the job")
    check("32 wanted, 2 usable" in job["reason"], job["reason"])
    cluster.cli("cancel", "big", "-y")
    cluster.until_state("big", "cancelled", 5)


def dry_run(cluster):
    """submit --dry-run says what it would do, ends with 10 and does nothing"""
    done = try_submit(cluster, tiny(cluster, "dry", data=4), "--dry-run")
    same(done.returncode, 10, done.stderr)
    same(cluster.get("/v1/jobs/dry"), None, "the job")


def same_name(cluster):
    """a second job of one name is refused with 4; the same file again is the same job"""
    text = tiny(cluster, "twin", data=4, steps=400)
    same(try_submit(cluster, text).returncode, 0, "the first")
    same(try_submit(cluster, text).returncode, 0, "the same again")
    done = try_submit(cluster, text.replace("stop_grace: 5s", "stop_grace: 6s"))
    same(done.returncode, 4, done.stderr)
    check("twin" in done.stderr, done.stderr)
    same(len(cluster.get("/v1/jobs")["items"]), len({"big", "twin"}), "jobs")
    cluster.cli("cancel", "twin", "-y")
    same(wait_over(cluster, "twin")["state"], "cancelled", "the job")
    same(try_submit(cluster, text).returncode, 0, "its name is free again")
    cluster.cli("cancel", "twin", "-y")
    wait_over(cluster, "twin")


def unknown_names(cluster):
    """what does not exist ends with 3, nonsense with 2, an unreachable controller with 6"""
    for words in (("describe", "job", "nobody"), ("cancel", "nobody", "-y"), ("logs", "nobody"),
                  ("describe", "node", "gpu-9999"), ("recover", "show", "r-0999"),
                  ("explain", "verdict", "I-0999"),
                  ("drain", "gpu-9999", "--reason", "test", "-y")):
        done = cluster.cli(*words, ok=None)
        same(done.returncode, 3, f"{words}: {done.stderr}")
    for words in (("drian", "gpu-0001"), ("drain", "gpu-0001"), ("get", "nodse"),
                  ("drain", "gpu-[0001", "--reason", "test", "-y"),
                  ("submit", "/no/such/file.yaml")):
        done = cluster.cli(*words, ok=None)
        same(done.returncode, 2, f"{words}: {done.stderr}")
    check("did you mean" in cluster.cli("drian", ok=None).stderr, "a hint")
    done = cluster.cli("-s", "unix:/no/such/socket", "get", "jobs", ok=None)
    same(done.returncode, 6, done.stderr)


if __name__ == "__main__":
    with Cluster(2, start_grace="300ms", beside=QUICK) as the_cluster:
        the_cluster.start()
        sys.exit(run_in_cluster([ten_faults, odd_layout, too_big, dry_run, same_name,
                                 unknown_names],
                                the_cluster))
