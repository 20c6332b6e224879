#!/usr/bin/env python3
"""Long answers are made once for many clients, and never hide what a caller has just done."""

import sys

from cluster_lib import ROOT, check, run_tests, same

sys.path.insert(0, str(ROOT))
from tests.bench.fleet import Fleet  # noqa: E402
from tests.lib.cluster import UnixConnection  # noqa: E402


def tag_of(fleet, path, tag=None):
    """(status, entity tag, body) of a GET."""
    connection = UnixConnection(fleet.socket)
    try:
        connection.request("GET", path, headers={"If-None-Match": tag} if tag else {})
        answer = connection.getresponse()
        return answer.status, answer.getheader("ETag"), answer.read().decode()
    finally:
        connection.close()


def cordoned(fleet, name):
    return any(one["name"] == name and one["marks"] for one in fleet.get("/v1/nodes")["items"])


def test_own_change(fleet):
    """a list asked for right after a change shows it, each time"""
    for index in range(1, 21):
        name = f"n{index:05d}"
        check(len(tag_of(fleet, "/v1/nodes")[2]) > 8192, "the list is too short to be shared")
        fleet.cli("cordon", name, "--reason", "a look")
        check(cordoned(fleet, name), f"{name} is not shown as cordoned")
        fleet.cli("uncordon", name)
        check(not cordoned(fleet, name), f"{name} is still shown as cordoned")


def test_tags(fleet):
    """what a caller has is not sent again; another question has another answer"""
    status, tag, body = tag_of(fleet, "/v1/nodes")
    same(status, 200, "the first")
    same(tag_of(fleet, "/v1/nodes", tag), (304, tag, ""), "the same again")
    other = tag_of(fleet, "/v1/nodes?limit=40")
    check(other[0] == 200 and other[1] != tag and len(other[2]) < len(body), other[:2])
    same(tag_of(fleet, "/v1/nodes?limit=40", tag)[0], 200, "the tag of another answer")


def test_soft_state(fleet):
    """who is connected is shown within a moment, although no record says it"""
    fleet.fault("pause n00030 20000")
    fleet.until(lambda: any(one["name"] == "n00030" and one["state"] == "suspect"
                            for one in fleet.get("/v1/nodes")["items"]), 15, "it is suspect")


if __name__ == "__main__":
    with Fleet("rest-shared", 64) as FLEET:
        STATUS = run_tests([test_own_change, test_tags, test_soft_state], FLEET)
    sys.exit(STATUS)
