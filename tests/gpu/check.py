#!/usr/bin/env python3
"""check.py BUILD SECONDS: what the nccl backend does on a GPU, ranks in processes that share it.

Eight ranks on one GPU are eight hosts to NCCL (NCCL_HOSTID), which exchange over the loopback
interface. Everything has a limit; every step prints what it saw, whether it passed or not, and the
last line is `N passed, N failed`.
"""
import ctypes
import glob
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

LAYOUT = ["--tp", "2", "--pp", "2", "--dp", "2"]
RANKS = 8
MODEL = ["--batch", "8", "--micro-batches", "2", "--context", "16", "--layers", "2", "--width",
         "32"]
STEPS = 20
PEER, RAS_PORT = 1, 28028


class Failed(Exception):
    pass


class Check:
    def __init__(self, build, seconds):
        self.build = os.path.abspath(build)
        self.end = time.monotonic() + seconds
        self.folder = tempfile.mkdtemp(prefix="keepstep-gpu-")
        self.text = os.path.join(self.folder, "text")
        self.passed = self.failed = 0
        with open(self.text, "w", encoding="ascii") as file:
            words = "the ranks of a job train on and on until one of them is lost and found".split()
            state = 12345
            while file.tell() < 100000:
                state = (state * 1103515245 + 12345) % (1 << 31)
                file.write(words[(state >> 8) % len(words)] + (".\n" if state % 11 == 0 else " "))

    def left(self, seconds):
        """At most so many seconds, and none when all time is spent."""
        return max(0.0, min(seconds, self.end - time.monotonic()))

    def path(self, name):
        return os.path.join(self.folder, name)

    def step(self, name, function):
        begun = time.monotonic()
        print(f"---- {name}", flush=True)
        try:
            if self.left(1) == 0:
                raise Failed("no time left")
            function(self)
            self.passed += 1
            print(f"ok      {name} ({time.monotonic() - begun:.1f} s)", flush=True)
        except (Failed, AssertionError, OSError, subprocess.SubprocessError, ValueError) as error:
            self.failed += 1
            print(f"FAILED  {name} ({time.monotonic() - begun:.1f} s): {error}", flush=True)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class World:
    """The ranks of one attempt."""

    def __init__(self, check, name, backend, flags, attempt=0):
        self.check, self.name = check, name
        self.ranks = []
        port = free_port()
        for rank in range(RANKS):
            environment = dict(os.environ)
            environment.update({
                "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(RANKS),
                "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
                "KEEPSTEP_JOB": "gpu-check", "KEEPSTEP_ATTEMPT": str(attempt),
                "NCCL_HOSTID": f"gpu-check-{rank}", "NCCL_SOCKET_IFNAME": "lo",
                "NCCL_IB_DISABLE": "1", "NCCL_DEBUG": "WARN", "NCCL_MAX_NCHANNELS": "1",
            })
            command = [os.path.join(check.build, "keepstep-trainer"), "--backend", backend,
                       "--text", check.text, "--init-timeout", "60", *LAYOUT, *MODEL, *flags]
            with open(self.file(rank), "wb") as output:
                self.ranks.append(subprocess.Popen(
                    command, env=environment, stdin=subprocess.DEVNULL, stdout=output,
                    stderr=subprocess.STDOUT))

    def file(self, rank):
        return self.check.path(f"{self.name}-{rank}.log")

    def output(self, rank=0):
        with open(self.file(rank), encoding="utf-8", errors="replace") as file:
            return file.read()

    def wait(self, seconds):
        """Exit codes; whoever has not ended is killed and shown as None."""
        end = time.monotonic() + self.check.left(seconds)
        codes = []
        for process in self.ranks:
            try:
                codes.append(process.wait(max(0.01, end - time.monotonic())))
            except subprocess.TimeoutExpired:
                codes.append(None)
        self.kill()
        return codes

    def kill(self):
        for process in self.ranks:
            if process.poll() is None:
                process.kill()
                process.wait()

    def losses(self):
        return {int(line.split()[1]): float(line.split()[3])
                for line in self.output().splitlines() if line.startswith("step ")}

    def wait_step(self, step, seconds):
        end = time.monotonic() + self.check.left(seconds)
        while max(self.losses(), default=0) < step:
            if time.monotonic() > end or any(one.poll() is not None for one in self.ranks):
                self.show()
                raise Failed(f"step {step} was not reached")
            time.sleep(0.05)

    def show(self):
        for rank in range(RANKS):
            for line in self.output(rank).splitlines()[-6:]:
                print(f"    rank {rank}: {line}")

    def must_end_well(self, seconds):
        codes = self.wait(seconds)
        if codes != [0] * RANKS:
            self.show()
            raise Failed(f"exit codes {codes}")


# ---- steps -----------------------------------------------------------------------------------


def run_program(check, arguments, seconds):
    done = subprocess.run(
        [os.path.join(check.build, arguments[0]), *arguments[1:]], timeout=check.left(seconds),
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        env=dict(os.environ, NCCL_IB_DISABLE="1", NCCL_MAX_NCHANNELS="1", NCCL_DEBUG="WARN"))
    for line in done.stdout.splitlines()[-60:]:
        print("    " + line)
    if done.returncode != 0:
        raise Failed(f"{arguments[0]} ended with {done.returncode}")


