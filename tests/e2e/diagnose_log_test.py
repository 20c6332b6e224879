#!/usr/bin/env python3
"""keepstep diagnose log and keepstep-agent catalog from the command line: what they print, what
they take without harm, what they refuse, and that an agent reads its catalogue again."""

import json
import os
import pathlib
import signal
import subprocess
import sys

from cluster_lib import ROOT, check, run_tests, same, scratch

BUILD = pathlib.Path(os.environ.get("KEEPSTEP_BUILD", ROOT / "build"))
UNKNOWN = "unknown\tnone\tnoise"
KERNEL = [
    (b"[ 7001.5] NVRM: Xid (PCI:0000:1b:00): 48, pid=7, name=a, a double bit error",
     "hardware-node\tevict_node_gpu_reset\troot"),
    (b"4,17,9000000000,-;NVRM: Xid (PCI:0000:1b:00): 45, pid=7, name=a, Ch 00000008",
     "cascade\tfollow_root\tcascade"),
    (b"nfs: server fs7 not responding, still trying", "storage\thold_job_check_storage\troot"),
    (b"", UNKNOWN),
    (b"something that nobody knows", UNKNOWN),
]
OUTPUT = [
    (b"[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB.",
     "user-code\tfail_job_user\troot"),
    (b"n1:2:3 [0] NCCL INFO Channel 00/16", "benign\tnone\tnoise"),
]


def diagnose(*words, data=b""):
    """The finished process; its output as bytes."""
    return subprocess.run([str(BUILD / "keepstep"), "diagnose", *words], capture_output=True,
                          input=data, timeout=120, check=False)


def good(*words, data=b""):
    """The lines that it prints; it must work."""
    done = diagnose(*words, data=data)
    same((done.returncode, done.stderr), (0, b""), words)
    return done.stdout.decode().splitlines()


def bad(code, says, *words, data=b""):
    """It must refuse with this code, and say this."""
    done = diagnose(*words, data=data)
    same(done.returncode, code, (words, done.stderr))
    check(says in done.stderr.decode(), (words, done.stderr))


def agent(*words):
    """keepstep-agent with these words."""
    return subprocess.run([str(BUILD / "keepstep-agent"), *words], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=60, check=False)


def test_lines():
    """a line of answer for each line, from a file, from - and from a pipe; the last without end"""
    lines = KERNEL + OUTPUT
    data = b"\n".join(line for line, _ in lines)
    expected = [answer for _, answer in lines]
    with scratch() as folder:
        file = folder / "log"
        file.write_bytes(data)
        same(good("log", str(file)), expected, "a file")
    same(good("log", data=data), expected, "standard input")
    same(good("log", "-", data=data + b"\n"), expected, "-")
    same(good("log", data=b""), [], "nothing")


def test_streams():
    """a rank can print what it likes: it is not the kernel"""
    data = b"\n".join(line for line, _ in KERNEL)
    same(good("log", "--stream", "output", data=data), [UNKNOWN] * len(KERNEL), "kernel's lines")
    same(good("log", "--stream=kernel", data=data), [answer for _, answer in KERNEL], "the same")


def test_json():
    """one array, or an object a line, with what the line tells"""
    data = b"\n".join(line for line, _ in KERNEL)
    array = json.loads("\n".join(good("log", "-o", "json", data=data)))
    objects = [json.loads(line) for line in good("log", "-o", "jsonl", data=data)]
    same(array, objects, "both forms")
    same([(one["line"], f'{one["label"]}\t{one["action"]}\t{one["role"]}') for one in array],
         [(number, answer) for number, (_, answer) in enumerate(KERNEL, 1)], array)
    same((array[0]["signal"], array[0]["code"], array[0]["pci"]), ("xid-48", 48, "0000:1b:00"),
         array[0])
    same(array[2]["subject"], "fs7", array[2])
    check("signal" not in array[3], array[3])
    same(json.loads("".join(good("log", "-o", "json", data=b""))), [], "nothing")


def test_known_and_verbose():
    """--known leaves out what no row knows; -v says which row, about what, and the line"""
    data = b"\n".join(line for line, _ in KERNEL)
    lines = good("log", "--known", "-v", data=data)
    same(len(lines), 3, lines)
    same(lines[2].split("\t"), ["storage", "hold_job_check_storage", "root", "3",
                                "nfs-silent", "fs7", KERNEL[2][0].decode()], lines[2])


def test_hostile_bytes():
    """NUL, bytes that are no text, terminals' own bytes, and lines of any length"""
    data = b"\0\xff\x1b[31m CUDA out of memory \xc3 x\n" + b"x" * 5000000 + b"\n" + b"\0" * 70000
    same(good("log", data=data), ["user-code\tfail_job_user\troot", UNKNOWN, UNKNOWN], "bytes")
    one, two, three = [json.loads(line) for line in good("log", "-o", "jsonl", data=data)]
    same(one["text"], "???[31m CUDA out of memory ? x", one)
    same(two["dropped_bytes"], 5000000 - len(two["text"]), "what was not looked at is told")
    check(len(three["text"]) < 70000, "so is the rest")
    check("\x1b" not in "".join(good("log", "-v", data=data)), "nothing for the terminal")


def test_joined_messages():
    """lines of one message, joined: what ended the program counts"""
    message = (b"terminate called after throwing an instance of 'c10::Error'|"
               b"  what():  CUDA error: an illegal memory access was encountered")
    same(good("log", data=message), ["user-code\trestart_then_fail_job\troot"], message)


