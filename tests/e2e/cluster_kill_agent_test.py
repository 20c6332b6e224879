#!/usr/bin/env python3
"""kill -9 of agents around their own records, while a job starts, loses a rank, recovers and ends:
the same end as undisturbed, nothing started twice. Ranks are their shim's, so they live on."""

import sys

from cluster_lib import (ALL, QUICK, Cluster, check, journal, once_each, run_tests, same, show,
                         signal, starts, tiny, weights)

JOB = "j"
FIRST = "gpu-0001"   # runs ranks 0 and 1: the rendezvous, the saves
CRASHES = "gpu-0003" # runs ranks 2 and 3: one of them crashes
WATCHED = ("slot_taken", "attempt_made", "launch_ordered", "recovery_closed", "node_lost",
           "mark_added")


def own_records(cluster, name):
    """The records in an agent's journal, as lists of words."""
    path = cluster.folder / "nodes" / name / "state" / "agent.journal"
    return [line.split()[1:] for line in path.read_text().splitlines()[1:]]


def forgotten(cluster):
    kinds = [[words[0] for words in own_records(cluster, name)] for name in (FIRST, CRASHES)]
    return all(found.count("forget") == 2 for found in kinds)


def reaches(cluster, name, crash):
    """Whether the agent's journal has come to the record to die at. How many records there are in
    all depends on how often its list of peers changed."""
    return len(own_records(cluster, name)) >= int(crash.split(":")[1])


def scenario(crashes):
    """Runs it with {node: when:n} to die at; each agent is started again whenever it died."""
    deaths = {name: 0 for name in crashes}

    def all_died(cluster):
        return all(deaths[name] or not reaches(cluster, name, crash)
                   for name, crash in crashes.items())
    with Cluster(5, start_grace="300ms", beside=QUICK) as cluster:
        def revive():
            for name, agent in cluster.agents.items():
                if agent.poll() is not None:
                    same(agent.returncode, -signal.SIGKILL,
                         f"{name}: {cluster.tail(name + '.log')}")
                    deaths[name] += 1
                    cluster.start_agent(name)
            return True

        try:
            cluster.start_controller()
            for name in cluster.names:
                drill = ["--crash-at", crashes[name]] if name in crashes else []
                cluster.start_agent(name, *drill)
            cluster.until(lambda: revive() and cluster.spares() == 5, 20, "all nodes are ready")
            cluster.submit(tiny(cluster, JOB, steps=14, every=4,
                                extra=["--inject", "crash@10:rank=3:attempt=0"]))
            cluster.until(lambda: revive() and (cluster.job(JOB) or {}).get("state") in
                          ("succeeded", "failed"), 60, "the job is over")
            cluster.until(lambda: revive() and cluster.spares() == 5, 20, "all nodes are free")
            # The last records, that old attempts are forgotten, come a little after the end.
            cluster.until(lambda: revive() and forgotten(cluster) and all_died(cluster), 15,
                          f"agents have died ({deaths}) and forgotten the attempts")
            kinds = [kind for kind, _, _ in journal(cluster, *WATCHED)]
            own = {name: len(own_records(cluster, name)) for name in (FIRST, CRASHES)}
            due = {name: int(reaches(cluster, name, crash)) for name, crash in crashes.items()}
            return {"deaths": deaths, "due": due, "starts": starts(cluster, JOB),
                    "job": cluster.job(JOB),
                    "weights": weights(cluster, JOB), "records": kinds,
                    "own": own}
        except BaseException:
            show(cluster)
            raise


def compare(crashes, undisturbed):
    seen = scenario(crashes)
    same(seen["deaths"], seen["due"], f"{crashes}: deaths of agents")
    same(seen["starts"], once_each((0, 1), 8), f"{crashes}: processes started")
    same(seen["job"]["state"], "succeeded", f"{crashes}: the job")
    same(seen["weights"], undisturbed["weights"], f"{crashes}: weights")
    for kind in WATCHED:
        same(seen["records"].count(kind), undisturbed["records"].count(kind), f"{crashes}: {kind}")


def main():
    undisturbed = {}

    def quiet_run():
        """an undisturbed run: a rank crashes once, the job recovers and succeeds"""
        undisturbed.update(scenario({}))
        same(undisturbed["starts"], once_each((0, 1), 8), "processes started")
        same(undisturbed["job"]["state"], "succeeded", "the job")
        same(undisturbed["records"].count("node_lost"), 0, "nodes lost")

    code = run_tests([quiet_run])
    if code != 0:
        return code
    count = min(undisturbed["own"].values())
    check(count >= 8, f"{undisturbed['own']} records of the agents")

    def at(number):
        def test():
            compare(crashes, undisturbed)
        # two agents in one run: one dies before its record, the other after the mirrored one
        crashes = {FIRST: f"before:{number}", CRASHES: f"after:{count + 1 - number}"}
        if number % 2 == 0:
            crashes = {FIRST: f"after:{number}", CRASHES: f"before:{count + 1 - number}"}
        test.__doc__ = "agents die, " + ", ".join(f"{name} {when}" for name, when in
                                                  crashes.items()) + f" of {count} (Done 2)"
        return test

    def alone(name, when, number):
        def test():
            compare({name: f"{when}:{number}"}, undisturbed)
        test.__doc__ = f"the agent of {name} dies {when} record {number} (Done 2)"
        return test

    tests = [at(number) for number in range(1, count + 1)]
    if ALL:
        tests += [alone(name, when, number) for name in (FIRST, CRASHES)
                  for number in range(1, count + 1) for when in ("before", "after")]
    return run_tests(tests)


if __name__ == "__main__":
    sys.exit(main())
