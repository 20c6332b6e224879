#!/usr/bin/env python3
"""Programs without the library, whose steps are read from what they print (hang.log_pattern): steps
and lost steps are known, a program that prints nothing any more is found, and one whose output nobody
reads just now is not."""

import sys
import time

from cluster_lib import (QUICK, Cluster, all_usable, run_in_cluster, same, spec_of,
                         wait_over, wait_step)

# Rank 0 alone prints. What it prints around the steps is what outputs have in them: bytes that are no
# text, a line without end, a bar that is drawn over itself.
SCRIPT = r"""
i=0
while [ $i -lt 60 ]; do
    i=$((i + 1))
    sleep 0.1
    if [ $RANK = 0 ]; then
        case $i in
        7) head -c 200000 /dev/urandom ;;
        8) head -c 200000 /dev/zero ;;
        esac
        printf '\r iteration %8d/      60 | loss 1.0\n' $i
    fi
    if [ $TORCHELASTIC_RESTART_COUNT = 0 ] && [ $i = HANGS_AT ]; then
        sleep 1000
    fi
done
"""
PATTERN = r"log_pattern: 'iteration\s+(\d+)/'"


def script(cluster, name, hangs_at=0):
    command = ["/bin/sh", "-c", SCRIPT.replace("HANGS_AT", str(hangs_at))]
    return spec_of(cluster, name, command, more=f"hang: {{step_timeout: 2s, {PATTERN}}}")


def rank_views(cluster, name):
    return {one["rank"]: (one["step_from"], one["step"])
            for one in cluster.get(f"/v1/jobs/{name}/ranks")["items"]}


def plain_hang(cluster):
    """a program that prints its steps hangs: found, started again, and the lost steps are known"""
    name = "prints"
    cluster.submit(script(cluster, name, hangs_at=30))
    wait_step(cluster, name, 30)
    views = rank_views(cluster, name)
    same(views[0], ("log", 30), "what is known of rank 0")
    same({view for rank, view in views.items() if rank > 0}, {(None, 0)}, "of the others")
    job = wait_over(cluster, name)
    same((job["state"], job["attempt"]), ("succeeded", 1), f"the job: {job['reason']}")
    recovery = cluster.recoveries(name)[0]
    same((recovery["cause"], recovery["outcome"]), ("hang", "recovered"), "the recovery")
    same((recovery["last_step"], recovery["lost_steps"]), (30, 30), "steps")
    print(f"         recovered in {recovery['took_ms'] / 1000:.1f} s")


def agent_away(cluster):
    """the agent that reads dies: no hang, and the next one reads on"""
    all_usable(cluster)
    name = "unread"
    cluster.submit(script(cluster, name))
    wait_step(cluster, name, 3)
    node = cluster.slot_nodes(name)[0]
    cluster.agents[node].kill()
    cluster.agents[node].wait()
    time.sleep(2.5)  # longer than step_timeout
    seen = cluster.job(name)["step"]
    cluster.start_agent(node)
    wait_step(cluster, name, seen + 15)
    job = wait_over(cluster, name)
    same((job["state"], job["attempt"]), ("succeeded", 0), f"the job: {job['reason']}")


if __name__ == "__main__":
    with Cluster(2, start_grace="300ms", beside=QUICK) as the_cluster:
        the_cluster.start()
        sys.exit(run_in_cluster([plain_hang, agent_away], the_cluster))