def test_a_site_has_its_own_rows():
    """--catalog: by name, by code, and new ones; a wrong line is said and nothing is printed"""
    line = b"NVRM: Xid (PCI:0000:1b:00): 63, x\nthe fan of shelf 7 stopped"
    with scratch() as folder:
        file = folder / "site.tsv"
        file.write_text("xid-63\thardware-node\tevict_node\troot\txid 63\tOurs.\n"
                        "fan\tfacility\tdegrade_watch\troot\tany fan of %S %d stopped\tOurs.\n")
        same(good("log", "--catalog", str(file), data=line),
             ["hardware-node\tevict_node\troot", "facility\tdegrade_watch\troot"], "ours")
        done = agent("catalog", "check", str(file))
        same((done.returncode, len(done.stdout.splitlines())), (0, 2), done)
        shown = agent("catalog", "show", str(file)).stdout.splitlines()
        check("xid-63\thardware-node\tevict_node\troot\txid 63\tOurs." in shown, "shown")
        check(len(shown) > 800, len(shown))
        file.write_text("# ours\n\nxid-63\thardware\tevict_node\troot\txid 63\tOurs.\n\nnone\n")
        done = agent("catalog", "check", str(file))
        same((done.returncode, done.stdout), (2, ""), done)
        first, second, third = done.stderr.splitlines()
        check(first.startswith(f"{file}:3: 'hardware' is no label: unknown, benign"), first)
        check(second.startswith(f"{file}:5: has 1 columns, not 6"), second)
        same(third, f"{file}: 2 lines are wrong", third)
        bad(2, f"{file}:3: 'hardware'", "log", "--catalog", str(file), data=line)


def test_refusals():
    """what cannot be read, and words that are none"""
    with scratch() as folder:
        bad(2, "is a folder", "log", str(folder))
        bad(2, "No such file", "log", str(folder / "none"))
        bad(2, "No such file", "log", "--catalog", str(folder / "none"))
        for words in (["catalog"], ["catalog", "check"], ["catalog", "check", str(folder)],
                      ["catalog", "check", str(folder / "none")], ["catalog", "list"]):
            done = agent(*words)
            same((done.returncode, done.stdout), (2, ""), words)
            check(done.stderr != "", words)
    bad(2, "there is no option --loud", "log", "--loud")
    bad(2, "-o takes table, json or jsonl", "log", "-o", "xml")
    bad(2, "-o needs a value", "log", "-o")
    bad(2, "--stream takes", "log", "--stream", "tv")
    bad(2, "one file, not", "log", "a", "b")
    bad(2, "there is no verb 'dog'", "dog")
    bad(2, "usage:")
    check(good("log", "--help")[0].startswith("usage: keepstep diagnose log"), "help")
    check(good("--help")[0].startswith("usage: keepstep diagnose"), "help")


def test_a_full_disk():
    """what cannot be printed is a failure"""
    with open("/dev/full", "wb") as full:
        done = subprocess.run([str(BUILD / "keepstep"), "diagnose", "log"], stdout=full,
                              stderr=subprocess.PIPE, input=b"x\n", timeout=60, check=False)
    same(done.returncode, 1, done.stderr)
    check(b"cannot be written" in done.stderr, done.stderr)


def test_answers_come_at_once():
    """a line that is there is answered before the next one comes"""
    with subprocess.Popen([str(BUILD / "keepstep"), "diagnose", "log"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as process:
        for line, answer in OUTPUT:
            process.stdin.write(line + b"\n")
            process.stdin.flush()
            same(process.stdout.readline().decode().strip(), answer, line)
        process.stdin.close()
        same(process.wait(timeout=60), 0, "its end")


def next_event(process, *names):
    """The next line of the agent's log with one of these events."""
    for line in process.stderr:
        if any(f" {name} " in line or f'"event":"{name}"' in line for name in names):
            return line
    raise AssertionError("the agent ended")


def test_the_agent_says_whether_it_is_right():
    """SIGHUP: whether the file as it is now is right; at the start a wrong one is refused"""
    row = "mine\tfacility\tdegrade_watch\troot\tany something of ours\tOurs.\n"
    with scratch() as folder:
        file = folder / "site.tsv"
        file.write_text(row)
        words = ["--node", "n1", "--controller", "127.0.0.1:9", "--state", str(folder / "state"),
                 "--run", str(folder / "run"), "--peer-listen", "127.0.0.1:0", "--catalog",
                 str(file)]
        with subprocess.Popen([str(BUILD / "keepstep-agent"), *words], stderr=subprocess.PIPE,
                              text=True) as process:
            try:
                next_event(process, "start")
                process.send_signal(signal.SIGHUP)
                before = next_event(process, "catalog-right", "catalog-wrong")
                check("catalog-right" in before, before)
                file.write_text(row + "wrong\n")
                process.send_signal(signal.SIGHUP)
                wrong = next_event(process, "catalog-right", "catalog-wrong")
                check("catalog-wrong" in wrong and ":2: has 1 columns" in wrong, wrong)
            finally:
                process.terminate()
        file.write_text("wrong\n")
        done = agent(*words)
        same(done.returncode, 1, done.stderr)
        check(":1: has 1 columns" in done.stderr, done.stderr)


if __name__ == "__main__":
    sys.exit(run_tests([test_lines, test_streams, test_json, test_known_and_verbose,
                        test_hostile_bytes, test_joined_messages, test_a_site_has_its_own_rows,
                        test_refusals, test_a_full_disk, test_answers_come_at_once,
                        test_the_agent_says_whether_it_is_right]))
