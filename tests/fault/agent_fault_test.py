#!/usr/bin/env python3
"""An agent of which one call fails, while its node gets a job that loses a rank, recovers and ends:
it goes on or ends with its reason, and the next agent finds its ranks and starts nothing twice."""

import sys
import time

from fault_lib import check, check_end, run_tests

from daemon_lib import (STRUCK_SECONDS, Trials, end_by_term, environment_of, fail_calls,
                        log_since, log_size)

PROGRAM = "keepstep-agent"
CODES = (0, 1, 2) # done, failed, flags
RUNS = {"memory": 4, "file": 3, "socket": 4, "open": 3, "child": 2}


class AgentTrials(Trials):
    program = PROGRAM

    def __init__(self):
        super().__init__(1)
        self.cluster.start_controller()

    def run(self, fault):
        cluster, what = self.cluster, f"agent, {fault.name}"
        name, path = self.begin(1)
        node = cluster.names[0]
        cluster.until(lambda: self.submit(path).returncode == 0, 10, f"{what}: it is accepted")
        size = log_size(cluster, f"{node}.log")
        with environment_of(cluster, fault):
            cluster.start_agent(node)
        agent = cluster.agents[node]
        end = time.monotonic() + STRUCK_SECONDS
        while agent.poll() is None and time.monotonic() < end and not self.over(name):
            time.sleep(0.03)
        status = agent.poll()
        if status is None:
            status = end_by_term(agent)
        check_end(status, log_since(cluster, f"{node}.log", size), CODES, what)
        check(fault.failed > 0 or status == 0, f"{what}: it ended with {status}")
        cluster.start_agent(node)
        self.finish(name, path, what, True)
        cluster.until(lambda: cluster.spares() == 1, 20, f"{what}: the node is free again")
        check(end_by_term(cluster.agents[node]) == 0, f"{what}: the next agent's end")


def each_call():
    """each call of an agent fails, once and for ever"""
    fail_calls(AgentTrials, RUNS)


if __name__ == "__main__":
    sys.exit(run_tests([each_call]))
