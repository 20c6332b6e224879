#!/usr/bin/env python3
"""A second agent, written from the protocol's page alone (tests/lib/python_agent.py), beside
shipped ones: it holds a slot of a real job, takes part in recoveries, comes back after its own end,
and is replaced when its node dies. Needs Debian's python3-protobuf and protobuf-compiler."""

import os
import pathlib
import signal
import sys

from cluster_lib import (QUICK, Cluster, check, events, once_each, processes_of, recorded,
                         run_tests, same, show, spec_of, starts, wait_over, wait_spares)
from python_agent_lib import PYTHON, prepare, start_agent

NAME = "mixed"
# Ranks as any program's: one connection each to rank 0, and when one breaks all of them fail. They
# end well once a file is there.
RANKS = """
import os, select, socket, sys, time
rank, world, place = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), (
    os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if rank == 0:
    with socket.create_server(place) as listener:
        others = [listener.accept()[0] for _ in range(world - 1)]
    while not os.path.exists(sys.argv[1]):
        if select.select(others, [], [], 0.1)[0]:
            sys.exit(1)
    for one in others:
        one.sendall(b"!")
else:
    end = time.monotonic() + 20
    while True:
        try:
            link = socket.create_connection(place)
            break
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)
    sys.exit(0 if link.recv(1) else 1)
"""


class MixedCluster(Cluster):
    """Of which the fourth node's agent is the one in Python."""

    def start_python(self):
        name = self.names[3]
        self.agents[name] = start_agent(
            self.folder / "nodes" / name / "state", name, self.dials(name), self.peer_ports[3],
            "r02", self.ranks_per_node, self.folder / f"{name}.log")

    def attempt_runs(self, attempts, count=8):
        """Until each rank was started once in each of these attempts, and lives in the last."""
        last = f"KEEPSTEP_ATTEMPT={attempts[-1]}".encode()

        def there():
            living = [last in environ.split(b"\0") for environ in processes_of(self, NAME).values()]
            return starts(self, NAME) == once_each(attempts, count) and all(living) and \
                len(living) == count
        self.until(there, 15, f"8 processes of attempt {attempts[-1]} and no other: "
                   f"{starts(self, NAME)}")


def holds_a_slot(cluster):
    """it joins beside three shipped agents and starts the ranks of its slot"""
    for name in cluster.names[:3]:
        cluster.start_agent(name)
    cluster.start_python()
    cluster.until(lambda: cluster.spares() == 4, 15, "four nodes are ready")
    program = cluster.folder / "ranks.py"
    program.write_text(RANKS)
    command = [PYTHON, program, cluster.folder / "go"]
    cluster.submit(recorded(cluster, NAME, spec_of(cluster, NAME, command, data=8), False))
    cluster.attempt_runs((0,))
    check(cluster.names[3] in cluster.slot_nodes(NAME), "it holds a slot")
    slot = cluster.slot_nodes(NAME).index(cluster.names[3])
    ranks = [2 * slot, 2 * slot + 1]
    pids = cluster.rank_pids(cluster.names[3])
    same(sorted(pids), ranks, "its ranks")
    environ = dict(word.split("=", 1) for word in pathlib.Path(f"/proc/{pids[ranks[1]]}/environ")
                   .read_text().split("\0") if "=" in word)
    told = {"RANK": str(ranks[1]), "LOCAL_RANK": "1", "WORLD_SIZE": "8", "GROUP_RANK": str(slot),
            "KEEPSTEP_DP_RANK": str(ranks[1]), "KEEPSTEP_ATTEMPT": "0"}
    same({key: environ[key] for key in told}, told, "what a rank was told")


def another_is_lost(cluster):
    """another node is killed: its ranks are stopped and started in the new attempt"""
    cluster.start_agent(cluster.names[4])
    cluster.until(lambda: cluster.spares() == 1, 15, "a spare")
    before = cluster.slot_nodes(NAME)
    cluster.kill_node(cluster.names[0])
    cluster.attempt_runs((0, 1))
    same(cluster.slot_nodes(NAME), [cluster.names[4] if name == cluster.names[0] else name
                                    for name in before], "only the lost node's slot moved")
    cluster.start_agent(cluster.names[0])
    wait_spares(cluster, 1, "it is back, as the spare")


def comes_back(cluster):
    """asked to end it says goodbye, its ranks go on, and started again it knows them"""
    name = cluster.names[3]
    pids = cluster.rank_pids(name)
    cluster.agents[name].terminate()
    same(cluster.agents[name].wait(10), 0, "its exit status")
    cluster.until(lambda: not cluster.get(f"/v1/nodes/{name}")["connected"], 5, "it has left")
    cluster.start_python()
    cluster.until(lambda: cluster.get(f"/v1/nodes/{name}")["connected"], 10, "it is back")
    same(cluster.rank_pids(name), pids, "its ranks")
    same(starts(cluster, NAME), once_each((0, 1), 8), "processes started")
    rank = sorted(pids)[0]
    os.kill(pids[rank], signal.SIGKILL)
    cluster.attempt_runs((0, 1, 2))
    check(name in cluster.slot_nodes(NAME), "it keeps its slot")
    told = [message for *_, message in events(cluster) if "was ended by signal" in message]
    same(told, [f"{name}: rank {rank} was ended by signal 9"], "ends by a signal that were told")


def is_replaced(cluster):
    """killed with its ranks it is replaced by the spare, and the job ends as it should"""
    before = cluster.slot_nodes(NAME)
    cluster.kill_node(cluster.names[3])
    cluster.attempt_runs((0, 1, 2, 3))
    same(cluster.slot_nodes(NAME), [cluster.names[0] if name == cluster.names[3] else name
                                    for name in before], "only its slot moved")
    (cluster.folder / "go").touch()
    job = wait_over(cluster, NAME)
    same((job["state"], job["attempt"]), ("succeeded", 3), "the job")
    same(starts(cluster, NAME), once_each(range(4), 8), "processes started")
    same(processes_of(cluster, NAME), {}, "left of the job")


if __name__ == "__main__":
    why = prepare()
    if why is not None:
        print(f"skipped: {why}")
        sys.exit(77)
    with MixedCluster(5, start_grace="300ms", beside=QUICK) as the_cluster:
        the_cluster.start_controller()
        sys.exit(run_tests([holds_a_slot, another_is_lost, comes_back, is_replaced], the_cluster,
                           on_failure=lambda: show(the_cluster)))
