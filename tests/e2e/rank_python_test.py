#!/usr/bin/env python3
"""keepstep.py, as a script uses it: without an agent, without a library, with bad ones, and with a
mailbox that a C agent's side made (tests/bin/mailbox_tool). The scripts run in processes of their
own, as the installed file with nothing but PYTHONPATH."""

import json
import os
import pathlib
import signal
import subprocess
import sys

from cluster_lib import build_dir, check, run_tests, same, scratch

PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TOOL = build_dir() / "tests" / "bin" / "mailbox_tool"


class Box:
    """A mailbox of rank `rank`, attempt 3 of job 9, and the agent's side of it."""

    def __init__(self, folder, rank=0):
        self.path = str(folder / "box")
        self.tool("create", str(rank))

    def tool(self, *words):
        done = subprocess.run([str(TOOL), self.path, *map(str, words)], capture_output=True,
                              text=True, timeout=20)
        same(done.returncode, 0, f"mailbox_tool {' '.join(map(str, words))}: {done.stderr}")
        return done.stdout

    def read(self):
        return json.loads(self.tool("read"))


def environment(**more):
    env = {name: value for name, value in os.environ.items() if not name.startswith("KEEPSTEP_")}
    env["PYTHONPATH"] = str(STAGE / "usr" / "share" / "keepstep" / "python")
    env["KEEPSTEP_LIBRARY"] = str(build_dir() / "libkeepstep.so.0")
    env.update(more)
    return {name: value for name, value in env.items() if value is not None}


