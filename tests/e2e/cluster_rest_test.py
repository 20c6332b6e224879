#!/usr/bin/env python3
"""The REST interface of a running cluster: bodies, errors, tokens, health and the event stream."""

import hashlib
import http.client
import json
import subprocess
import sys

from cluster_lib import (QUICK, Cluster, check, contextlib, os, run_in_cluster, same, tiny,
                         wait_over, wait_step)
from tests.lib.cluster import UnixConnection, free_ports

TOKENS = {"viewer": "ks_viewer-of-this-test", "operator": "ks_operator-of-this-test"}
BODY_MAX = 1 << 20


def ask(connection, method, path, body=None, headers=None):
    """(status, content type, bytes)"""
    with contextlib.closing(connection):
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        return answer.status, answer.getheader("Content-Type", ""), answer.read()


def over_socket(cluster, *request):
    return ask(UnixConnection(cluster.socket), *request)


def over_tcp(cluster, *request, token=None):
    method, path, *rest = request
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return ask(http.client.HTTPConnection("127.0.0.1", cluster.rest_port, timeout=10), method, path,
               rest[0] if rest else None, headers)


def is_problem(answer, status, kind):
    got, content_type, body = answer
    same((got, content_type), (status, "application/problem+json"), body[:300])
    problem = json.loads(body)
    same((problem["status"], problem["type"].rsplit("/", 1)[-1]), (status, kind), problem)
    check(problem["title"] and problem["request_id"], problem)
    return problem


def same_bytes(cluster):
    """-o json is the REST body, byte for byte"""
    cluster.submit(tiny(cluster, "rest", data=4, steps=600, every=10, step_min_ms=20))
    wait_step(cluster, "rest", 12)
    cluster.cli("cancel", "rest", "-y")
    wait_over(cluster, "rest")  # nothing may move between the two readings
    cluster.until(lambda: cluster.spares() == 2, 10, "its nodes are free")
    for words, path in ((("get", "jobs"), "/v1/jobs"), (("describe", "job", "rest"),
                                                        "/v1/jobs/rest"),
                        (("get", "checkpoints", "rest"), "/v1/jobs/rest/checkpoints"),
                        (("get", "spares"), "/v1/spares"),
                        (("get", "recoveries"), "/v1/recoveries"),
                        (("get", "attempts", "rest"), "/v1/jobs/rest/attempts")):
        text = cluster.cli(*words, "-o", "json")
        status, content_type, body = over_socket(cluster, "GET", path)
        same((status, content_type), (200, "application/json"), path)
        same(text, body.decode(), f"keepstep {' '.join(words)} -o json")


def problems(cluster):
    """what cannot be served is a problem+json with its status: 400, 404, 405, 413, 422"""
    post = "POST", "/v1/node-actions"
    is_problem(over_socket(cluster, *post, "{ not json"), 400, "invalid-request")
    is_problem(over_socket(cluster, *post, "[1, 2]"), 400, "invalid-request")
    is_problem(over_socket(cluster, *post, '{"nodes": 7, "action": "drain", "reason": "x"}'), 400,
               "invalid-request")
    is_problem(over_socket(cluster, *post,
                           '{"nodes": "gpu-0001", "action": "melt", "reason": "x"}'),
               400, "invalid-request")
    is_problem(over_socket(cluster, *post, '{"nodes": "gpu-0001", "action": "drain"}'), 400,
               "invalid-request")
    is_problem(over_socket(cluster, *post, "x" * (BODY_MAX + 1)), 413, "too-large")
    is_problem(over_socket(cluster, "GET", "/v1/nothing"), 404, "not-found")
    is_problem(over_socket(cluster, "GET", "/v1/jobs/nobody"), 404, "not-found")
    is_problem(over_socket(cluster, "DELETE", "/v1/jobs"), 405, "invalid-request")
    is_problem(over_socket(cluster, "GET", "/v1/events?after=minus"), 400, "invalid-request")
    wrong = {"name": "typed", "run": {"command": "not a list"}, "layout": {"data": "four"}}
    problem = is_problem(over_socket(cluster, "POST", "/v1/jobs", json.dumps(wrong)), 422,
                         "invalid-spec")
    pointers = {error["pointer"] for error in problem["errors"]}
    check({"/run/command", "/layout/data"} <= pointers, pointers)
    same(over_socket(cluster, "GET", "/v1/version")[0], 200, "the controller is well")


def tokens(cluster):
    """over TCP: reading is open on loopback, a write needs a known token of the right role"""
    cordon = json.dumps({"nodes": "gpu-0001", "action": "cordon", "reason": "test"})
    post = "POST", "/v1/node-actions", cordon
    same(over_tcp(cluster, "GET", "/v1/nodes")[0], 200, "reading")
    is_problem(over_tcp(cluster, *post), 403, "forbidden")
    is_problem(over_tcp(cluster, *post, token="ks_nobody"), 401, "unauthenticated")
    is_problem(over_tcp(cluster, "GET", "/v1/nodes", token="ks_nobody"), 401, "unauthenticated")
    is_problem(over_tcp(cluster, *post, token=TOKENS["viewer"]), 403, "forbidden")
    same(cluster.get("/v1/nodes/gpu-0001")["marks"], [], "marks after refused writes")
    same(over_tcp(cluster, *post, token=TOKENS["operator"])[0], 200, "with the operator's token")
    mark = cluster.get("/v1/nodes/gpu-0001")["marks"][0]
    same((mark["code"], mark["text"]), ("cordon", "test"), "the mark")
    cluster.cli("uncordon", "gpu-0001")
    secret = cluster.database.read_bytes() + (cluster.folder / "controller.log").read_bytes()
    check(not any(token.encode() in secret for token in TOKENS.values()),
          "a token was written down")


