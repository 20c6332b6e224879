"""fleet.py: a real controller with its database, and a swarm of agents (build/tests/swarm) at it."""

import contextlib
import json
import os
import pathlib
import queue
import shutil
import sqlite3
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent))
from tests.lib.cluster import Cluster, Timeout, build_dir, whoami  # noqa: E402

JOB = "big"
SPARES = 64
RANKS = 8  # of each node
# Sizes as in the design: 16,384 ranks, and as many as one controller is made for.
SHAPES = {64: (1, 48), 2112: (16, 128), 12900: (16, 800)}  # agents: (pipeline, data)
PATIENT = "recovery: {retries: {user: 1000, unknown: 1000}, no_progress_limit: 1000}\n"


class Fleet(Cluster):
    """`with Fleet("name", 2112) as fleet`: the agents are connected. Nodes are n00001 …"""

    def __init__(self, name, agents, tls=False, wait_s=float(os.environ.get("FLEET_WAIT", "120"))):
        folder = build_dir() / "bench" / name
        shutil.rmtree(folder, ignore_errors=True)
        super().__init__(0, folder=folder, start_grace="4s", beside={
            "timing.start_quiet": "200ms", "limits.agents": agents + SPARES,
            "limits.slots": max(8192, 2 * agents)})
        self.count = agents
        self.tls = tls
        self.events = []
        self.incoming = queue.Queue()
        self.swarm = None
        try:
            flags = []
            if tls:
                key = self.folder / "key"
                self.cli("admin", "key", "init", str(key))
                flags = ["--key-file", str(key)]
            self.start_controller(*flags)
            self.start_swarm(*flags)
            self.connected = self.wait_for("connected", wait_s)
        except BaseException:
            self.close()
            raise

    # ---- the swarm -----------------------------------------------------------------------------

    def start_swarm(self, *flags):
        log = open(self.folder / "swarm.log", "ab")
        self.swarm = subprocess.Popen(
            [str(self.build / "tests" / "swarm"), "--controller", f"127.0.0.1:{self.agent_port}",
             "--agents", str(self.count), *flags],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, start_new_session=True,
            text=True)
        log.close()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        for line in self.swarm.stdout:
            self.incoming.put(json.loads(line))
        self.incoming.put(None)

    def order(self, line):
        self.swarm.stdin.write(line + "\n")
        self.swarm.stdin.flush()

    def wait_for(self, event, seconds, **fields):
        """The next line of that kind, with these fields; what comes before it is kept."""
        end = time.monotonic() + seconds
        while True:
            for index, one in enumerate(self.events):
                if one["event"] == event and all(one.get(k) == v for k, v in fields.items()):
                    return self.events.pop(index)
            try:
                one = self.incoming.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                raise Timeout(f"not within {seconds} s: the swarm says {event} {fields or ''}; "
                              f"{self.events[-3:]} {self.tail('swarm.log')}") from None
            if one is None:
                raise Timeout(f"the swarm ended: {self.tail('swarm.log')}")
            if one["event"] == "error":
                raise Timeout(f"the swarm says: {one['text']}")
            self.events.append(one)

    def stats(self):
        self.order("stats")
        return self.wait_for("stats", 30)

    def fault(self, line):
        """Gives the order and returns when it struck, in monotonic microseconds."""
        what, node = line.split()[:2]
        self.order(line)
        return self.wait_for("fault", 30, what=what, node=node)["at_us"]

    # ---- the job -------------------------------------------------------------------------------

    def run_job(self, seconds=60):
        """Submits the job that fills the fleet but for its spares, and waits until it steps."""
        pipeline, data = SHAPES[self.count]
        self.submit(f"""name: {JOB}
run:
  command: [/bin/true]
  user: {whoami()}
  allow_root: {"true" if os.getuid() == 0 else "false"}
layout: {{tensor: 8, pipeline: {pipeline}, data: {data}, ranks_per_node: {RANKS}}}
{PATIENT}""")
        self.wait_for("runs", seconds)
        self.settle(seconds)

    def settle(self, seconds=60):
        self.until(lambda: (self.job(JOB) or {}).get("state") == "running", seconds,
                   "the job runs again", every=0.1)

    def holders(self):
        """Names of the nodes of the job, by slot."""
        return self.slot_nodes(JOB)

    def attempt(self):
        return self.job(JOB)["attempt"]

    # ---- the journal ---------------------------------------------------------------------------

    def rows(self, query, *arguments):
        with contextlib.closing(sqlite3.connect(f"file:{self.database}?mode=ro", uri=True,
                                                timeout=10)) as connection:
            return connection.execute(query, arguments).fetchall()

    def decided_us(self, kind, node, seconds=30):
        """When a record about the node was decided, in monotonic microseconds. Not committed yet
        means not decided: it is waited for."""
        rows = self.until(lambda: self.rows(
            "SELECT max(wall_ms) FROM journal WHERE kind = ? AND subject = ?", kind,
            f"node/{node}")[0][0], seconds, f"{kind} of {node}", every=0.05)
        return int(rows * 1000 - (time.time() - time.monotonic()) * 1e6)

    def traced(self, word):
        """How often the controller's log says a word."""
        return (self.folder / "controller.log").read_text(errors="replace").count(word)

    def close(self):
        if self.swarm is not None:
            self.swarm.kill()
            self.swarm.wait()
            self.swarm.stdin.close()
            self.swarm.stdout.close()
        super().close()

    def __exit__(self, kind, *_):
        self.close()
        if kind is None:
            shutil.rmtree(self.folder, ignore_errors=True)
