#!/usr/bin/env python3
"""A rank that prints without end does not fill the disk: run.log_max keeps head and tail of what it
printed, while it prints and afterwards, and `keepstep logs` says what is missing."""

import sys

from cluster_lib import QUICK, Cluster, check, pathlib, run_in_cluster, same, spec_of, wait_over

MIB = 1 << 20
PRINT = 'echo "first line of $RANK"; yes "$RANK goes on and on" | head -c 64M; ' \
        'while [ ! -e go ]; do sleep 0.1; done; echo "last line of $RANK"'


def outputs(cluster):
    """{rank: bytes on disk} of the job's outputs."""
    found = {}
    for node in cluster.names:
        logs = cluster.folder / "nodes" / node / "state" / "logs"
        for path in logs.glob("job-*/attempt-0/rank-*.log"):
            found[int(path.stem[5:])] = path.stat().st_blocks * 512
    return found


def endless(cluster):
    """F8: 64 MiB a rank with run.log_max: 1MiB: head and tail are kept, on disk and in the logs"""
    spec = spec_of(cluster, "chatty", ["/bin/sh", "-c", PRINT])
    cluster.submit(spec.replace("run:\n", "run:\n  log_max: 1MiB\n"))
    cluster.until(lambda: len(outputs(cluster)) == 4 and max(outputs(cluster).values()) <= MIB and
                  "bytes dropped" in cluster.cli("logs", "chatty", "--rank", "3", "--tail",
                                                 "99999"),
                  30, f"outputs within their limit: {outputs(cluster)}")
    text = cluster.cli("logs", "chatty", "--rank", "3", "--tail", "99999")
    before, _, after = text.partition("\n… ")
    check("3 goes on and on\n" in before and "3 goes on and on\n" in after, text[:200])
    check(int(after.split(" bytes dropped …\n")[0]) > 60 * MIB, after[:200])
    check("dropped" not in cluster.cli("logs", "chatty", "--rank", "3"),
          "the last 64 KiB are whole")
    pathlib.Path(cluster.folder / "ckpt-chatty" / "go").touch()
    same(wait_over(cluster, "chatty")["state"], "succeeded", "the job")
    check(cluster.cli("logs", "chatty", "--rank", "3").endswith("last line of 3\n"),
          "the last line")
    check(max(outputs(cluster).values()) <= MIB, f"on disk: {outputs(cluster)}")


if __name__ == "__main__":
    with Cluster(2, start_grace="300ms", beside=QUICK) as the_cluster:
        the_cluster.start()
        sys.exit(run_in_cluster([endless], the_cluster))
