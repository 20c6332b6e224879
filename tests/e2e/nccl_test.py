#!/usr/bin/env python3
"""The trainer's nccl backend as its launcher sees it: with a GPU it trains, without one it says what
is missing, and at once. Skipped where the build left CUDA out (which it must say, too)."""

import ctypes
import os
import struct
import subprocess
import sys
import tempfile
import time

from trainer_lib import BAD_CONFIG, BUILD, DONE, TRAINER, World, licences, write_text

DEVICE = 6
SOURCE = os.environ.get("KEEPSTEP_SOURCE", os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__)))))
SMALL = ["--batch", 8, "--context", 16, "--layers", 2, "--width", 32]


def built_with_cuda():
    with open(os.path.join(BUILD, "flags"), encoding="utf-8") as file:
        return "cuda=/" in file.read()


def gpu_count():
    """What the driver itself says; 0 without one."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int(0)
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return 0
    return count.value


def fatbin_architectures(path):
    """The machine codes in a program's fat binaries: 80 for sm_80."""
    with open(path, "rb") as file:
        data = file.read()
    found = set()
    at = data.find(b"\x50\xed\x55\xba")
    while at >= 0:
        _, header_size, size = struct.unpack_from("<HHQ", data, at + 4)
        entry, end = at + header_size, at + header_size + size
        while entry < end:
            kind, _, entry_header, entry_size = struct.unpack_from("<HHIQ", data, entry)
            if kind == 2:
                found.add(struct.unpack_from("<I", data, entry + 28)[0])
            entry += entry_header + entry_size
        at = data.find(b"\x50\xed\x55\xba", at + 4)
    return found


def make_says(*variables):
    done = subprocess.run(
        [os.environ.get("MAKE", "make"), "--no-print-directory", "-C", SOURCE, "cuda",
         f"BUILD={BUILD}", *variables], capture_output=True, text=True, check=True)
    return done.stdout.strip()


# ---- what the build says ---------------------------------------------------------------------


def test_make_says_why(_):
    for variable, said in (("CUDA=no", "left out: CUDA=no"), ("CC=clang", "left out: clang"),
                           ("SAN=address", "left out: -fsanitize=address")):
        assert said in make_says(variable), make_says(variable)
    assert ("with /" in make_says("CC=gcc", "SAN=")) == ("left out" not in
                                                         make_says("CC=gcc", "SAN="))


def test_without_cuda_it_says_so(folder):
    world = World(folder, 1, ["--text", *text(folder), "--backend", "nccl", *SMALL])
    assert world.run() == [BAD_CONFIG], world.err()
    assert "built without CUDA: " in world.err() and "--backend tcp" in world.err(), world.err()


def test_code_for_three_generations(_):
    found = fatbin_architectures(TRAINER)
    print("machine code for", ", ".join(f"sm_{one}" for one in sorted(found)))
    assert found >= {80, 90, 100}, found


# ---- without a GPU ---------------------------------------------------------------------------


def text(folder):
    return licences() or write_text(os.path.join(folder, "text"))


def test_without_a_driver_it_says_so_at_once(folder):
    """Every rank by itself, before anybody waits for anybody, and nothing is left behind."""
    saves = os.path.join(folder, "saves")
    begun = time.monotonic()
    world = World(folder, 2, ["--text", *text(folder), "--backend", "nccl", *SMALL,
                              "--checkpoint-dir", saves])
    codes = world.run(seconds=30)
    assert codes == [DEVICE] * 2, (codes, world.err())
    assert time.monotonic() - begun < 15
    for rank in range(2):
        said = world.err(rank)
        assert said.startswith(f"rank {rank}: no NVIDIA "), said
        assert "CUDA error 35" in said or "CUDA error 100" in said, said
        assert said.count("\n") == 1, said
        assert world.out(rank) == ""
    assert not os.path.exists(saves)


# ---- with one --------------------------------------------------------------------------------


def run_losses(folder, size, flags, env_of=None):
    world = World(folder, size, ["--text", *text(folder), *SMALL, "--steps", 10, *flags])
    for rank in range(size):
        world.env = env_of(rank) if env_of else {}
        world.start_rank(rank)
    codes = world.wait(seconds=200)
    assert codes == [DONE] * size, (codes, [world.err(rank) for rank in range(size)])
    return world.losses()


def test_losses_agree_with_tcp(folder):
    """Two ranks on one GPU, which NCCL takes for two hosts."""
    layout = ["--dp", 2]
    tcp = run_losses(folder, 2, layout)
    nccl = run_losses(folder, 2, [*layout, "--backend", "nccl"],
                      lambda rank: {"NCCL_HOSTID": f"test-{rank}", "NCCL_SOCKET_IFNAME": "lo"})
    worst = max(abs(tcp[step] - nccl[step]) for step in tcp)
    print(f"largest difference of losses: {worst:.1e}")
    assert worst < 1e-2


def main():
    cuda = built_with_cuda()
    tests = [test_make_says_why]
    if not cuda:
        tests.append(test_without_cuda_it_says_so)
    else:
        tests.append(test_code_for_three_generations)
        tests.append(test_losses_agree_with_tcp if gpu_count() > 0
                     else test_without_a_driver_it_says_so_at_once)
    for test in tests:
        with tempfile.TemporaryDirectory(prefix="keepstep-nccl-") as folder:
            begun = time.monotonic()
            test(folder)
            print(f"ok {test.__name__} ({time.monotonic() - begun:.1f} s)", flush=True)
    if not cuda:
        print("skipped: CUDA was left out of this build")
        return 77
    return 0


if __name__ == "__main__":
    sys.exit(main())
