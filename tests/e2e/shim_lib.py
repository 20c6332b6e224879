"""Helpers of the shim's tests: a second implementation of its files and frames.

What the shim reads is written here from the description in agent/shim/shim.h and not by its own
code, so that a change of the format on one side shows.
"""

import ctypes
import os
import select
import signal
import socket
import struct
import subprocess
import tempfile
import time

BUILD = os.environ.get("KEEPSTEP_BUILD", "build")
SHIM = os.path.abspath(os.path.join(BUILD, "keepstep-ranks"))

OK, USAGE, BAD, RUNNING, SPENT, SYSTEM, ALIVE, UNPROVEN, CRASH = 0, 2, 3, 4, 5, 6, 10, 11, 99
OPEN, START, EXITED, SIGNALED, UNSTARTED, ORDER, EMPTY = range(1, 8)
LIST, TERM, KILL, SUBSCRIBE = 1, 2, 3, 4
STATES = ["none", "running", "exited", "signaled", "unstarted", "starting"]
STAGES = ["none", "session", "limits", "user", "workdir", "output", "exec"]
COOKIE = "0123456789abcdef0123456789abcdef"
MAGIC = 0x3157534B

RECORD = struct.Struct("=IIQIIIiQiHHQQQQ")
RANK = struct.Struct("=IBBBxiiQQQQ")
STATUS_HEAD = struct.Struct("=IIQIIiIBBBBiQII")
STATUS_SIZE = STATUS_HEAD.size + 16 * RANK.size


def fnv(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value


def text(value):
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("=I", len(data)) + data + b"\0"


def text_list(values):
    return struct.pack("=I", len(values)) + b"".join(text(value) for value in values)


def launch_payload(ranks, uid=None, gid=None, groups=(), allow_root=True, umask=0o22, core=0,
                   workdir="/", cgroup="", env=("PATH=/usr/bin:/bin",), cookie=COOKIE, job=7,
                   attempt=3):
    """ranks: list of (argv, env, output)."""
    uid = os.getuid() if uid is None else uid
    gid = os.getgid() if gid is None else gid
    data = struct.pack("=II", job, attempt) + cookie.encode() + struct.pack("=II", uid, gid)
    data += struct.pack("=I", len(groups)) + b"".join(struct.pack("=I", item) for item in groups)
    data += struct.pack("=IIQ", 1 if allow_root else 0, umask, core)
    data += text(workdir) + text(cgroup) + text_list(list(env)) + struct.pack("=I", len(ranks))
    for index, (argv, rank_env, output) in enumerate(ranks):
        data += struct.pack("=I", 8 + index) + text_list(argv) + text_list(rank_env) + text(output)
    return data


def launch_bytes(*args, **kwargs):
    payload = launch_payload(*args, **kwargs)
    head = b"KSLNCH01" + struct.pack("=IIQ", 1, 24 + len(payload), fnv(payload))
    return head + payload


class Attempt:
    """One attempt's folder, and what is done with it."""

    def __init__(self, root=None):
        self.folder = tempfile.mkdtemp(prefix="shim-", dir=root)
        os.chmod(self.folder, 0o700)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write_launch(self, data):
        with open(self.path("launch"), "wb") as file:
            file.write(data)

    def start(self, *options):
        """Exit status and stderr of the starting process."""
        done = subprocess.run([SHIM, "--dir", self.folder, *options], capture_output=True,
                              timeout=60, check=False)
        return done.returncode, done.stderr.decode()

    def sweep(self, *options):
        done = subprocess.run([SHIM, "--dir", self.folder, "--sweep", *options],
                              capture_output=True, timeout=60, check=False)
        return done.returncode, done.stdout.decode()

    def records(self):
        """Whole records as dicts, in order, checked one by one."""
        try:
            with open(self.path("ends"), "rb") as file:
                data = file.read()
        except FileNotFoundError:
            return []
        result = []
        for at in range(0, len(data) - RECORD.size + 1, RECORD.size):
            raw = data[at:at + RECORD.size]
            names = ("magic kind sequence job attempt rank pid start code stage after wall mono "
                     "boot checksum")
            record = dict(zip(names.split(), RECORD.unpack(raw)))
            if (record["magic"] != 0x5245534B or record["checksum"] != fnv(raw[:-8])
                    or record["sequence"] != len(result) + 1):
                break
            result.append(record)
        return result

    def kinds(self):
        return [record["kind"] for record in self.records()]

    def end_of(self, rank):
        for record in self.records():
            if record["rank"] == rank and record["kind"] in (EXITED, SIGNALED, UNSTARTED):
                return record
        return None

    def shim_pid(self):
        return self.records()[0]["pid"]

    def connect(self):
        here = os.open(self.folder, os.O_RDONLY)
        try:
            return Client(f"/proc/self/fd/{here}/sock")
        finally:
            os.close(here)

    def wait_over(self, seconds=20):
        """Until the shim has recorded EMPTY; it tells its subscribers, or is gone already."""
        try:
            client = self.connect()
            client.ask(SUBSCRIBE)
            while client.receive(seconds)["empty"] == 0:
                pass
        except (ConnectionError, FileNotFoundError, EOFError):
            pass
        assert self.kinds()[-1] == EMPTY, self.records()
        wait_gone(self.shim_pid())


class Client:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.connect(path)
        self.data = b""
        self.nonce = 0

    def receive(self, seconds=10):
        deadline = time.monotonic() + seconds
        while len(self.data) < STATUS_SIZE:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.socket], [], [], left)[0]:
                raise TimeoutError("the shim did not answer")
            got = self.socket.recv(65536)
            if not got:
                raise EOFError("the shim closed the connection")
            self.data += got
        raw, self.data = self.data[:STATUS_SIZE], self.data[STATUS_SIZE:]
        names = ("magic size nonce job attempt pid count empty term kill cgroup error sequence "
                 "alive reserved")
        status = dict(zip(names.split(), STATUS_HEAD.unpack_from(raw)))
        assert status["magic"] == MAGIC and status["size"] == STATUS_SIZE, status
        status["ranks"] = []
        for index in range(status["count"]):
            names = "rank state stage after code pid start end_sequence end_wall end_mono"
            values = RANK.unpack_from(raw, STATUS_HEAD.size + index * RANK.size)
            rank = dict(zip(names.split(), values))
            rank["state"] = STATES[rank["state"]]
            rank["stage"] = STAGES[rank["stage"]]
            status["ranks"].append(rank)
        return status

    def ask(self, op, seconds=10):
        self.nonce += 1
        self.socket.sendall(struct.pack("=IIQ", MAGIC, op, self.nonce))
        while True:
            status = self.receive(seconds)
            if status["nonce"] == self.nonce:
                return status

    def subscribe_until(self, condition, seconds=20):
        """Follows the pushed changes until one of them, or the first answer, fits."""
        status = self.ask(SUBSCRIBE)
        while not condition(status):
            status = self.receive(seconds)
        return status