def nvml(check):
    """The driver's own library, as the agent's probe opens it."""
    library = ctypes.CDLL("libnvidia-ml.so.1")
    library.nvmlErrorString.restype = ctypes.c_char_p
    device, number = ctypes.c_void_p(), ctypes.c_uint()

    def ask(name, *arguments):
        code = getattr(library, name)(*arguments)
        return None if code == 0 else library.nvmlErrorString(code).decode()

    problem = ask("nvmlInit_v2") or ask("nvmlDeviceGetCount_v2", ctypes.byref(number))
    if problem:
        raise Failed(problem)
    print(f"    GPUs: {number.value}")
    for index in range(number.value):
        if ask("nvmlDeviceGetHandleByIndex_v2", index, ctypes.byref(device)):
            continue
        text = ctypes.create_string_buffer(96)
        for name in ("nvmlDeviceGetName", "nvmlDeviceGetUUID", "nvmlDeviceGetSerial"):
            print(f"    {name}: {ask(name, device, text, 96) or text.value.decode()}")
        problem = ask("nvmlDeviceGetTemperature", device, 0, ctypes.byref(number))
        print(f"    temperature: {problem or number.value}")
        words = [ctypes.c_uint() for _ in range(4)]
        problem = ask("nvmlDeviceGetRemappedRows", device, *map(ctypes.byref, words))
        print(f"    remapped rows (corrected, uncorrected, pending, failed): "
              f"{problem or [word.value for word in words]}")
        wide = ctypes.c_ulonglong()
        problem = ask("nvmlDeviceGetTotalEccErrors", device, 1, 0, ctypes.byref(wide))
        print(f"    uncorrected ECC errors since the driver was loaded: {problem or wide.value}")
        events = ctypes.c_ulonglong()
        problem = ask("nvmlDeviceGetSupportedEventTypes", device, ctypes.byref(events))
        print(f"    events: {problem or hex(events.value)} (0x8: Xid)")
    ask("nvmlShutdown")


def kernels(check):
    run_program(check, ["tests/gpu/kernels"], 40)


def tcp_losses(check):
    world = World(check, "tcp", "tcp", ["--steps", str(STEPS)])
    world.must_end_well(60)
    check.tcp = world.losses()
    print(f"    loss {check.tcp[1]:.6f} -> {check.tcp[STEPS]:.6f}")
    assert len(check.tcp) == STEPS


def ras(check):
    """While ranks run, NCCL's own report; an absent one is told and is no failure of ours."""
    said = b""
    try:
        with socket.create_connection(("localhost", RAS_PORT), timeout=3) as connection:
            connection.settimeout(8)
            connection.sendall(b"verbose status\n")
            while chunk := connection.recv(65536):
                said += chunk
    except OSError as error:
        print(f"    RAS: {error}")
    for line in said.decode(errors="replace").splitlines()[:40]:
        print("    RAS: " + line)


def nccl_losses(check):
    world = World(check, "nccl", "nccl", ["--steps", str(STEPS)])
    try:
        world.wait_step(2, 75)
        ras(check)
        world.must_end_well(75)
    finally:
        world.kill()
    lines = [line for line in world.output().splitlines() if line.startswith("backend ")]
    print("    " + (lines[0] if lines else "no line about the backend"))
    losses = world.losses()
    took = [line.split()[5] for line in world.output().splitlines() if line.startswith("step ")]
    print(f"    ms a step: {' '.join(took)}")
    assert sorted(losses) == sorted(check.tcp), sorted(losses)
    worst = max(abs(losses[step] - check.tcp[step]) for step in losses)
    print(f"    loss {losses[1]:.6f} -> {losses[STEPS]:.6f}, largest difference {worst:.2e}")
    assert worst < 1e-2


def death(check):
    """A rank is killed between and inside operations: the others say whom they lost, soon; the next
    attempt goes on from the checkpoint."""
    saves = check.path("saves")
    flags = ["--steps", "100000", "--checkpoint-dir", saves, "--checkpoint-every", "2"]
    world = World(check, "death", "nccl", flags)
    try:
        world.wait_step(4, 75)
        begun = time.monotonic()
        world.ranks[5].send_signal(signal.SIGKILL)
        codes = world.wait(30)
        took = time.monotonic() - begun
    finally:
        world.kill()
    print(f"    all others ended {took:.2f} s after the death, codes {codes}")
    for rank in (0, 1, 4):
        print(f"    rank {rank}: {(world.output(rank).splitlines() or [''])[-1]}")
    assert codes == [PEER] * 5 + [-signal.SIGKILL] + [PEER] * 2, codes
    whole = [os.path.basename(os.path.dirname(path))
             for path in glob.glob(os.path.join(saves, "step-*.a-0", "manifest.json"))]
    steps = sorted(int(name.removeprefix("step-").removesuffix(".a-0")) for name in whole)
    print(f"    whole checkpoints: {steps}")
    assert steps, "no whole checkpoint"
    step = steps[-1]
    again = World(check, "again", "nccl", ["--steps", str(step + 3), "--load",
                                           os.path.join(saves, f"step-{step}.a-0")], attempt=1)
    again.must_end_well(75)
    print(f"    attempt 1: steps {sorted(again.losses())}")
    assert sorted(again.losses()) == [step + 1, step + 2, step + 3]


def reform(check):
    run_program(check, ["tests/gpu/reform", "4"], 90)


def main():
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    check = Check(sys.argv[1], float(sys.argv[2]))
    for name, function in (("kernels against the cpu's", kernels),
                           ("tcp, 2 x 2 x 2", tcp_losses),
                           ("nccl, 2 x 2 x 2, against tcp", nccl_losses),
                           ("abort and form again in the same processes", reform),
                           ("a rank is killed, the next attempt goes on", death),
                           ("NVML", nvml)):
        check.step(name, function)
    print(f"{check.passed} passed, {check.failed} failed")
    return 0 if check.failed == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
