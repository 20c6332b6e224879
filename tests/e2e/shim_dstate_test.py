#!/usr/bin/env python3
"""A rank in D state, which SIGKILL does not end: the shim answers at once and says: not empty."""

import os
import select
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import shim_lib as lib  # noqa: E402
from shim_lib import shell  # noqa: E402

FUSE = os.path.abspath(os.path.join(lib.BUILD, "tests/bin/fuse_dstate"))
ANSWER_SECONDS = 1.0
# In the file system's request, or behind another one's in the folder's lock.
WAITS = ("request_wait_answer", "path_openat", "d_alloc_parallel", "rwsem_down_write_slowpath")


def answer_times(client, op):
    """One answer, which must come in time."""
    begun = time.monotonic()
    status = client.ask(op)
    took = time.monotonic() - begun
    assert took < ANSWER_SECONDS, f"the shim answered after {took:.2f} s"
    return status


def check(attempt, launch, fuse):
    """launch: ranks of which the first hangs in the mounted folder. Returns its pid."""
    attempt.write_launch(lib.launch_bytes(launch))
    assert attempt.start() == (lib.OK, ""), "start"
    client = attempt.connect()
    client.subscribe_until(lambda s: s["ranks"][1]["state"] == "running")
    stuck = client.ask(lib.LIST)["ranks"][0]["pid"]
    lib.wait_for(lambda: lib.read_file(f"/proc/{stuck}/wchan") in WAITS, what="the hanging rank")
    if lib.read_file(f"/proc/{stuck}/wchan") == WAITS[0]:
        assert select.select([fuse.stdout], [], [], 10)[0], "the file system was not asked"
        assert fuse.stdout.readline() == "asked\n"
    answer_times(client, lib.TERM)
    status = answer_times(client, lib.KILL)
    assert status["empty"] == 0, status
    lib.wait_for(lambda: lib.process_state(stuck) == "D", what="D state")
    other = client.subscribe_until(lambda s: s["ranks"][1]["state"] == "signaled")
    assert other["ranks"][0]["state"] in ("running", "starting"), other
    # Some kill rounds later it is as it was, and a new client is served as well.
    begun = time.monotonic()
    while time.monotonic() - begun < 1.5:
        status = answer_times(attempt.connect(), lib.LIST)
        assert (status["empty"], status["alive"], status["kill"]) == (0, 1, 1), status
        select.select([], [], [], 0.1)
    assert lib.EMPTY not in attempt.kinds()
    assert attempt.start()[0] == lib.RUNNING
    return stuck


def main():
    root = tempfile.mkdtemp(prefix="shim-dstate-")
    mount = root + "/mount"
    os.mkdir(mount)
    if not os.path.exists(FUSE):
        print(f"skipped: {FUSE} is not built")
        return 77
    fuse = subprocess.Popen([FUSE, mount], stdout=subprocess.PIPE, text=True)
    first = fuse.stdout.readline()
    if first.strip() != "mounted":
        print(first.strip() or "skipped: no FUSE")
        return 77
    sleeper = (shell("exec sleep 600"), [], "")
    # In the second not even exec is reached: its output's folder hangs. The other rank runs.
    hanging = [(["/bin/cat", mount + "/file"], [], ""), (shell("exit 0"), [], mount + "/out")]
    attempts = []
    stuck = []
    try:
        for rank in hanging:
            attempts.append(lib.Attempt(root))
            stuck.append(check(attempts[-1], [rank, sleeper], fuse))
    finally:
        fuse.send_signal(signal.SIGTERM)
        fuse.wait(10)
        subprocess.run(["umount", "-l", mount], check=False, stderr=subprocess.DEVNULL)
        for attempt in attempts:
            try:
                attempt.connect().ask(lib.KILL)
            except (OSError, EOFError):
                pass  # over already, as it should be
    for attempt, pid in zip(attempts, stuck):
        attempt.wait_over()
        assert not lib.is_alive(pid)
        end = attempt.end_of(0)
        assert end["kind"] == lib.SIGNALED and end["after"] == 1, end
    subprocess.run(["rm", "-rf", root], check=True)
    print("ok")
    return 0


if __name__ == "__main__":
    sys.exit(main())
