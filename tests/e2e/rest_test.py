#!/usr/bin/env python3
"""The REST server under attack, and on a bad day: malformed heads and bodies, slow and vanished
clients, many of them at once, odd queries, tokens of one user, a disk that takes nothing more."""

import grp
import hashlib
import http.client
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

from cluster_lib import (QUICK, Cluster, Skipped, check, contextlib, run_tests, same, spec_of)
from tests.lib.cluster import UnixConnection, free_ports

TOKENS = {"viewer": "ks_viewer-of-rest", "submitter": "ks_submitter-of-rest",
          "operator": "ks_operator-of-rest"}
HEAD_SECONDS = 10   # a head must be whole by then
BEAT_SECONDS = 15   # of an event stream


# ---- talking ---------------------------------------------------------------------------------


def plug(cluster, seconds=10):
    one = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    one.settimeout(seconds)
    one.connect(cluster.socket)
    return one


def read_all(one):
    """What comes until the other side closes."""
    parts = []
    with contextlib.suppress(ConnectionResetError):
        while part := one.recv(65536):
            parts.append(part)
    return b"".join(parts)


def raw(cluster, data):
    """The whole answer to raw bytes, after which nothing more is sent."""
    with contextlib.closing(plug(cluster)) as one:
        with contextlib.suppress(BrokenPipeError):
            one.sendall(data)
            one.shutdown(socket.SHUT_WR)
        return read_all(one)


def ask(cluster, method, path, body=None, headers=None, connection=None):
    """(status, headers, bytes)"""
    own = connection is None
    connection = connection or UnixConnection(cluster.socket)
    try:
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        if own:
            connection.close()


def problem(answer, status, kind):
    got, headers, body = answer
    same((got, headers.get("Content-Type")), (status, "application/problem+json"), body[:300])
    same(json.loads(body)["type"].rsplit("/", 1)[-1], kind, body)
    return json.loads(body)


def is_well(cluster):
    same(cluster.controller.poll(), None, cluster.tail("controller.log"))
    same(ask(cluster, "GET", "/v1/cluster")[0], 200, "the controller answers")


def revision(cluster):
    return cluster.get("/v1/cluster")["revision"]


def move_revision(cluster, reason="test"):
    """Two more records."""
    cluster.cli("cordon", "gpu-0001", "--reason", reason)
    cluster.cli("uncordon", "gpu-0001")


# ---- heads -----------------------------------------------------------------------------------


def bad_heads(cluster):
    """a malformed head is refused with 400 and the connection closed"""
    start = b"GET /v1/jobs HTTP/1.1\r\nHost: a\r\n"
    post = b"POST /v1/node-actions HTTP/1.1\r\nHost: a\r\n"
    heads = {
        "a control byte in a value": start + b"X-A: a\x01b\r\n\r\n",
        "a folded line": start + b"X-A: a\r\n b: c\r\n\r\n",
        "a name with a blank": start + b"X A: a\r\n\r\n",
        "a blank before the colon": start + b"X-A : a\r\n\r\n",
        "a second Host": start + b"Host: b\r\n\r\n",
        "a second Authorization": start + b"Authorization: a\r\nAuthorization: b\r\n\r\n",
        "both length headers": post + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "two lengths": post + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        "a second Content-Type": post + b"Content-Type: a\r\nContent-Type: b\r\n\r\n",
        "an unknown encoding": post + b"Transfer-Encoding: xchunked\r\n\r\n",
        "chunks in HTTP/1.0": b"POST /v1/jobs HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "a length that is none": post + b"Content-Length: ten\r\n\r\n{}",
        "a length beyond 64 bits": post + b"Content-Length: 99999999999999999999\r\n\r\n{}",
        "no Host": b"GET /v1/jobs HTTP/1.1\r\n\r\n",
        "a path of 600 bytes": b"GET /v1/" + b"a" * 600 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
        "a long method": b"ABCDEFGHIJKLMN /v1/jobs HTTP/1.1\r\nHost: a\r\n\r\n",
    }
    for name, head in heads.items():
        try:
            answer = raw(cluster, head + b"GET /v1/version HTTP/1.1\r\nHost: a\r\n\r\n")
        except TimeoutError:
            raise AssertionError(f"{name}: no answer") from None
        line = answer.split(b"\r\n")[0]
        check(b" 400 " in line or b" 413 " in line, f"{name}: {answer[:200]!r}")
        check(b"HTTP/1.1 200" not in answer,
              f"{name}: what came behind it was served: {answer[:900]!r}")
    is_well(cluster)


