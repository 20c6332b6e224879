#!/usr/bin/env python3
"""What a false or broken controller can do to the agent in Python (tests/lib/python_agent.py): no
more than the protocol's page allows. Its rank goes on whatever is said, until it is stopped as the
page wants. Needs Debian's python3-protobuf and protobuf-compiler."""

import contextlib
import json
import os
import pathlib
import signal
import socket
import sys
import time

from cluster_lib import check, is_alive, run_tests, same, scratch, whoami
from python_agent_lib import prepare, start_agent
from tests.lib.cluster import free_ports

CLUSTER, OTHER = "c0" * 16, "0c" * 16
JOB, TERM = 7, 5


class FalseController:
    """Listens for one agent, takes its frames one by one, and says whatever it is told to."""

    def __init__(self, folder):
        self.port, self.peer_port = free_ports(2)
        self.listener = socket.create_server(("127.0.0.1", self.port))
        self.listener.settimeout(10)
        self.log, self.link, self.sequence = folder / "log", None, 0
        self.agent = start_agent(folder / "state", "n1", f"127.0.0.1:{self.port}", self.peer_port,
                                 "r1", 1, self.log)

    def close(self):
        """Ends the agent, and what a failed test left of its keepers and ranks."""
        self.agent.kill()
        self.agent.wait()
        own = str(self.log.parent).encode()
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if own in (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes():
                    os.kill(int(entry.name), signal.SIGKILL)

    def accept(self):
        """The hello of the next session."""
        self.link = self.listener.accept()[0]
        self.link.settimeout(10)
        return self.take(P.Hello)

    def begin(self, term=TERM, cluster=CLUSTER, result=0):
        hello = self.accept()
        self.say(P.Welcome(result=result, cluster_id=cluster, term=term))
        return hello

    def say(self, m):
        self.link.sendall(frames.frame(m))

    def raw(self, kind, body, version=1, flags=0, size=None, magic=b"KSTP"):
        self.link.sendall(frames.HEADER.pack(magic, version, kind, flags,
                                             len(body) if size is None else size) + body)

    def exactly(self, size):
        data = b""
        while len(data) < size:
            part = self.link.recv(size - len(data))
            if not part:
                raise EOFError
            data += part
        return data

    def take(self, kind):
        """The next message of this kind; others are passed over."""
        while True:
            header = frames.HEADER.unpack(self.exactly(frames.HEADER.size))
            body = self.exactly(header[4])
            if frames.KINDS[header[2]] == kind.DESCRIPTOR.name:
                return kind.FromString(body)

    def ends(self):
        """Until the agent hangs up."""
        try:
            self.take(P.SnapshotData) # never sent
        except (EOFError, ConnectionError):
            pass

    def desired(self, mode, attempt, *, start=True, **other):
        self.sequence += 1
        fields = {"cluster_id": CLUSTER, "term": TERM, "sequence": self.sequence, "mode": mode,
                  "job": JOB, "job_name": "demo", "attempt": attempt, "grace_ms": 5000}
        if mode == P.DESIRED_RUN:
            spec = {"name": "demo", "run": {"command": ["sleep", "600"], "workdir": "/",
                                            "user": whoami(), "allow_root": True}}
            fields |= {"slot_count": 1, "rank_count": 1, "world": 1, "tensor": 1, "context": 1,
                       "pipeline": 1, "data": 1, "order": "tp-cp-pp-dp", "start": start,
                       "master_address": "127.0.0.1", "master_port": 29500,
                       "spec": json.dumps(spec).encode()}
        return P.Desired(**fields | other)

    def beat_until(self, test, what):
        """The next beat of which test(reports by attempt) is true."""
        end = time.monotonic() + 10
        while time.monotonic() < end:
            beat = self.take(P.Beat)
            if test({one.attempt: one for one in beat.attempts}):
                return beat
        raise AssertionError(f"no beat in 10 s with: {what}")

    def rank(self):
        """The pid of the one rank."""
        for line in (self.log.parent / "state" / f"job-{JOB}" / "attempt-2" / "record").open():
            return json.loads(line)["pid"]

    def is_well(self, beat):
        """That the beat tells of the rank, which lives, and of nothing else."""
        same([(one.attempt, [rank.state for rank in one.ranks], one.stop_seen, one.shim_alive)
              for one in beat.attempts], [(2, [P.RANK_RUNNING], False, True)], "what it reports")
        check(is_alive(self.rank()), "the rank lives")


def begins(false):
    """it takes a cluster and a term, starts what it is told to and answers on its peer port"""
    hello = false.begin()
    same((hello.cluster_id, hello.node, hello.term_seen, list(hello.attempts)), ("", "n1", 0, []),
         "the first hello")
    false.say(false.desired(P.DESIRED_RUN, 2, start=False))
    false.say(P.Check(nonce=1, job=JOB, spec=false.desired(P.DESIRED_RUN, 2).spec))
    same(false.take(P.CheckResult).ok, True, "a check")
    same(len(false.take(P.Beat).attempts), 0, "attempts while it only holds the slot")
    false.say(false.desired(P.DESIRED_RUN, 2))
    false.is_well(false.beat_until(lambda one: 2 in one and one[2].ranks[0].state == P.RANK_RUNNING,
                                   "a rank that runs"))
    with socket.create_connection(("127.0.0.1", false.peer_port), timeout=5) as peer:
        peer.sendall(frames.frame(P.PeerQuestion(nonce=1 << 63, asker="n2")))
        data = peer.recv(4096)
    reply = P.PeerReply.FromString(data[frames.HEADER.size:])
    same((reply.nonce, reply.node, reply.incarnation, reply.controller_up),
         (1 << 63, "n1", hello.incarnation, True), "the reply")


def drops_orders(false):
    """orders of another cluster, term, name, of an older sequence or attempt change nothing"""
    orders = [false.desired(P.DESIRED_STOP, 2, cluster_id=OTHER),
              false.desired(P.DESIRED_STOP, 2, term=TERM - 1),
              false.desired(P.DESIRED_STOP, 2, sequence=1),
              false.desired(P.DESIRED_STOP, 2, job_name="other"),
              false.desired(P.DESIRED_RUN, 1)]
    for order in orders:
        false.say(order)
    false.say(false.desired(P.DESIRED_NONE, 2))
    false.say(false.desired(P.DESIRED_RUN, 2))
    false.say(false.desired(P.DESIRED_STOP, 1))  # below what runs: answered, and no more
    false.beat_until(lambda one: 1 in one, "the answer to a stop of what never was here")
    false.say(false.desired(P.DESIRED_STOP, 1, forget=True))
    false.is_well(false.beat_until(lambda one: 1 not in one, "it is forgotten"))
    same(false.log.read_text().count("dropped, "), len(orders), "orders dropped")


def survives_garbage(false):
    """what is no frame, or breaks a rule, ends the session and nothing else"""
    desired = false.desired(P.DESIRED_RUN, 2)
    broken = [lambda: false.raw(33, b"", magic=b"HTTP"), lambda: false.raw(33, b"", version=2),
              lambda: false.raw(33, b"", flags=0x0100), lambda: false.raw(2, b""),
              lambda: false.raw(33, b"", size=4097), lambda: false.raw(34, b"", size=69633),
              lambda: false.raw(50, b"", size=131073), lambda: false.raw(33, b"\x08"),
              lambda: false.raw(32, P.Welcome(cluster_id=CLUSTER).SerializeToString()),
              lambda: false.raw(34, b"\x32\x01\xff"),
              lambda: false.say(P.Desired(cluster_id="xyz")),
              lambda: false.say(P.PeerAsk(target="a b", address="127.0.0.1", port=1)),
              lambda: false.say(P.CheckpointAnswer(text="a\0b")),
              lambda: false.say(P.CheckpointAnswer(text="a" * 192)),
              lambda: false.say(P.Ack(term=1 << 63)),
              lambda: false.raw(41, b"\x10\x63"),
              lambda: false.say(P.Desired(**{field.name: value for field, value in
                                             desired.ListFields()} | {"world": 2}))]
    for one in broken:
        one()
        false.ends()
        hello = false.begin()
        same((hello.cluster_id, hello.term_seen), (CLUSTER, TERM), "what it kept")
        false.is_well(hello)
        false.is_well(false.take(P.Beat))
    false.raw(50, b"\xff" * 1000)
    false.raw(33, b"", flags=0x80)
    false.raw(33, b"\xa0\x06\x01")
    false.say(P.Ack(term=TERM - 1, ends_sequence=1 << 62))
    false.say(P.Check(nonce=2, job=JOB, spec=desired.spec))
    same(false.take(P.CheckResult).nonce, 2, "the session after unknown kinds, flags and fields")


def refuses_welcomes(false):
    """a lower term, another cluster, a refusal: it hangs up and dials again"""
    false.link.close()
    for welcome in ({"term": TERM - 1}, {"cluster": OTHER}, {"result": P.HELLO_STALE},
                    {"result": 77}):
        hello = false.begin(**welcome)
        same((hello.cluster_id, hello.term_seen), (CLUSTER, TERM), "what it kept")
        false.ends()
    false.is_well(false.begin())


def says_ends(false):
    """an end is said until it is acknowledged, and what was stopped stays stopped"""
    os.kill(false.rank(), signal.SIGKILL)
    first, again = false.take(P.RankEnds), false.take(P.RankEnds)
    rank = first.report.ranks[0]
    same((rank.state, rank.code, rank.after_stop), (P.RANK_SIGNALED, 9, False), "the end")
    same(again.sequence, first.sequence, "said again")
    false.say(P.Ack(term=TERM, ends_sequence=first.sequence))
    false.beat_until(lambda one: one[2].empty and not one[2].stop_seen, "proven empty")
    false.say(false.desired(P.DESIRED_RUN, 3))
    false.beat_until(lambda one: 3 in one and one[3].ranks[0].state == P.RANK_RUNNING, "attempt 3")
    false.say(false.desired(P.DESIRED_STOP, 3))
    false.beat_until(lambda one: one[3].empty, "attempt 3 is empty")
    end = false.take(P.RankEnds)
    report = end.report
    false.say(P.Ack(term=TERM, ends_sequence=end.sequence))
    same((report.stop_seen, report.ranks[0].code, report.ranks[0].after_stop), (True, 15, True),
         "its end")
    for attempt in (3, 2):
        false.say(false.desired(P.DESIRED_RUN, attempt))
    false.say(false.desired(P.DESIRED_STOP, 9))
    report = false.beat_until(lambda one: 9 in one, "an answer about attempt 9").attempts
    same([(one.attempt, one.empty, one.stop_seen) for one in report],
         [(9, True, True), (3, True, True), (2, True, True)], "the reports")
    false.say(false.desired(P.DESIRED_STOP, 9, forget=True))
    false.beat_until(lambda one: not one, "nothing runs here")


def says_why_not(false):
    """what cannot be launched is refused with a reason, its ranks and the proof that none runs"""
    spec = {"name": "eight", "run": {"command": ["true"], "user": "nobody-by-this-name"}}
    false.say(false.desired(P.DESIRED_RUN, 0, job=8, job_name="eight",
                            spec=json.dumps(spec).encode()))
    report = false.beat_until(lambda one: 0 in one, "a report of job 8").attempts[0]
    same((report.job, report.refused, report.empty, [rank.state for rank in report.ranks]),
         (8, True, True, [P.RANK_NONE]), "the report")
    check("starts ranks of" in report.text, report.text)
    false.say(false.desired(P.DESIRED_STOP, 0, job=8, job_name="eight", forget=True))
    false.beat_until(lambda one: not one, "it is forgotten")


def says_goodbye(false):
    """asked to end it says goodbye"""
    false.agent.terminate()
    same(false.take(P.Goodbye).kind, P.GOODBYE_RESTART, "its last word")
    false.ends()
    same(false.agent.wait(5), 0, "its exit status")


def main():
    with scratch() as folder:
        false = FalseController(folder)
        try:
            return run_tests([begins, drops_orders, survives_garbage, refuses_welcomes, says_ends,
                              says_why_not, says_goodbye], false)
        finally:
            false.close()


if __name__ == "__main__":
    why = prepare()
    if why is not None:
        print(f"skipped: {why}")
        sys.exit(77)
    import frames
    import keepstep_pb2 as P
    sys.exit(main())