def process_state(pid):
    """The state letter, or None when there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", encoding="latin-1") as file:
            return file.read().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return None


def is_alive(pid):
    return process_state(pid) not in (None, "Z", "X")


def wait_for(condition, seconds=10, what="condition"):
    """For what no event tells: a file that another process writes, a process of others."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come within {seconds} s")
        select.select([], [], [], 0.01)


def wait_gone(pid, seconds=10):
    try:
        pid_fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        if not select.select([pid_fd], [], [], seconds)[0]:
            raise AssertionError(f"process {pid} is still there")
    finally:
        os.close(pid_fd)


def kill_shim(attempt):
    pid = attempt.shim_pid()
    os.kill(pid, signal.SIGKILL)
    wait_gone(pid)


def read_file(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def shell(script):
    return ["/bin/sh", "-c", script]


class HeldExit:
    """Another process that is to crash is held on its way out, by ptrace: dead for everybody, but
    not yet there to be waited for, as one whose GPU driver takes its time over close()."""

    SEIZE, CONT, DETACH, TRACE_EXIT, EVENT_EXIT = 0x4206, 7, 17, 0x40, 6

    def __init__(self, pid):
        """PermissionError where processes may not be traced."""
        self.pid = pid
        libc = ctypes.CDLL(None, use_errno=True)
        libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        libc.ptrace.restype = ctypes.c_long
        self.libc = libc
        self._ptrace(self.SEIZE, self.TRACE_EXIT)

    def _ptrace(self, request, data):
        if self.libc.ptrace(request, self.pid, None, data) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    def crash(self, number):
        """Ends it by a signal; returns while it stands in its exit."""
        os.kill(self.pid, number)
        while True:
            _, status = os.waitpid(self.pid, 0x40000000) # __WALL
            assert os.WIFSTOPPED(status), status
            if status >> 16 == self.EVENT_EXIT:
                return
            self._ptrace(self.CONT, os.WSTOPSIG(status))

    def release(self):
        self._ptrace(self.DETACH, 0)
