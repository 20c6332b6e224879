#!/usr/bin/env python3
"""The agent's probes on the machine that runs this test, in a flood of kernel lines, and what they
cost."""

import contextlib
import errno
import fcntl
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

from cluster_lib import Cluster, build_dir, check, run_tests, same, scratch
from tests.lib.cluster import free_ports

BUILD = build_dir()
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
FLOOD = 120e6 # bytes a second
NAMES = {"nvml", "kmsg", "ports", "shutdown", "oom", "mounts", "pcie", "inventory", "memory",
         "disks", "leftover", "programs", "clock"}


@contextlib.contextmanager
def agent(folder, *flags):
    """An agent without a controller; its pid and the path of its log."""
    log = folder / "agent.log"
    with open(log, "ab") as out:
        process = subprocess.Popen(
            [str(BUILD / "keepstep-agent"), "--node", "probed", "--controller",
             f"127.0.0.1:{free_ports(1)[0]}", "--state", str(folder / "state"), "--run",
             str(folder / "run"), "--peer-listen", "127.0.0.1:0", *flags],
            stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    try:
        yield process.pid, log
    finally:
        process.terminate()
        same(process.wait(20), 0, "the agent's end")


def probes_of(pid):
    """{name: pid} of the processes of an agent's probes."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                words = (entry / "cmdline").read_bytes().split(b"\0")
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
                if words[1] == b"probe-run" and parent == pid:
                    found[words[2].decode()] = int(entry.name)
    return found


def used_s(pid, children=False):
    """Processor time of a process; of the children that it has waited for."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(map(int, fields[13:15] if children else fields[11:13])) / TICKS


def resident_mib(pid):
    return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE / 2 ** 20


def real_machine():
    """each probe says ok or not-run of the machine that runs this test"""
    done = subprocess.run([str(BUILD / "keepstep-agent"), "probe", "-o", "json"],
                          capture_output=True, text=True, timeout=120)
    items = json.loads(done.stdout)["items"]
    same({item["probe"] for item in items}, NAMES, "the probes")
    other = [item for item in items if item["verdict"] not in ("ok", "not-run")]
    same(other, [], "what is neither ok nor not-run")
    same(done.returncode, 0, "exit status")


def as_a_table():
    """the same for people; a failure is the exit status; an unknown name is refused with all names"""
    with scratch() as folder:
        check_program = folder / "check.sh"
        check_program.write_text("#!/bin/sh\necho 'CRITICAL - the door is open|door=1'\nexit 2\n")
        check_program.chmod(0o700)
        done = subprocess.run([str(BUILD / "keepstep-agent"), "probe", "programs",
                               "--health-programs", f"door={check_program}"],
                              capture_output=True, text=True, timeout=60)
    same(done.returncode, 2, "exit status")
    same(done.stdout.splitlines(), ["PROBE      VERDICT  WHAT",
                                    "programs   fail     door: CRITICAL - the door is open"],
         "the table")
    done = subprocess.run([str(BUILD / "keepstep-agent"), "probe", "gpu"], capture_output=True,
                          text=True, timeout=60)
    same(done.returncode, 3, "exit status")
    check(all(name in done.stderr for name in NAMES), done.stderr)


class Ring:
    """Writes records to a pipe as the kernel's buffer keeps them: what nobody took in time is
    overwritten, its numbers are not given again."""

    def __init__(self, path):
        self.fd = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        fcntl.fcntl(self.fd, fcntl.F_SETPIPE_SZ, 1 << 20)
        self.sequence = 1000
        self.offered = 0

    def block(self, count, text):
        """That many records; what there is no room for is lost."""
        lines = "".join(f"6,{self.sequence + i},5,-;{text} {i}\n" for i in range(count)).encode()
        self.sequence += count
        self.offered += len(lines)
        with contextlib.suppress(BlockingIOError):
            written = os.write(self.fd, lines)
            if written < len(lines) and not lines[:written].endswith(b"\n"):
                self.put(b"\n") # the record that was cut is of no known shape

    def overwrite(self, count, text):
        """That many records that came and went before anybody could read them."""
        self.sequence += count
        self.offered += count * len(text)

    def put(self, data):
        while True:
            try:
                os.write(self.fd, data)
                return
            except OSError as error:
                if error.errno != errno.EAGAIN:
                    raise
                time.sleep(0.005)


def flood():
    """a flood of kernel lines costs bounded time and memory, is counted, and hides no later Xid"""
    with scratch() as folder:
        os.mkfifo(folder / "kmsg")
        with agent(folder, "--probes", "kmsg", "--kmsg", str(folder / "kmsg")) as (pid, log):
            ring = Ring(folder / "kmsg")
            ring.block(1, "quiet")
            Cluster.until(lambda: (folder / "state/probes").exists() and
                          "cursor" in (folder / "state/probes").read_text(), 20, "it reads")
            probe = probes_of(pid)["kmsg"]
            begin, used, main = time.monotonic(), used_s(probe), used_s(pid)
            text = "nvme nvme0: a line of no meaning that comes again " * 18
            while time.monotonic() < begin + 5:
                ring.block(1000, text)
                while ring.offered < FLOOD * (time.monotonic() - begin):
                    ring.overwrite(100, text)
            took = time.monotonic() - begin
            share = (used_s(probe) - used) / took
            print(f"         {ring.offered / took / 1e6:.0f} MB/s offered: probe {share:.1%} of a "
                  f"core, agent {(used_s(pid) - main) / took:.1%}, "
                  f"{resident_mib(probe):.1f} MiB resident")
            begin = time.monotonic()
            ring.put(f"3,{ring.sequence},5,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=1, "
                     "GPU has fallen off the bus.\n".encode())
            Cluster.until(lambda: '"xid-79"' in log.read_text(), 30, "the Xid after it is found")
            print(f"         found after {time.monotonic() - begin:.1f} s")
            check(share < 0.12, f"the probe took {share:.1%} of a core")
            check(resident_mib(probe) < 32, "its memory")
            Cluster.until(lambda: "lines were overwritten before they could be read" in
                          log.read_text(), 20, "the flood is told")


def make_ports(folder, count):
    """So many InfiniBand ports, up and busy, as the kernel shows them."""
    texts = {"state": "4: ACTIVE", "phys_state": "5: LinkUp", "rate": "400 Gb/sec (4X NDR)"}
    for name in ("link_downed", "link_error_recovery", "symbol_error", "port_rcv_errors",
                 "port_xmit_discards", "local_link_integrity_errors",
                 "excessive_buffer_overrun_errors"):
        texts[f"counters/{name}"] = "0"
    texts["counters/port_xmit_data"] = "123456789"
    for name in ("roce_slow_restart", "local_ack_timeout_err", "rnr_nak_retry_err"):
        texts[f"hw_counters/{name}"] = "0"
    for index in range(count):
        for name, text in texts.items():
            path = folder / f"class/infiniband/mlx5_{index}/ports/1/{name}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text + "\n")


def cost():
    """all probes together take less than 1 % of a core, with eight GPUs and eight ports"""
    with scratch() as folder:
        shutil.copy(BUILD / "tests/bin/fake_nvml.so", folder / "nvml.so")
        (folder / "nvml.so.script").write_text("gpus 8\n")
        make_ports(folder / "sys", 8)
        with agent(folder, "--nvml", str(folder / "nvml.so"), "--gpus", "8", "--sysfs",
                   str(folder / "sys")) as (pid, _):
            Cluster.until(lambda: len(probes_of(pid)) >= 7, 20, "the probes run")
            time.sleep(5) # their starts are not what they cost
            seconds = 40
            begin, before = time.monotonic(), probes_of(pid)
            used = {name: used_s(probe) for name, probe in before.items()}
            others, own = used_s(pid, children=True), used_s(pid)
            time.sleep(seconds)
            took = time.monotonic() - begin
            after = probes_of(pid)
            same({name: after.get(name) for name in before}, before, "the resident probes")
            each = {name: (used_s(probe) - used[name]) / took for name, probe in before.items()}
            ended = (used_s(pid, children=True) - others) / took
            total = sum(each.values()) + ended
            print("         of a core: " + ", ".join(f"{name} {share:.2%}" for name, share in
                                                     sorted(each.items())))
            print(f"         those that end each time {ended:.2%}, all {total:.2%}; "
                  f"the agent itself {(used_s(pid) - own) / took:.2%}")
            memory = sum(resident_mib(probe) for probe in after.values())
            print(f"         {len(after)} processes, {memory:.0f} MiB resident in all")
            check(total < 0.01, f"{total:.2%} of a core")


if __name__ == "__main__":
    sys.exit(run_tests([real_machine, as_a_table, flood, cost]))