def start(script, **more):
    return subprocess.Popen([PYTHON, "-W", "always", "-c", "import keepstep, sys\n" + script],
                            env=environment(**more), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


def run(script, **more):
    """(stdout, stderr) of a script that ends with 0."""
    process = start(script, **more)
    out, err = process.communicate(timeout=60)
    same(process.returncode, 0, f"the script's exit: {err}")
    return out, err


EVERYTHING = """
r = keepstep.restore_info()
keepstep.phase("restore"); keepstep.coordinates(data=1)
keepstep.step_begin(1); keepstep.step_compute(0.5); keepstep.loss(1, 2.0); keepstep.step_end(1)
keepstep.step(2); keepstep.gradient_norm(2, float("inf")); keepstep.parameter_hash(2, -1)
c = keepstep.communicator("dp", "data"); keepstep.collective(c, 5, 4, "all-reduce")
keepstep.on_abort(lambda: None); keepstep.on_abort(None)
keepstep.exchange_put("k", b"v")
keepstep.checkpoint_begin(2, 1); keepstep.checkpoint_shard("/a", 1); keepstep.checkpoint_commit("/d")
keepstep.checkpoint_done(2, "/d")
print(keepstep.attached(), r.world, keepstep.should_checkpoint(), keepstep.should_stop(),
      keepstep.checkpoint_result(0), keepstep.next_attempt(float("inf")))
"""


def no_agent():
    """without an agent every call does nothing, quietly"""
    out, err = run(EVERYTHING)
    same(out, "False 0 False False True None\n", "what it printed")
    same(err, "", "its warnings")
    out, _ = run("try: keepstep.exchange_get('k', 100)\nexcept OSError as e: print(e.errno)")
    same(out, "107\n", "ENOTCONN at once")


def no_library():
    """without a library it says so once, and does nothing"""
    out, err = run(EVERYTHING, KEEPSTEP_MAILBOX="/dev/shm/none", KEEPSTEP_LIBRARY="/none/such.so")
    same(out, "False 0 False False True None\n", "what it printed")
    same(err.count("RuntimeWarning"), 1, f"warnings: {err}")
    check("/none/such.so" in err and "going on without it" in err, err)
    _, err = run(EVERYTHING, KEEPSTEP_MAILBOX="/dev/shm/none",
                 KEEPSTEP_LIBRARY="/lib/x86_64-linux-gnu/libc.so.6")
    same(err.count("RuntimeWarning"), 1, f"warnings of a library without our calls: {err}")


def bad_mailbox():
    """a mailbox that is none, truncated, or of another version is said once; training goes on"""
    with scratch() as folder:
        box = Box(folder)
        data = pathlib.Path(box.path).read_bytes()
        cases = {"garbage": b"x" * len(data), "truncated": data[:5000], "empty": b"",
                 "version": data[:8] + b"\x63" + data[9:]}
        for name, content in cases.items():
            pathlib.Path(box.path).write_bytes(content)
            out, err = run(EVERYTHING, KEEPSTEP_MAILBOX=box.path)
            same(out, "False 0 False False True None\n", name)
            same(err.count("RuntimeWarning"), 1, f"{name}: {err}")
            check("mailbox cannot be used" in err, err)
        _, err = run(EVERYTHING, KEEPSTEP_MAILBOX="/dev/shm/none")
        check("No such file" in err, err)


def whole():
    """all that a program tells arrives, and all that it is told"""
    with scratch() as folder:
        box = Box(folder)
        box.tool("flags", 1, 1)
        out, err = run("""
r = keepstep.restore_info()
assert keepstep.attached()
print(r)
keepstep.coordinates(1, 2, 3, 4)
for n in range(41, 44):
    keepstep.step_begin(n); keepstep.step_compute(0.25); keepstep.loss(n, n / 2); keepstep.step_end(n)
keepstep.gradient_norm(43, 1.5)
keepstep.parameter_hash(43, 2**64 - 2)
keepstep.communicator("tp", "tensor")
pp = keepstep.communicator("pp", "pipeline")
assert keepstep.communicator("pp", "pipeline") == pp
keepstep.collective(pp, 12, 11, "receive", 3)
print(keepstep.should_checkpoint(), keepstep.should_stop())
keepstep.checkpoint_done(43, "/data/step-43.a-3")
print(keepstep.should_checkpoint(), keepstep.checkpoint_result())
keepstep.exchange_put("key", b"val\\0ue")
print(keepstep.exchange_get("key", 0))
keepstep.finish()
""", KEEPSTEP_MAILBOX=box.path)
        same(err, "", "warnings")
        lines = out.splitlines()
        for part in ("attempt=3", "rank=0", "world=16", "pipeline=2", "data=4", "step=40",
                     "checkpoint_attempt=2", "directory='/data/step-40.a-2'",
                     "checkpoint_directory='/data'", "master_address='10.0.0.7'",
                     "master_port=29500"):
            check(part in lines[0], f"{part} in {lines[0]}")
        same(lines[1:], ["True True", "False None", "b'val\\x00ue'"], "what it was told")
        said = box.read()
        same(said["coordinates"], [1, 2, 3, 4], "coordinates")
        same([step["step"] for step in said["steps"]], [41, 42, 43], "steps")
        same(said["steps"][2]["compute_us"], 250000, "compute time")
        same(said["steps"][2]["loss"], 21.5, "loss")
        same(said["steps"][2]["gradient_norm"], 1.5, "gradient norm")
        same(said["hashes"], [{"step": 43, "hash": "fffffffffffffffe"}], "hashes")
        same(said["communicators"][1], {"name": "pp", "axis": 4, "enqueued": 12, "completed": 11,
                                        "operation": 9, "peer": 3}, "a communicator")
        same([(one["kind"], one["path"]) for one in said["requests"]],
             [(1, ""), (3, "/data/step-43.a-3")], "requests")
        check(said["finished"], "finish")


def other_ranks():
    """a rank above 0 is asked for nothing, and its checkpoint_done is not rank 0's"""
    with scratch() as folder:
        box = Box(folder, rank=5)
        box.tool("flags", 1, 1)
        out, _ = run("keepstep.step(1)\nkeepstep.checkpoint_done(1, '/data/x')\n"
                     "print(keepstep.should_checkpoint(), keepstep.should_stop())",
                     KEEPSTEP_MAILBOX=box.path)
        same(out, "False False\n", "what it is asked")
        same(box.read()["requests"], [], "requests")


def errors():
    """wrong arguments are a ValueError that names the call, what can happen an OSError"""
    with scratch() as folder:
        box = Box(folder)
        out, _ = run("""
def fails(kind, function, *arguments):
    try:
        function(*arguments)
    except kind as error:
        print(type(error).__name__, getattr(error, "errno", None), error)
    else:
        raise SystemExit(f"{function} took {arguments}")
fails(ValueError, keepstep.step, 0)
fails(ValueError, keepstep.step, -1)
fails(ValueError, keepstep.phase, "dinner")
fails(ValueError, keepstep.checkpoint_done, 1, "relative/path")
fails(ValueError, keepstep.checkpoint_commit, "/d")
fails(ValueError, keepstep.communicator, "dp", "depth")
fails(ValueError, keepstep.collective, 0, 1, 0, "all-reduce")
fails(ValueError, keepstep.checkpoint_shard, "/a", 1, "12")
fails(ValueError, keepstep.exchange_put, "", b"")
keepstep.exchange_put("a", b"1"); keepstep.exchange_put("a", b"1")
fails(FileExistsError, keepstep.exchange_put, "a", b"2")
fails(OSError, keepstep.exchange_put, "b", bytes(4097))
fails(TimeoutError, keepstep.exchange_get, "never", 0.05)
fails(OSError, keepstep.checkpoint_result)
""", KEEPSTEP_MAILBOX=box.path)
        lines = out.splitlines()
        same(len(lines), 13, "refusals")
        check("keepstep.phase: 'dinner' is none of init, restore" in lines[2], lines[2])
        check(all("keepstep." in line for line in lines), out)


def refused_commit():
    """what became of a commit: accepted, or refused with the controller's words"""
    with scratch() as folder:
        box = Box(folder)
        process = start("""
for n in (1, 2):
    keepstep.checkpoint_done(n, f"/data/step-{n}.a-3")
    print("asked", flush=True)
    try:
        print(keepstep.checkpoint_result(20), flush=True)
    except OSError as error:
        print(error.errno, error.strerror, flush=True)
""", KEEPSTEP_MAILBOX=box.path)
        same(process.stdout.readline(), "asked\n", "the first")
        box.tool("answer", 2, 0, "")
        same(process.stdout.readline(), "True\n", "its answer")
        same(process.stdout.readline(), "asked\n", "the second")
        box.tool("answer", 4, -116, "attempt 3 is over")
        same(process.stdout.readline(), "116 attempt 3 is over\n", "its answer")
        same(process.wait(20), 0, "its exit")


def aborted():
    """on_abort calls from a thread while the main one is stuck in a call of C"""
    with scratch() as folder:
        box = Box(folder)
        process = start("""
import ctypes, os, threading
def over():
    print("over", threading.current_thread() is not threading.main_thread(), flush=True)
    os._exit(75)
keepstep.on_abort(over)
print("ready", flush=True)
ctypes.CDLL(None).pause()      # as in a collective that never ends
""", KEEPSTEP_MAILBOX=box.path)
        same(process.stdout.readline(), "ready\n", "the script")
        box.tool("abort", 4)
        same(process.stdout.readline(), "over True\n", "the callback")
        same(process.wait(20), 75, "its exit")


def abort_taken_back():
    """a callback that is under way when it is taken back, or replaced, ends as if it were not"""
    with scratch() as folder:
        box = Box(folder)
        process = start("""
import gc, threading
def kept():                    # what the library's thread may run, whatever comes meanwhile
    gc.collect()
    return sum(type(one).__name__ == "CFunctionType" and bool(one) for one in gc.get_objects())
before = kept()                # ctypes has some of its own
inside, leave = threading.Event(), threading.Event()
def over():
    inside.set()
    leave.wait()
    print("left", flush=True)
keepstep.on_abort(over)
print("ready", flush=True)
inside.wait()
keepstep.on_abort(None)
print(kept() - before, flush=True)
leave.set()
keepstep.finish()
print(kept() - before, flush=True)
""", KEEPSTEP_MAILBOX=box.path)
        same(process.stdout.readline(), "ready\n", "the script")
        box.tool("abort", 4)
        out, err = process.communicate(timeout=20)
        same((out, err, process.returncode), ("1\nleft\n0\n", "", 0), "the rest of it")


def at_exit():
    """an interpreter that ends is not called into, and does not wait"""
    with scratch() as folder:
        box = Box(folder)
        for end in ("", "keepstep.finish()", "raise SystemExit(0)"):
            out, err = run(f"keepstep.on_abort(lambda: print('called'))\nprint('ready')\n{end}",
                           KEEPSTEP_MAILBOX=box.path)
            same((out, err), ("ready\n", ""), end)


def forked():
    """the children of a data loader are not the rank"""
    with scratch() as folder:
        box = Box(folder)
        out, err = run("""
import multiprocessing
keepstep.step(1)
def child(queue):
    keepstep.step(99)
    queue.put(keepstep.attached())
context = multiprocessing.get_context("fork")
queue = context.Queue()
process = context.Process(target=child, args=(queue,))
process.start()
print(queue.get(), keepstep.attached())
process.join()
keepstep.step(2)
""", KEEPSTEP_MAILBOX=box.path)
        same(out, "False True\n", err)
        same([step["step"] for step in box.read()["steps"]], [1, 2], "steps")


def killed():
    """a script that is killed while it tells leaves a mailbox that can be read"""
    with scratch() as folder:
        box = Box(folder)
        for _ in range(5):
            process = start("n = 0\nprint('go', flush=True)\n"
                            "while True:\n    n += 1\n    keepstep.step(n); keepstep.loss(n, n)\n",
                            KEEPSTEP_MAILBOX=box.path)
            same(process.stdout.readline(), "go\n", "the script")
            while box.read()["step"] < 100:
                pass
            process.send_signal(signal.SIGKILL)
            process.wait()
            said = box.read()
            if not said["torn"]:
                steps = [step["step"] for step in said["steps"]]
                same(steps, list(range(steps[0], steps[0] + len(steps))), "steps")


def from_header():
    """every call of keepstep.h has its twin, and the words are in the header's order"""
    header = (ROOT / "agent" / "rank" / "keepstep.h").read_text()
    names = sorted({line.split("keepstep_")[1].split("(")[0] for line in header.splitlines()
                    if line.startswith("KEEPSTEP_EXPORT")})
    out, _ = run(f"""
for name in {names} + [name for name in keepstep.__all__ if name[0].islower()]:
    function = getattr(keepstep, name, None)
    if not callable(function) or not function.__doc__ or name not in keepstep.__all__:
        print(name)
""")
    same(out, "", "calls without a twin, or without a text")
    out, _ = run("print(len(keepstep.PHASES), len(keepstep.AXES), len(keepstep.OPERATIONS))")
    def count(enum):
        body = header.split(f"enum {enum} {{")[1].split("}")[0]
        return sum(1 for line in body.splitlines() if line.strip().startswith("KEEPSTEP_"))
    same(list(map(int, out.split())), [count("keepstep_phase"), count("keepstep_axis"),
                                       count("keepstep_operation")], "words")


def main():
    global STAGE
    with scratch() as stage:
        STAGE = stage
        make = os.environ.get("MAKE", "make").split()
        subprocess.run([*make, "--no-print-directory", "-s", f"BUILD={build_dir()}",
                        f"DESTDIR={stage}", "prefix=/usr", "install-files"], cwd=ROOT, check=True,
                       stdout=subprocess.DEVNULL)
        if b"__asan" in (build_dir() / "libkeepstep.so.0").read_bytes() or \
                b"__tsan" in (build_dir() / "libkeepstep.so.0").read_bytes():
            print("skipped: a sanitizer's library cannot be loaded into a plain interpreter")
            return 77
        return run_tests([no_agent, no_library, bad_mailbox, whole, other_ranks, errors,
                          refused_commit, aborted, abort_taken_back, at_exit, forked, killed,
                          from_header])


if __name__ == "__main__":
    sys.exit(main())
