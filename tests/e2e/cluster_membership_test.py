#!/usr/bin/env python3
"""Who belongs to a cluster and to a job: more agents than slots, agents that die at a bad moment,
and strangers that speak the protocol by hand."""

import os
import sys
import threading

import controller_lib as wire
from cluster_lib import (QUICK, Cluster, check, journal, once_each, query, run_in_cluster, same,
                         signal, starts, stub, tiny, wait_closed, wait_over, wait_spares, wait_step)

NAME = "j"
WELCOME, STALE, DUPLICATE = 0, 2, 3  # results of a hello
OTHER_BOOT = "22222222-2222-2222-2222-222222222222"


def answer_to(cluster, hello):
    """(connection, result) of a hello said by hand."""
    agent = wire.Agent(cluster.agent_port)
    agent.send(hello)
    kind, fields = agent.take()
    same(kind, wire.WELCOME, "the answer")
    return agent, fields.get(1, 0)


def extra_agents(cluster):
    """A1: more agents than the job has slots: the rest are spares, and late comers too"""
    for name in cluster.names[:5]:
        cluster.start_agent(name)
    cluster.until(lambda: cluster.spares() == 5, 15, "five nodes are ready")
    cluster.submit(tiny(cluster, NAME, data=4, steps=4000, every=20, step_min_ms=40))
    wait_step(cluster, NAME, 3)
    same(cluster.spares(), 3, "spares")
    os.kill(sorted(cluster.rank_pids(cluster.slot_nodes(NAME)[0]).values())[0], signal.SIGKILL)
    for name in cluster.names[5:]:
        cluster.start_agent(name)  # while it recovers
    wait_closed(cluster, NAME)
    cluster.until(lambda: cluster.spares() == 5, 15, "all extra agents are spares")
    same(starts(cluster, NAME), once_each((0, 1), 4), "processes started")


