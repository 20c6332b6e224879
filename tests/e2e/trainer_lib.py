"""Helpers of the trainer's tests: worlds of real processes, as a launcher would start them."""

import hashlib
import os
import signal
import socket
import subprocess
import time

BUILD = os.path.abspath(os.environ.get("KEEPSTEP_BUILD", "build"))
TRAINER = os.path.join(BUILD, "keepstep-trainer")

DONE, PEER, CHECKPOINT, RENDEZVOUS, LOCAL, VALIDATION, RESTART, BAD_CONFIG = (
    0, 1, 3, 4, 5, 17, 75, 93)


def licences():
    """A real text that every Debian has; where it is not, one that is as regular."""
    folder = "/usr/share/common-licenses"
    paths = [os.path.join(folder, name) for name in ("GPL-3", "Apache-2.0", "MPL-2.0")]
    return paths if all(os.path.isfile(path) for path in paths) else None


def write_text(path, size=200000):
    words = ("the of and to in a is that for it as was with be by on not he his but at are this "
             "have from or one had were which all their there been has when who will no more").split()
    state = 12345
    with open(path, "w", encoding="ascii") as file:
        while file.tell() < size:
            state = (state * 1103515245 + 12345) % (1 << 31)
            file.write(words[(state >> 8) % len(words)] + (".\n" if state % 11 == 0 else " "))
    return [path]


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def wait_until(what, condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.005)


class World:
    """All ranks of one attempt. Output goes to files, so that no pipe can fill up."""

    def __init__(self, folder, size, flags, attempt=0, job="demo", port=None, env=None):
        self.folder = folder
        self.size = size
        self.attempt = attempt
        self.job = job
        self.port = port or free_port()
        self.flags = [str(flag) for flag in flags]
        self.env = env or {}
        self.ranks = {}
        self.usage = None

    def path(self, rank, stream):
        return os.path.join(self.folder, f"out-{id(self)}-{rank}-{stream}")

    def start_rank(self, rank, attempt=None, flags=None):
        environment = {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "RANK": str(rank), "WORLD_SIZE": str(self.size), "LOCAL_RANK": str(rank),
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(self.port),
            "KEEPSTEP_JOB": self.job,
            "KEEPSTEP_ATTEMPT": str(self.attempt if attempt is None else attempt),
        }
        for name, value in os.environ.items():
            if name.endswith("SAN_OPTIONS"):
                environment[name] = value
        environment.update(self.env)
        with open(self.path(rank, "out"), "wb") as out, open(self.path(rank, "err"), "wb") as err:
            self.ranks[rank] = subprocess.Popen(
                [TRAINER] + self.flags + [str(flag) for flag in flags or []], env=environment,
                stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        return self.ranks[rank]

    def start(self):
        for rank in range(self.size):
            self.start_rank(rank)
        return self

    def wait(self, seconds=60):
        """The exit codes by rank; negative ones are signals."""
        end = time.monotonic() + seconds
        try:
            return [self.ranks[rank].wait(max(0.01, end - time.monotonic()))
                    for rank in sorted(self.ranks)]
        except subprocess.TimeoutExpired:
            text = "\n".join(self.err(rank) for rank in self.ranks)
            self.kill()
            raise AssertionError(f"ranks did not end within {seconds} s\n{text}") from None

    def run(self, seconds=60):
        return self.start().wait(seconds)

    def kill(self):
        for process in self.ranks.values():
            if process.poll() is None:
                process.kill()
                process.wait()

    def signal(self, rank, number):
        self.ranks[rank].send_signal(number)

    def read(self, rank, stream):
        with open(self.path(rank, stream), encoding="utf-8", errors="replace") as file:
            return file.read()

    def out(self, rank=0):
        return self.read(rank, "out")

    def err(self, rank=0):
        return self.read(rank, "err")

    def step_words(self):
        """`step N loss L ms T norm G`, a list of words for each."""
        return [line.split() for line in self.out().splitlines() if line.startswith("step ")]

    def losses(self):
        return {int(words[1]): float(words[3]) for words in self.step_words()}

    def norms(self):
        return {int(words[1]): float(words[7]) for words in self.step_words()}

    def times_ms(self):
        return [int(words[5]) for words in self.step_words()]

    def wait_step(self, step, seconds=60):
        wait_until(f"step {step}\n{self.out()}{self.err()}",
                   lambda: f"\nstep {step} loss" in "\n" + self.out(), seconds)


def children_in_output(text):
    return [int(line.split()[2]) for line in text.splitlines()
            if line.startswith("injected: child ")]


def end_process(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except FileNotFoundError:
        return False
