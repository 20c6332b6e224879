#!/usr/bin/env python3
"""keepstep diagnose incident: incidents of every kind that are made from seeds, what must not lead
to a verdict, and files that are broken. INCIDENTS=1000: so many of each kind."""

import json
import os
import pathlib
import re
import subprocess
import sys

import diagnose_incident_lib as lib
from cluster_lib import ROOT, check, run_tests, same, scratch

BUILD = pathlib.Path(os.environ.get("KEEPSTEP_BUILD", ROOT / "build"))
HEADER = "incident\tt_ms\tnode\tstream\tline\n"
COUNT = int(os.environ.get("INCIDENTS", "60"))


def diagnose(text, *words):
    """The finished process, with the text as its input."""
    return subprocess.run([str(BUILD / "keepstep"), "diagnose", "incident", *words],
                          input=text if isinstance(text, bytes) else text.encode(),
                          capture_output=True, timeout=300, check=False)


def verdicts(text, *words):
    """incident -> (owner, action, nodes as printed); nothing may be left out."""
    done = diagnose(text, *words)
    same((done.returncode, done.stderr), (0, b""), words)
    lines = done.stdout.decode().splitlines()
    same(lines[0], "incident\tfault_owner\taction\tnodes", lines[:1])
    return {name: (owner, action, nodes)
            for name, owner, action, nodes in (line.split("\t") for line in lines[1:])}


def one(*rows):
    """The verdict on one incident of these rows (t, node, stream, line)."""
    text = HEADER + "".join("I\t%s\t%s\t%s\t%s\n" % row for row in rows)
    return verdicts(text)["I"]


def names_of(hostlist):
    """The names in a folded host list."""
    names = []
    for part in re.findall(r"[^,\[]+(?:\[[^\]]*\])?", hostlist):
        front, _, ranges = part.lstrip(",").rstrip("]").partition("[")
        for piece in ranges.split(",") if ranges else [""]:
            first, _, last = piece.partition("-")
            numbers = range(int(first), int(last or first) + 1) if first else [None]
            names += [front if n is None else front + str(n).zfill(len(first)) for n in numbers]
    return sorted(names)


def test_every_kind():
    """of each kind so many, all in one file: owner, action and nodes are those of a person"""
    text, wanted = [HEADER], {}
    for kind in lib.KINDS:
        for seed in range(COUNT):
            incident = lib.Incident("%s %d" % (kind.__name__, seed))
            owner, action, nodes = kind(incident)
            if kind not in lib.BARE:
                incident.noise()
            name = "%s-%d" % (kind.__name__, seed)
            wanted[name] = (owner, action, sorted(nodes))
            text.append(incident.text(name))
    found = verdicts("".join(text))
    same(sorted(found), sorted(wanted), "incidents")
    wrong = [(name, wanted[name], found[name]) for name in wanted
             if wanted[name] != (*found[name][:2], names_of(found[name][2]))]
    same(wrong[:5], [], "%d of %d are wrong" % (len(wrong), len(wanted)))


def test_order_of_rows():
    """rows of several incidents lie in any order, and the answers come in that of the first rows"""
    rows = []
    for number, kind in enumerate((lib.blip, lib.raised, lib.rack_lost)):
        incident = lib.Incident("order %d" % number)
        kind(incident)
        rows += incident.text("I%d" % number).splitlines(keepends=True)
    straight = verdicts(HEADER + "".join(rows))
    back = verdicts(HEADER + "".join(reversed(rows)))
    same(straight, back, "order")
    same(list(straight), ["I0", "I1", "I2"], "order")
    same(list(back), ["I2", "I1", "I0"], "order")


def test_stamps_prove_nothing():
    """who was first is told by the time of receipt: stamps of a clock that is wrong say otherwise"""
    gone = "NVRM: Xid (PCI:0000:9b:00): 79, pid=1, name=python3, GPU has fallen off the bus."
    same(one((0, "node0512", "kmsg", "[Sun Mar 14 10:22:36 2027] " + gone),
             (700, "node0100", "stderr", "2027-03-14T10:22:31.100+00:00 node0100 kernel: NCCL WARN "
              "socketProgress: Connection closed by remote peer node0512.ib<5>")),
         ("hardware-node", "evict_node_reboot", "node0512"), "skew")
    same(one((0, "ctl", "ctl", "job 17 attempt 3 ended: rank 800 exit -11"),
             (6000, "node0007", "stderr", "[Sun Mar 14 10:00:00 2027] Aborted (core dumped)")),
         ("unknown", "restart_in_place", "node0100"), "skew")