def health(cluster):
    """/healthz and /readyz answer without a token, on both ways in"""
    for way in (over_socket, over_tcp):
        same(way(cluster, "GET", "/healthz")[::2], (200, b"ok\n"), "healthz")
        same(way(cluster, "GET", "/readyz")[::2], (200, b"ready\n"), "readyz")


def lines_of(cluster, accept, path, until, headers=None):
    """Lines of an event stream up to the first one that `until` takes."""
    connection = UnixConnection(cluster.socket)
    found = []
    with contextlib.closing(connection):
        connection.request("GET", path, None, {"Accept": accept, **(headers or {})})
        answer = connection.getresponse()
        same((answer.status, answer.getheader("Content-Type")), (200, accept), path)
        while not found or not until(found[-1]):
            found.append(answer.readline().decode().rstrip("\n"))
    return found


def streams(cluster):
    """events as a list, as JSON lines, as server-sent events are the same, and resume anywhere"""
    listed = cluster.get("/v1/events?after=0")["items"]
    check(len(listed) > 20, f"{len(listed)} events")
    last = listed[-1]["revision"]

    def is_last(line):
        return line.startswith("data:") and json.loads(line[5:])["revision"] == last

    lines = lines_of(cluster, "application/jsonl", "/v1/events?after=0",
                     lambda line: json.loads(line).get("revision") == last)
    same([json.loads(line) for line in lines], listed, "JSON lines")
    sse = lines_of(cluster, "text/event-stream", "/v1/events?after=0", is_last)
    data = [json.loads(line[5:]) for line in sse if line.startswith("data:")]
    same(data, listed, "server-sent events")
    ids = [int(line[3:]) for line in sse if line.startswith("id:")]
    same(ids, [event["revision"] for event in listed], "ids")
    middle = len(listed) // 2
    resumed = lines_of(cluster, "text/event-stream", "/v1/events", is_last,
                       {"Last-Event-ID": str(listed[middle]["revision"])})
    data = [json.loads(line[5:]) for line in resumed if line.startswith("data:")]
    same(data, listed[middle + 1:], "resumed by Last-Event-ID")


def watch(cluster):
    """watch events --since-revision shows what came after, and follows; a restart only delays it"""
    before = cluster.get("/v1/cluster")["revision"]
    command = [cluster.build / "keepstep", "-s", f"unix:{cluster.socket}", "watch", "events",
               "--since-revision", str(before), "-o", "jsonl"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          text=True) as watcher:
        cluster.cli("cordon", "gpu-0002", "--reason", "first")
        seen = [json.loads(watcher.stdout.readline())]
        while "first" not in seen[-1]["message"]:
            seen.append(json.loads(watcher.stdout.readline()))
        cluster.kill_controller()
        cluster.start_controller(*cluster.flags)
        cluster.cli("uncordon", "gpu-0002", "--reason", "second")
        while "second" not in seen[-1]["message"]:
            seen.append(json.loads(watcher.stdout.readline()))
        watcher.kill()
    revisions = [event["revision"] for event in seen]
    same(revisions, sorted(set(revisions)), "each event once, in order")
    check(revisions[0] > before, "nothing older")
    check(any(event["type"] == "ControllerStarted" for event in seen),
          "the restart is an event, too")


def logs(cluster):
    """logs of a rank, through its agent: the tail, another rank, an older attempt"""
    cluster.until(lambda: cluster.spares() == 2, 20, "the agents are back")
    cluster.submit(tiny(cluster, "logs", data=4, steps=120, every=4, extra=[
        "--inject", "crash@9:rank=3:attempt=0"]))
    wait_step(cluster, "logs", 12)
    check("loss" in cluster.cli("logs", "logs"), "rank 0 prints its loss")
    older = cluster.cli("logs", "logs", "--attempt", "0")
    check("attempt 0" in older and "step 8 " in older and "step 12 " not in older, older)
    same(cluster.cli("logs", "logs", "--rank", "3"), "", "rank 3 prints nothing")
    same(wait_over(cluster, "logs")["state"], "succeeded", "the job")
    check("done after step 120" in cluster.cli("logs", "logs"),
          "the last words of rank 0, after the end")


def main():
    with Cluster(2, start_grace="300ms", beside=QUICK) as cluster:
        path = cluster.folder / "tokens"
        hashes = {role: hashlib.sha256(token.encode()).hexdigest()
                  for role, token in TOKENS.items()}
        path.write_text("".join(f"{role} {role}-of-test {text}\n" for role, text in hashes.items()))
        os.chmod(path, 0o600)
        cluster.rest_port, = free_ports(1)
        cluster.flags = ("--listen-rest", f"127.0.0.1:{cluster.rest_port}", "--token-file",
                         str(path))
        cluster.start_controller(*cluster.flags)
        for name in cluster.names:
            cluster.start_agent(name)
        cluster.until(lambda: cluster.spares() == 2, 20, "all nodes are ready")
        return run_in_cluster([same_bytes, problems, tokens, health, streams, watch, logs], cluster)


if __name__ == "__main__":
    sys.exit(main())
