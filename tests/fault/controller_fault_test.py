#!/usr/bin/env python3
"""A controller of which one call fails, while a job is submitted, starts, loses a rank, recovers
and ends: it goes on or ends with its reason; the next one loses nothing and starts nothing twice."""

import sys
import time

from fault_lib import check, check_end, run_tests, same

from daemon_lib import (STRUCK_SECONDS, Trials, end_by_term, environment_of, fail_calls,
                        log_since, log_size)

PROGRAM = "keepstep-controller"
CODES = (0, 1, 2, 3, 4) # done, failed, limits, ports, database
NODES = 2
RUNS = {"memory": 5, "file": 3, "socket": 4, "open": 3}


class ControllerTrials(Trials):
    program = PROGRAM

    def __init__(self):
        super().__init__(NODES)
        for name in self.cluster.names:
            self.cluster.start_agent(name)

    def run(self, fault):
        cluster, what = self.cluster, f"controller, {fault.name}"
        name, path = self.begin(NODES)
        acknowledged = self.struck(fault, name, path, what)
        cluster.start_controller()
        cluster.until(lambda: cluster.get("/v1/version"), 10, f"{what}: the next one answers")
        self.finish(name, path, what, acknowledged)
        same(end_by_term(cluster.controller), 0, f"{what}: the next controller's end")
        self.judge_journal(what)

    def struck(self, fault, name, path, what):
        """A controller with the fault does what it can; whether it said yes to the job."""
        cluster, size, acknowledged = self.cluster, log_size(self.cluster, "controller.log"), False
        with environment_of(cluster, fault):
            cluster.start_controller(wait=False)
        controller = cluster.controller
        end = time.monotonic() + STRUCK_SECONDS
        while controller.poll() is None and time.monotonic() < end and not self.over(name):
            acknowledged = acknowledged or self.submit(path).returncode == 0
            time.sleep(0.03)
        status = controller.poll()
        if status is None:
            status = end_by_term(controller)
        check_end(status, log_since(cluster, "controller.log", size), CODES, what)
        check(fault.failed > 0 or status == 0, f"{what}: it ended with {status}")
        return acknowledged


def each_call():
    """each call of a controller fails, once and for ever"""
    fail_calls(ControllerTrials, RUNS)


if __name__ == "__main__":
    sys.exit(run_tests([each_call]))