def test_what_is_near():
    """things that look like something else"""
    fault = "NVRM: Xid (PCI:0000:1b:00): 31, pid=8, name=python3, Ch 00000007"
    # once on each of two GPUs in two attempts: no device repeats, and no step is shared
    same(one((0, "node0001", "kmsg", fault), (300, "ctl", "ctl", "job 1 attempt 1 ended: rank 8 "
         "exit 1"), (900000, "node0002", "kmsg", fault)),
         ("user-code", "fail_job_user", ""), "second time")
    # a day and more between them
    same(one((0, "node0001", "kmsg", fault), (300, "ctl", "ctl", "job 1 attempt 1 ended: rank 8 "
         "exit 1"), (86500000, "node0001", "kmsg", fault)),
         ("user-code", "restart_then_fail_job", ""), "a day later")
    # slow in too few steps
    pace = "rank=80 step=%d compute_ms=%d wait_ms=9 peers_median_compute_ms=1000"
    same(one(*((step * 1000, "node0010", "agent", pace % (step, 1900 if step % 5 < 3 else 1000))
               for step in range(40))), ("benign", "none", ""), "uneven")
    same(one(*((step * 1000, "node0010", "agent", pace % (step, 1099)) for step in range(40))),
         ("benign", "none", ""), "ten percent")
    # a rank that waits for nobody and that nobody waits for
    same(one((0, "node0001", "agent", "rank=8 comm=tp/1 last_enqueued=5 last_completed=5 "
              "state=running"), (0, "node0001", "agent", "rank=9 comm=tp/1 last_enqueued=5 "
                                 "last_completed=5 state=running")),
         ("benign", "none", ""), "nobody waits")
    # two missed beats are none
    same(one((0, "node0001", "ctl", "heartbeat missed 2; last_seq=1; bmc=reachable; rack=r0"),
             (0, "ctl", "ctl", "job 1 attempt 1 ended: rank 80 exit 1")),
         ("unknown", "restart_in_place", "node0010"), "two beats")
    # the same operation at one number, and two at two numbers
    late = ("[Rank %d] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=%d, OpType=%s, "
            "NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600011 milliseconds before timing "
            "out.")
    same(one((0, "node0000", "stderr", late % (0, 49, "ALLREDUCE")),
             (0, "node0001", "stderr", late % (9, 49, "ALLREDUCE")),
             (0, "node0002", "stderr", late % (17, 50, "BROADCAST"))),
         ("unknown", "restart_in_place", ""), "equal")


def test_spares():
    """a spare holds the slot of the ranks that are seen on it"""
    same(one((0, "spare004", "stderr", "[rank650]: Traceback (most recent call last):"),
             (9, "ctl", "ctl", "job 17 attempt 5 ended: rank 650 exit 16")),
         ("hardware-node", "evict_node_diag", "spare004"), "spare")


def test_other_clusters():
    """names and sizes of one's own"""
    same(one((0, "gpu-a-17", "kmsg", "nvme nvme4: Disabling device after reset failure: -19")),
         ("hardware-node", "evict_node", "gpu-a-17"), "name")
    text = HEADER + "I\t0\tctl\tctl\thash step=1 stage=1 tp=0 majority=1 minority dp=3 hash=2\n"
    same(verdicts(text, "--layout", "8x4x16")["I"],
         ("hardware-node", "evict_node_diag", "node0013"), "layout")
    site = "our-bmc\tfacility\tevict_node\troot\tkernel BMC: chassis is wet\tA pipe leaks\n"
    with scratch() as folder:
        path = pathlib.Path(folder) / "site.tsv"
        path.write_text(site, encoding="ascii")
        text = HEADER + "I\t0\tnode0001\tkmsg\tBMC: chassis is wet\n"
        same(verdicts(text, "--catalog", str(path))["I"][1:], ("evict_node", "node0001"), "site")