def junk(cluster):
    """bytes that are no HTTP, and an end in the middle: closed, when the time for a head is over"""
    wrong = []

    def one(data):
        try:
            with contextlib.closing(plug(cluster, HEAD_SECONDS + 6)) as wire:
                with contextlib.suppress(BrokenPipeError):
                    wire.sendall(data)
                    wire.shutdown(socket.SHUT_WR)
                answer = read_all(wire)
            if b" 200 " in answer.split(b"\r\n")[0]:
                wrong.append((data[:20], answer[:100]))
        except TimeoutError:
            wrong.append((data[:20], "still open"))

    threads = [threading.Thread(target=one, args=(data,)) for data in
               (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"\0" * 4096, b"\r\n" * 2000,
                b"GET\r\n\r\n",
                b"GET / HTTP/9.9\r\n\r\n", b"A" * 100000, b"GET /v1/jobs HTTP/1.1\r\nHost: a", b"")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    same(wrong, [], "junk")
    is_well(cluster)


def odd_paths(cluster):
    """paths and queries that are no UTF-8, have encoded slashes, zeros or too many parts"""
    for path in ("/v1/jobs/%ff", "/v1/%ff%fe", "/v1/nodes/%c3%28", "/v1/jobs/a%2Fb", "/v1/jobs/%00",
                 "/v1/jobs/..", "/v1/" + "a/" * 200, "/v1/jobs/%F0%9F%98%80"):
        answer = problem(ask(cluster, "GET", path), 404, "not-found")
        check("there is no" in answer["detail"], answer)
    for path in ("/v1/jobs?state=%ff", "/v1/events?for=job/%ff", "/v1/nodes?names=%ff",
                 "/v1/nodes?%ff=1"):
        status, _, body = ask(cluster, "GET", path)
        check(status in (400, 404) and json.loads(body)["detail"], f"{path}: {status} {body!r}")
    same(ask(cluster, "GET", "//v1//version/")[0], 200, "slashes")
    is_well(cluster)


def odd_queries(cluster):
    """numbers at their limits, unknown names and values, names that come twice: 400, never ignored"""
    good = ("/v1/nodes?cursor=4294967295", "/v1/nodes?cursor=0&limit=1000", "/v1/jobs?all",
            "/v1/jobs?all=1",
            "/v1/jobs?all=true&state=running", "/v1/recoveries?cause=start",
            "/v1/events?wait=0&limit=")
    for path in good[:-1]:
        same(ask(cluster, "GET", path)[0], 200, path)
    bad = ("/v1/nodes?cursor=4294967296", "/v1/nodes?cursor=-1", "/v1/nodes?limit=0",
           "/v1/nodes?limit=1001",
           "/v1/nodes?limit=", "/v1/jobs?all=maybe", "/v1/jobs?state=bogus",
           "/v1/jobs?stat=running",
           "/v1/jobs?all=true&all=false", "/v1/nodes?role=king", "/v1/nodes?names=gpu-[1-",
           good[-1],
           "/v1/recoveries?cause=fate", "/v1/events?severity=loud", "/v1/events?from=then",
           "/v1/events?for=rack/r01", "/v1/events?wait=301", "/v1/events?after=1e3",
           "/v1/version?x=1",
           "/v1/events?since_ms=18446744073709551616")
    for path in bad:
        problem(ask(cluster, "GET", path), 400, "invalid-request")
    problem(ask(cluster, "GET", "/v1/events?after=99999999"), 410, "revision-expired")
    for path in ("/v1/events?for=job/nobody", "/v1/events?for=node/nobody", "/v1/nodes?job=nobody",
                 "/v1/nodes?names=gpu-[0001-0009]", "/v1/recoveries?job=nobody"):
        problem(ask(cluster, "GET", path), 404, "not-found")
    hint = problem(ask(cluster, "GET", "/v1/jobs?stat=running"), 400, "invalid-request")["detail"]
    check("did you mean state" in hint, hint)


def dry_runs(cluster):
    """every way to write dry_run is one, or is refused: none of them changes anything"""
    body = json.dumps({"nodes": "gpu-0001", "action": "cordon", "reason": "x"})
    before = revision(cluster)
    for query in ("dry_run", "dry_run=true", "dry_run=1", "dry_run="):
        same(ask(cluster, "POST", f"/v1/node-actions?{query}", body)[0], 200, query)
    for query in ("dry_run=yes", "dry_run=True", "dryrun=true", "dry_run=true&dry_run=false"):
        problem(ask(cluster, "POST", f"/v1/node-actions?{query}", body), 400, "invalid-request")
    same(revision(cluster), before, "the revision")


def bodies(cluster):
    """members of the wrong type, unknown, too long, or with line ends are refused"""
    good = {"nodes": "gpu-0001", "action": "cordon", "reason": "x"}
    before = revision(cluster)
    for change in ({"reason": 5}, {"reason": "x" * 192}, {"reason": "a\nb"}, {"reason": "\u0001"},
                   {"when": True}, {"wehn": "now"}, {"accept_inventory": "yes"},
                   {"clear": "c" * 64},
                   {"nodes": ["gpu-0001"]}, {"nodes": "gpu-[0001"}, {"action": None}):
        problem(ask(cluster, "POST", "/v1/node-actions", json.dumps({**good, **change})), 400,
                "invalid-request")
    for text in ('{"nodes": "a", "nodes": "b"}', "{" * 5000, "[" * 100000, '"\\ud800"', "\xff",
                 "nul", "\0",
                 '{"reason": "\\u0000"}', "1e999", "-" * 1000):
        status, _, answer = ask(cluster, "POST", "/v1/node-actions", text.encode("latin-1"))
        same(status, 400, f"{text[:20]!r}: {answer[:200]!r}")
    problem(ask(cluster, "POST", "/v1/node-actions", json.dumps({**good, "nodes": "gpu-0009"})),
            404,
            "not-found")
    same(revision(cluster), before, "the revision")
    umlauts = "ä" * 95  # 190 bytes: whole
    same(ask(cluster, "POST", "/v1/node-actions", json.dumps({**good, "reason": umlauts}))[0], 200,
         "reason")
    same(cluster.get("/v1/nodes/gpu-0001")["marks"][0]["text"], umlauts, "the mark's text")
    cluster.cli("uncordon", "gpu-0001")


def body_limits(cluster):
    """a body of 1 MiB is read, one byte more is 413; who asks before sending is told at once"""
    full = b'{"a": "' + b"x" * ((1 << 20) - 9) + b'"}'
    same(len(full), 1 << 20, "the body")
    problem(ask(cluster, "POST", "/v1/node-actions", full), 400, "invalid-request")
    answer = ask(cluster, "POST", "/v1/node-actions", full + b" ")
    problem(answer, 413, "too-large")
    same(answer[1].get("Connection"), "close", "the connection")
    with contextlib.closing(plug(cluster)) as one:
        one.sendall(b"POST /v1/jobs HTTP/1.1\r\nHost: a\r\nContent-Length: 2000000\r\n"
                    b"Expect: 100-continue\r\n\r\n")
        check(b" 413 " in read_all(one).split(b"\r\n")[0], "told before the body")
    with contextlib.closing(plug(cluster)) as one:  # nobody reads on for ever
        one.sendall(b"POST /v1/jobs HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
        piece = b"10000\r\n" + b"x" * 65536 + b"\r\n"
        with contextlib.suppress(OSError):
            for _ in range(1000):
                one.sendall(piece)
            raise AssertionError("64 MiB of body were taken")
    is_well(cluster)


def chunks_and_pipes(cluster):
    """chunked bodies, many requests on one connection, several at once, HEAD, and errors between"""
    body = json.dumps({"nodes": "gpu-0001", "action": "cordon", "reason": "chunked"}).encode()
    chunks = b"".join(b"%x;ext=1\r\n%s\r\n" % (len(body[i:i + 7]), body[i:i + 7])
                      for i in range(0, len(body), 7)) + b"0\r\nTrailer: x\r\n\r\n"
    answer = raw(cluster, b"POST /v1/node-actions?dry_run HTTP/1.1\r\nHost: a\r\n"
                 b"Transfer-Encoding: chunked\r\n\r\n" + chunks)
    check(b" 200 " in answer.split(b"\r\n")[0], answer[:300])
    pipe = b"".join(b"%s /v1/%s HTTP/1.1\r\nHost: a\r\n\r\n" % one for one in
                    ((b"GET", b"version"), (b"GET", b"nothing"), (b"HEAD", b"cluster"),
                     (b"DELETE", b"jobs"), (b"GET", b"jobs")))
    answer = raw(cluster, pipe + b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    statuses = [int(part[:3]) for part in answer.split(b"HTTP/1.1 ")[1:]]
    same(statuses, [200, 404, 200, 405, 200, 200], "the answers of a pipe")
    connection = UnixConnection(cluster.socket)
    for method, path, status in (("GET", "/v1/jobs", 200), ("GET", "/v1/jobs?limit=0", 400),
                                 ("HEAD", "/v1/jobs", 200), ("HEAD", "/v1/nothing", 404),
                                 ("POST", "/v1/jobs", 422), ("PUT", "/v1/jobs", 405),
                                 ("GET", "/v1/cluster", 200)):
        got, headers, text = ask(cluster, method, path, connection=connection)
        same(got, status, f"{method} {path}")
        check(int(headers["Content-Length"]) > 0, headers)
        check((len(text) == 0) == (method == "HEAD"), f"{method}: {len(text)} bytes")
    allow = ask(cluster, "PUT", "/v1/jobs", connection=connection)[1]["Allow"]
    same(sorted(allow.split(", ")), ["GET", "POST"], "Allow")
    connection.close()


# ---- clients that vanish, or are many --------------------------------------------------------


def vanished(cluster):
    """clients that go away: in a head, a body, while their answer waits, from streams and polls"""
    for data in (b"GET /v1", b"POST /v1/jobs HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nabc",
                 b"GET /v1/jobs HTTP/1.1\r\nHost: a\r\n\r\n",
                 b"GET /v1/events?wait=60&from=now HTTP/1.1\r\nHost: a\r\n\r\n",
                 b"GET /v1/events?from=now HTTP/1.1\r\nHost: a\r\nAccept: application/jsonl\r\n\r\n",
                 b"GET /v1/events HTTP/1.1\r\nHost: a\r\nAccept: text/event-stream\r\n\r\n",
                 b"POST /v1/node-actions?dry_run HTTP/1.1\r\nHost: a\r\nContent-Length: 52\r\n\r\n"
                 b'{"nodes":"gpu-0001","action":"cordon","reason":"xx"}'):
        for how in ("close", "reset", "half"):
            for _ in range(5):
                one = plug(cluster)
                one.sendall(data)
                if how == "half":
                    one.shutdown(socket.SHUT_WR)
                if how == "reset":
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                one.close()
    move_revision(cluster, "wakes everything that sleeps")
    is_well(cluster)


def many_at_once(cluster):
    """64 clients at once, each with many requests, reads and writes: every one is answered"""
    wrong = []
    body = json.dumps({"nodes": "gpu-0002", "action": "cordon", "reason": "x"})

    def client(number):
        connection = UnixConnection(cluster.socket, timeout=60)
        try:
            for turn in range(20):
                path = ("/v1/nodes", "/v1/jobs", "/v1/events?after=0",
                        "/v1/cluster")[(number + turn) % 4]
                got = ask(cluster, "GET", path, connection=connection)[0]
                if turn % 5 == 0:
                    got = max(got, ask(cluster, "POST", "/v1/node-actions?dry_run=true", body,
                                       connection=connection)[0])
                if got != 200:
                    wrong.append((number, turn, path, got))
        except (OSError, http.client.HTTPException) as error:
            wrong.append((number, repr(error)))
        finally:
            connection.close()

    threads = [threading.Thread(target=client, args=(i,)) for i in range(64)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    same(wrong[:5], [], f"{len(wrong)} went wrong")
    is_well(cluster)


def slow_ones(cluster):
    """a head that drips is cut off; a stream whose filter lets nothing pass still gets its heartbeat"""
    found = {}

    def drip():
        with contextlib.closing(plug(cluster, 30)) as one:
            begin = time.monotonic()
            with contextlib.suppress(OSError):
                for byte in b"GET /v1/jobs HTTP/1.1\r\nHost: a\r\nX-Padding: " + b"x" * 1000:
                    one.sendall(bytes([byte]))
                    time.sleep(0.2)
            found["head"] = time.monotonic() - begin

    def idle():
        with contextlib.closing(plug(cluster, 30)) as one:
            begin = time.monotonic()
            one.sendall(b"GET /v1/version HTTP/1.1\r\nHost: a\r\n\r\n")
            read_all(one)
            found["idle"] = time.monotonic() - begin

    def listen():
        connection = UnixConnection(cluster.socket, timeout=30)
        with contextlib.closing(connection):
            begin = time.monotonic()
            connection.request("GET", "/v1/events?from=now&type=NoSuchEvent", None,
                               {"Accept": "application/jsonl"})
            found["beat"] = connection.getresponse().readline()
            found["beat_after"] = time.monotonic() - begin

    threads = [threading.Thread(target=one) for one in (drip, idle, listen)]
    for one in threads:
        one.start()
    while any(one.is_alive()
              for one in threads):  # commits all the while: none of them is a heartbeat
        move_revision(cluster)
        time.sleep(0.5)
    for what in ("head", "idle"):
        check(HEAD_SECONDS - 1 < found[what] < HEAD_SECONDS + 6,
              f"{what}: cut off after {found[what]:.1f} s")
    same(found["beat"], b"{}\n", "the heartbeat")
    check(BEAT_SECONDS - 1 < found["beat_after"] < BEAT_SECONDS + 5,
          f"after {found['beat_after']:.1f} s")


# ---- events ----------------------------------------------------------------------------------


def events_filtered(cluster):
    """events by type, severity, subject, time and place; a long poll that returns when one comes"""
    move_revision(cluster, "filter-me")
    every = cluster.get("/v1/events?after=0")
    items = every["items"]
    check(every["next"] == every["revision"] and not every["more"], {**every, "items": len(items)})
    for query, test in (("type=NodeJoined", lambda e: e["type"] == "NodeJoined"),
                        ("severity=warn", lambda e: e["severity"] in ("warn", "error")),
                        ("for=node/gpu-0002", lambda e: e["node"] == "gpu-0002")):
        got = cluster.get(f"/v1/events?after=0&{query}")["items"]
        same([e["revision"] for e in got], [e["revision"] for e in items if test(e)], query)
    same(len(cluster.get("/v1/events?type=NodeJoined")["items"]), 2, "nodes joined")
    middle = items[len(items) // 2]
    got = cluster.get(f"/v1/events?since_ms={middle['wall_ms']}")["items"]
    same([e["revision"] for e in got],
         [e["revision"] for e in items if e["wall_ms"] >= middle["wall_ms"]],
         "since_ms")
    now = cluster.get("/v1/events?from=now")
    same((now["items"], now["next"]), ([], now["revision"]), "from=now")
    seen = {}

    def poll():
        seen["answer"] = ask(cluster, "GET", f"/v1/events?after={now['revision']}&wait=20")

    waiter = threading.Thread(target=poll)
    begin = time.monotonic()
    waiter.start()
    time.sleep(0.3)
    check(waiter.is_alive(), "the poll waits")
    move_revision(cluster, "poll-me")
    waiter.join()
    check(time.monotonic() - begin < 5, "it returned at once")
    check("poll-me" in seen["answer"][2].decode(), seen["answer"])
    begin = time.monotonic()
    late = json.loads(ask(cluster, "GET", "/v1/events?from=now&wait=1")[2])
    check(late["items"] == [] and 0.9 < time.monotonic() - begin < 4, late)


# ---- reading cheaply, changing safely --------------------------------------------------------


def conditional(cluster):
    """ETag and If-None-Match: 304 without a body while nothing changed, never when something did"""
    for path in ("/v1/nodes", "/v1/jobs", "/v1/spares", "/v1/recoveries"):
        status, headers, body = ask(cluster, "GET", path)
        tag = headers["ETag"]
        again = ask(cluster, "GET", path, None, {"If-None-Match": tag})
        same((again[0], again[1]["ETag"], again[2]), (304, tag, b""), path)
        several = ask(cluster, "GET", path, None, {"If-None-Match": f'"other", {tag}'})
        same(several[0], 304, "one of several")
        same(ask(cluster, "GET", path, None, {"If-None-Match": '"other"'})[2], body, "another tag")
    status, headers, _ = ask(cluster, "GET", "/v1/nodes")
    move_revision(cluster)
    same(ask(cluster, "GET", "/v1/nodes", None, {"If-None-Match": headers["ETag"]})[0], 200,
         "changed")
    check("ETag" not in ask(cluster, "GET", "/v1/nothing")[1], "a problem has no tag")
    cordon = json.dumps({"nodes": "gpu-0001", "action": "cordon", "reason": "x"})
    problem(ask(cluster, "POST", "/v1/node-actions?dry_run", cordon,
                {"If-Match": headers["ETag"]}), 412,
            "revision-mismatch")
    fresh = ask(cluster, "GET", "/v1/nodes")[1]["ETag"]
    same(ask(cluster, "POST", "/v1/node-actions?dry_run", cordon, {"If-Match": fresh})[0], 200,
         "fresh")


def pages(cluster):
    """a list page by page is the list"""
    whole = [node["name"] for node in cluster.get("/v1/nodes")["items"]]
    found, cursor = [], ""
    while cursor is not None:
        page = cluster.get("/v1/nodes?limit=1" + (f"&cursor={cursor}" if cursor else ""))
        found += [node["name"] for node in page["items"]]
        cursor = page["next"]
    same(found, whole, "nodes")
    check(len(whole) == 2, whole)


def submitted_twice(cluster):
    """the same file again, as YAML or as JSON, is no second job; another one under its name is 409"""
    text = spec_of(cluster, "again", ["/bin/true"], data=64)
    yaml = {"Content-Type": "application/yaml"}
    first = json.loads(ask(cluster, "POST", "/v1/jobs", text, yaml)[2])
    same((first["changed"], first["plan"]["nodes"]), (True, 32), first)
    before = revision(cluster)
    second = json.loads(ask(cluster, "POST", "/v1/jobs", text, yaml)[2])
    same((second["changed"], second["id"]), (False, first["id"]), second)
    stored = cluster.get("/v1/jobs/again")["spec"]
    check("$lines" not in stored, stored)
    third = json.loads(ask(cluster, "POST", "/v1/jobs", json.dumps(stored))[2])
    same((third["changed"], third["id"]), (False, first["id"]), third)
    same(revision(cluster), before, "the revision")
    stored["priority"] = 51
    problem(ask(cluster, "POST", "/v1/jobs", json.dumps(stored)), 409, "state-conflict")
    cluster.cli("cancel", "again")
    cluster.until_state("again", "cancelled", 10)


# ---- who may what ----------------------------------------------------------------------------


def over_tcp(cluster, method, path, body=None, token=None, headers=None):
    connection = http.client.HTTPConnection("127.0.0.1", cluster.rest_port, timeout=10)
    own = {"Authorization": f"Bearer {TOKENS[token]}"} if token else {}
    return ask(cluster, method, path, body, {**own, **(headers or {})}, connection)


def submitter(cluster):
    """a submitter's token is good for the jobs of its user alone, and never for root's"""
    mine = {"name": "mine", "run": {"command": ["/bin/true"]},
            "layout": {"data": 64, "ranks_per_node": 2}}

    def submit(change, status):
        spec = {**mine, **change}
        spec["run"] = {**mine["run"], **change.get("run", {})}
        answer = over_tcp(cluster, "POST", "/v1/jobs", json.dumps(spec), "submitter")
        same(answer[0], status, answer[2])

    submit({"run": {"user": "train-b"}}, 403)
    submit({"run": {"user": "root", "allow_root": True}}, 403)
    submit({"run": {"allow_root": True}}, 403)
    submit({}, 200)
    same(cluster.job("mine")["user"], "train-a", "its user")
    cluster.submit(spec_of(cluster, "theirs", ["/bin/true"], data=64))
    for path, body in (("cancel", "{}"), ("hold", "{}"), ("checkpoints", "{}")):
        problem(over_tcp(cluster, "POST", f"/v1/jobs/theirs/{path}", body, "submitter"), 403,
                "forbidden")
    problem(over_tcp(cluster, "GET", "/v1/jobs/theirs/logs", None, "submitter"), 403, "forbidden")
    problem(over_tcp(cluster, "GET", "/v1/jobs/theirs/logs", None, "viewer"), 403, "forbidden")
    problem(over_tcp(cluster, "POST", "/v1/node-actions", "{}", "submitter"), 403, "forbidden")
    same(over_tcp(cluster, "POST", "/v1/jobs/mine/cancel", "{}", "submitter")[0], 200, "its own")
    same(over_tcp(cluster, "POST", "/v1/jobs/theirs/cancel", "{}", "operator")[0], 200,
         "an operator")
    for scheme in ("Basic abc", "Bearer", "Bearer ", "bearer " + TOKENS["viewer"] + "x"):
        problem(over_tcp(cluster, "GET", "/v1/jobs", None, None, {"Authorization": scheme}), 401,
                "unauthenticated")
    same(over_tcp(cluster, "GET", "/v1/jobs", None, None,
                  {"Authorization": "bearer " + TOKENS["viewer"]})[0], 200, "the scheme's case")


def by_group(cluster):
    """on the socket, members of the group are operators, by any of their groups; others may read"""
    if os.getuid() != 0:
        raise Skipped("only root can be somebody else")
    python = shutil.which("python3", path="/usr/bin:/bin")
    if python is None:
        raise Skipped("no python3 that everybody may run")
    os.chmod(cluster.folder, 0o755)
    program = ("import socket,sys\ns=socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\n"
               "s.sendall(sys.argv[2].encode())\nprint(s.recv(12).decode())\n")
    body = '{"nodes": "gpu-0001", "action": "cordon", "reason": "x"}'
    post = (f"POST /v1/node-actions?dry_run HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n"
            f"Connection: close\r\n\r\n{body}")
    read = "GET /v1/jobs HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"

    def status(request, group, extra):
        done = subprocess.run([python, "-c", program, cluster.socket, request], user=65534,
                              group=group,
                              extra_groups=extra, capture_output=True, text=True, timeout=20,
                              cwd="/")
        return int(done.stdout.split()[1])

    games = grp.getgrnam("games").gr_gid
    same(status(post, 65534, []), 403, "a stranger")
    same(status(read, 65534, []), 200, "a stranger who reads")
    same(status(post, games, []), 200, "the group as the first one")
    same(status(post, 65534, [games]), 200, "the group among others")


# ---- bad days --------------------------------------------------------------------------------


def full_disk(cluster):
    """while the journal cannot be written, answers say so instead of hanging; then all goes on"""
    limit = resource.prlimit(cluster.controller.pid, resource.RLIMIT_FSIZE)
    cordon = json.dumps({"nodes": "gpu-0001", "action": "cordon", "reason": "disk full"})
    answers = {}

    def write():
        connection = UnixConnection(cluster.socket, timeout=60)
        with contextlib.closing(connection):
            answers["write"] = ask(cluster, "POST", "/v1/node-actions", cordon,
                                   connection=connection)

    writer = threading.Thread(target=write)
    resource.prlimit(cluster.controller.pid, resource.RLIMIT_FSIZE, (1, limit[1]))
    try:
        writer.start()
        cluster.until(lambda: ask(cluster, "GET", "/readyz")[0] == 503, 10,
                      "it says that it is not ready")
        begin = time.monotonic()
        connection = UnixConnection(cluster.socket, timeout=60)
        with contextlib.closing(connection):
            answer = problem(ask(cluster, "GET", "/v1/nodes", connection=connection), 503,
                             "store-unavailable")
        check(time.monotonic() - begin < 9, "it did not hang")
        check("cannot be written" in answer["detail"], answer)
        same(ask(cluster, "GET", "/healthz")[0], 200, "healthz")
        writer.join()
        answer = problem(answers["write"], 503, "store-unavailable")
        check("happens when it can" in answer["detail"], answer)
    finally:
        resource.prlimit(cluster.controller.pid, resource.RLIMIT_FSIZE, limit)
        writer.join()
    cluster.until(lambda: ask(cluster, "GET", "/readyz")[0] == 200, 20, "it is ready again")
    cluster.until(lambda: (cluster.get("/v1/nodes/gpu-0001") or {"marks": []})["marks"], 5,
                  "the request has happened")
    cluster.cli("uncordon", "gpu-0001")


def ended(cluster):
    """SIGTERM with open streams, waiting polls and half a request: it ends at once, and cleanly"""
    streams = []
    for data in (b"GET /v1/events?from=now HTTP/1.1\r\nHost: a\r\nAccept: application/jsonl\r\n\r\n",
                 b"GET /v1/events?from=now HTTP/1.1\r\nHost: a\r\nAccept: text/event-stream\r\n\r\n",
                 b"GET /v1/events?from=now&wait=300 HTTP/1.1\r\nHost: a\r\n\r\n", b"GET /v1/jo",
                 b"POST /v1/jobs HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc"):
        for _ in range(10):
            streams.append(plug(cluster))
            streams[-1].sendall(data)
    for one in streams[:20]:
        check(b" 200 " in one.recv(4096), "the stream begins")
    time.sleep(0.3)  # the polls have been read
    begin = time.monotonic()
    cluster.controller.send_signal(signal.SIGTERM)
    same(cluster.controller.wait(timeout=15), 0, cluster.tail("controller.log"))
    check(time.monotonic() - begin < 10, "at once")
    for one in streams[20:30]:
        check(b" 503 " in read_all(one).split(b"\r\n")[0], "a poll is told why")
    for one in streams:
        one.close()
    check(not os.path.exists(cluster.socket), "the socket is gone")


def far_away(cluster):
    """an address that is not loopback needs a token file, and then a token for reading, too"""
    if os.getuid() != 0 or subprocess.run(["unshare", "-n", "true"],
                                          capture_output=True).returncode != 0:
        raise Skipped("no network namespace of its own")
    flags = ["--database", str(cluster.folder / "far.db"), "--listen-agents", "127.0.0.1:7000",
             "--listen-socket", "", "--listen-rest", "10.9.8.7:7443"]
    program = str(cluster.build / "keepstep-controller")
    inside = 'ip link set lo up && ip addr add 10.9.8.7/32 dev lo && exec "$@"'

    def start(*more):
        return subprocess.Popen(["unshare", "-n", "sh", "-c", inside, "sh", program, *flags, *more],
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT,
                                text=True)

    with start() as without:
        said = without.communicate(timeout=20)[0]
    check(without.returncode != 0 and "token_file" in said, said)
    reader = ("import http.client,sys\nc=http.client.HTTPConnection('10.9.8.7',7443,timeout=5)\n"
              "h={'Authorization':'Bearer '+sys.argv[2]} if len(sys.argv)>2 else {}\n"
              "c.request('GET',sys.argv[1],None,h)\nprint(c.getresponse().status)\n")
    with start("--token-file", str(cluster.folder / "tokens")) as controller:
        def status(*words):
            done = subprocess.run(["nsenter", "-t", str(controller.pid), "-n", sys.executable,
                                   "-c", reader,
                                   *words], capture_output=True, text=True, timeout=20)
            return done.stdout.strip()
        try:
            cluster.until(lambda: status("/healthz") == "200", 15, "it answers")
            same(status("/v1/jobs"), "401", "without a token")
            same(status("/v1/version"), "200", "its version")
            same(status("/v1/jobs", TOKENS["viewer"]), "200", "with one")
        finally:
            controller.terminate()
            controller.communicate(timeout=20)


# ---- all of it -------------------------------------------------------------------------------


def start(cluster):
    """A controller that outlives a full disk: SIGXFSZ stays ignored, as Python has it."""
    path = cluster.folder / "tokens"
    names = {"submitter": "train-a"}
    path.write_text("".join(f"{role} {names.get(role, role + '-of-rest')} "
                            f"{hashlib.sha256(token.encode()).hexdigest()}\n" for role,
                            token in TOKENS.items()))
    os.chmod(path, 0o600)
    cluster.rest_port, = free_ports(1)
    log = open(cluster.folder / "controller.log", "ab")
    cluster.controller = subprocess.Popen(
        [str(cluster.build / "keepstep-controller"), "--config",
         str(cluster.folder / "controller.yaml"),
         "--database", str(cluster.database), "--listen-agents", f"127.0.0.1:{cluster.agent_port}",
         "--listen-rest", f"127.0.0.1:{cluster.rest_port}", "--listen-socket", cluster.socket,
         "--token-file", str(path)], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        start_new_session=True, restore_signals=False)
    log.close()
    cluster.until(lambda: cluster.get("/v1/version"), 10, "the controller answers")
    for name in cluster.names:
        cluster.start_agent(name)
    cluster.until(lambda: cluster.spares() == 2, 20, "all nodes are ready")


def main():
    beside = {**QUICK, "listen.socket_group": "games"}
    with Cluster(2, start_grace="300ms", beside=beside) as cluster:
        start(cluster)
        return run_tests([bad_heads, junk, odd_paths, odd_queries, dry_runs, bodies, body_limits,
                          chunks_and_pipes, vanished, many_at_once, events_filtered, conditional,
                          pages,
                          submitted_twice, submitter, by_group, slow_ones, full_disk, ended,
                          far_away],
                         cluster)


if __name__ == "__main__":
    sys.exit(main())