def spare_dies_too(cluster):
    """A3, A4: a node and the spare that would replace it die together: the next spare is taken"""
    before = cluster.slot_nodes(NAME)
    victim = before[1]
    spare = next(name for name in cluster.names if name not in before)
    rack = {node["name"]: node["rack"] for node in cluster.get("/v1/nodes")["items"]}
    near = [name for name in cluster.names if name not in before and rack[name] == rack[before[0]]]
    dying = near or [spare]
    threads = [threading.Thread(target=cluster.kill_node, args=(name,))
               for name in [victim, *dying]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    recovery = wait_closed(cluster, NAME, 2)
    same((recovery["outcome"], recovery["moved_nodes"], recovery["shifted_ranks"]),
         ("recovered", 1, 0), "the recovery")
    after = cluster.slot_nodes(NAME)
    same(after[0], before[0], "the survivor keeps its slot")
    check(after[1] not in (victim, *dying), f"slot 1 is held by {after[1]}")
    same(starts(cluster, NAME), once_each((0, 1, 2), 4), "processes started")
    for name in (victim, *dying):
        cluster.start_agent(name)
    wait_spares(cluster, 5, "they are back")


def three_triggers(cluster):
    """A19: a rank's end, a node's silence and a drain of it at one moment make one attempt"""
    attempt = cluster.job(NAME)["attempt"]
    victim = cluster.slot_nodes(NAME)[1]
    drain = threading.Thread(target=cluster.cli, args=("drain", victim, "--reason", "x", "--when",
                                                       "now", "-y"))
    os.kill(sorted(cluster.rank_pids(victim).values())[0], signal.SIGKILL)
    drain.start()
    cluster.kill_node(victim)
    drain.join()
    wait_closed(cluster, NAME, 3)
    wait_step(cluster, NAME, 3)
    same(cluster.job(NAME)["attempt"], attempt + 1, "attempts")
    same(starts(cluster, NAME), once_each(range(attempt + 2), 4), "processes started")
    made = [body["attempt"] for _, _, body in journal(cluster, "attempt_made")]
    same(made, sorted(set(made)), "attempts made")
    cluster.start_agent(victim)
    cluster.cli("undrain", victim)


def same_name(cluster):
    """A7: an older incarnation is refused, another host under a name in use too; both are shown"""
    held = cluster.slot_nodes(NAME)[0]
    boot = query(cluster, "SELECT boot_id FROM nodes WHERE name = ?", held)[0][0]
    stranger, result = answer_to(cluster, wire.hello(held, boot=boot, incarnation=1))
    same(result, STALE, "an older incarnation of the same boot")
    check(stranger.is_ended(), "it is sent away")
    stranger, result = answer_to(cluster, wire.hello(held, boot=OTHER_BOOT, incarnation=1 << 40))
    same(result, DUPLICATE, "another host with this name")
    check(stranger.is_ended(), "it is sent away")
    check(any("duplicate" in (kind + event + message).lower() for kind, event, message in
              query(cluster, "SELECT kind, event, message FROM journal WHERE event <> ''")),
          "the duplicate is an event")
    step = cluster.job(NAME)["step"]
    wait_step(cluster, NAME, step + 3)
    same(cluster.slot_nodes(NAME)[0], held, "the holder of slot 0")


def wrong_names(cluster):
    """A17: what a stranger reports about a job's ranks changes nothing"""
    job = cluster.job(NAME)
    end = wire.field(1, 2) + wire.field(5, 2 * 1) + wire.field(6, 1)  # exited, code 1
    report = (wire.field(1, job["id"]) + wire.field(2, job["attempt"]) + wire.field(5, True)
              + wire.field(8, 0) + wire.field(9, end) + wire.field(9, end))
    stranger, result = answer_to(cluster, wire.hello("gpu-0099"))
    same(result, WELCOME, "a node that nobody knows may join")
    # It says that ranks of the present attempt, which another node holds, have ended there; then
    # the same about an attempt that is long over.
    for attempt_report in (report, report.replace(wire.field(2, job["attempt"]), wire.field(2, 0))):
        stranger.send(wire.frame(wire.BEAT, wire.field(1, 1) + wire.field(3, True)
                                 + wire.field(5, attempt_report)))
    step = cluster.job(NAME)["step"]
    wait_step(cluster, NAME, step + 30)
    now = cluster.job(NAME)
    same((now["state"], now["attempt"], now["recoveries"]),
         ("running", job["attempt"], job["recoveries"]), "the job")
    stranger.close()


def old_key(cluster):
    """A10: a key that ranks exchange is of their own attempt: the old one is never seen again"""
    cluster.submit(stub(cluster, "keys", "--steps=60", "--step-ms=40", "--save-every=10",
                        "--exchange=nccl-id"))
    wait_step(cluster, "keys", 3)
    os.kill(cluster.rank_pids(cluster.slot_nodes("keys")[0])[0], signal.SIGKILL)
    same(wait_over(cluster, "keys")["state"], "succeeded", "the job")
    for attempt in ("0", "1"):
        for rank in ("0", "1", "2", "3"):
            text = cluster.cli("logs", "keys", "--rank", rank, "--attempt", attempt)
            check(f"exchange 0 attempt {attempt}\n" in text,
                  f"rank {rank} of attempt {attempt}: {text}")


def released(cluster):
    """A5: at the end of the job all its nodes are spares again, and the job's end is its own"""
    cluster.cli("cancel", NAME, "-y")
    same(wait_over(cluster, NAME)["state"], "cancelled", "the job")
    cluster.until(lambda: cluster.spares() == 7, 15, "all nodes are spares")
    cluster.submit(tiny(cluster, "short", data=4, steps=8))
    same(wait_over(cluster, "short")["state"], "succeeded", "a job after it")


if __name__ == "__main__":
    with Cluster(7, start_grace="300ms", beside=QUICK) as the_cluster:
        the_cluster.start_controller()
        sys.exit(run_in_cluster([extra_agents, spare_dies_too, three_triggers, same_name,
                                 wrong_names, released, old_key], the_cluster))