def test_why():
    """-v tells rule, lines and what was ruled out; -o json the same in an array"""
    incident = lib.Incident("why")
    lib.one_page_fault(incident)
    text = HEADER + incident.text("I")
    said = diagnose(text, "-v").stdout.decode()
    for wanted in ("rule   user-error", "not    user-fault, though 1 fact is of its kind",
                   "never  ", "xid-31"):
        check(wanted in said, (wanted, said))
    told = json.loads(diagnose(text, "-o", "json").stdout)
    same(len(told), 1, told)
    same([told[0][key] for key in ("incident", "fault_owner", "action", "nodes", "rule")],
         ["I", "user-code", "restart_then_fail_job", "", "user-error"], told)
    check(any(out["rule"] == "user-fault" and out["facts"] == 1 for out in told[0]["ruled_out"]),
          told[0]["ruled_out"])
    check("Xid" in told[0]["facts"][0]["text"], told[0]["facts"])


def test_broken_files():
    """a row that cannot be read is told of and left out; a file without columns is refused"""
    rows = ["I\t0\tnode0001\tkmsg\tNVRM: GPU 0000:5d:00.0: GPU has fallen off the bus.",
            "I\tsoon\tnode0001\tkmsg\tx", "I\t0\tnode0001", "I\t0\t\tkmsg\tx",
            "I\t0\tnode0001\tdmesg\tx", "I\t0\tctl\tctl\tthe moon is full",
            "I\t0\tnode0001\tagent\tfeels unwell", "", "I\t0\tno de\tkmsg\tx",
            "I\t0\tctl\tctl\thash step=1 stage=99 tp=0 majority=1 minority dp=3 hash=2",
            "I\t0\tnode0001\tagent\trank=99999 comm=tp/1 last_enqueued=1 last_completed=0 "
            "state=waiting"]
    done = diagnose(HEADER + "\n".join(rows))
    same(done.returncode, 0, done.stderr)
    check(b"I\thardware-node\tevict_node_reboot\tnode0001\n" in done.stdout, done.stdout)
    numbers = [int(n) for n in re.findall(r"line (\d+) is left out: ", done.stderr.decode())]
    same(sorted(numbers), [3, 4, 5, 6, 7, 8, 10, 11, 12], done.stderr)
    for text in (b"", b"incident\tt_ms\tnode\tline\n", b"\x00\xff\n"):
        done = diagnose(text)
        same((done.returncode, done.stdout), (2, b""), text)
        check(b"names no column" in done.stderr, done.stderr)
    # a file of Windows, bytes that no text has, columns in another order
    done = diagnose(b"\xef\xbb\xbfstream\tnode\tt_ms\tincident\tmore\tline\r\n"
                    b"stderr\tnode0002\t5.25\tI\tx\tKeyError: '\xff\x00\t\xfe'\r\n")
    same((done.returncode, done.stderr), (0, b""), "order")
    check(b"I\tuser-code\tfail_job_user\t\n" in done.stdout, done.stdout)
    same(diagnose(HEADER, "-o", "json").stdout, b"[]\n", "no rows")
    for words in (("--layout", "8x16"), ("--layout", "8x0x4"), ("-o", "jsonl"), ("/nowhere/x",)):
        same(diagnose(HEADER, *words).returncode, 2, words)


def test_a_flood():
    """all ranks of a large job tell the same within a minute: it takes seconds, and says so"""
    rows = []
    for rank in range(16384):
        node = "node%04d" % (rank // 8)
        rows.append("I\t%d\t%s\tstderr\t[rank%d]: NCCL WARN socketProgress: Connection closed by "
                    "remote peer node0100.ib<9>\n" % (rank, node, rank))
        rows.append("I\t%d\t%s\tstderr\t[Rank %d] Watchdog caught collective operation timeout: "
                    "WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, "
                    "Timeout(ms)=600000) ran for 600011 milliseconds before timing out.\n" %
                    (rank, node, rank))
        rows.append("I\t%d\t%s\tctl\theartbeat missed 1; last_seq=1; bmc=reachable; rack=r1\n" %
                    (rank, node))
    done = diagnose(HEADER + "".join(rows))
    same(done.returncode, 0, done.stderr)
    check(b"too many lines" in done.stderr, done.stderr)


if __name__ == "__main__":
    sys.exit(run_tests([test_every_kind, test_order_of_rows, test_stamps_prove_nothing,
                        test_what_is_near, test_spares, test_other_clusters, test_why,
                        test_broken_files, test_a_flood]))
