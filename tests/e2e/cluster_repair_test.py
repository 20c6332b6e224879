#!/usr/bin/env python3
"""How nodes come back: by the site's hooks and passed checks, by the word of a person, and what is
shown of that."""

import contextlib
import re
import sqlite3
import sys

from cluster_lib import (QUICK, Cluster, check, has_cgroups, run_in_cluster, same, tiny,
                         wait_closed, wait_step)

NAME = "mend"
WAIT = 40


def script(cluster, name, text):
    path = cluster.folder / name
    path.write_text(f"#!/bin/sh\nFOLDER={cluster.folder}\n{text}\n")
    path.chmod(0o755)
    return path


def make_programs(cluster):
    """Hooks that tell what they were given, and a program of the site that likes a node, or not."""
    for hook in ("gpu_reset", "reboot", "diag", "ticket"):
        script(cluster, f"hook-{hook}",
               f'echo "{hook} $1 $2 $KEEPSTEP_REPAIR $KEEPSTEP_LANE ${{KEEPSTEP_INCIDENT:--}}" '
               '>>$FOLDER/hooks.log\n'
               f'[ ! -e $FOLDER/{hook}-fails ] || {{ echo "no way"; exit 3; }}\necho done')
    script(cluster, "fit", 'node=$(cat /proc/$PPID/cmdline | tr "\\0" "\\n" | grep gpu- | head -n 1)\n'
           '[ ! -e $FOLDER/unfit-$node ] || { echo "GPU 1: 12 errors"; exit 2; }\necho all good')


def node_of(cluster, name):
    return cluster.get(f"/v1/nodes/{name}")


def repair_of(cluster, name):
    return node_of(cluster, name)["repair"]


def hooks(cluster, name):
    """What hooks were told of a node, oldest first."""
    path = cluster.folder / "hooks.log"
    lines = path.read_text().splitlines() if path.exists() else []
    return [line.split() for line in lines if line.split()[1] == name]


def rows(cluster, query, *values):
    with contextlib.closing(sqlite3.connect(f"file:{cluster.database}?mode=ro", uri=True)) as db:
        return db.execute(query, values).fetchall()


def describe(cluster, name):
    """What a person reads of a node, without times and its history."""
    text = cluster.cli("describe", "node", name).split("History:")[0]
    return re.sub(r"20\d\d-\d\d-\d\dT[0-9:.]+(Z|[+-]\d\d:?\d\d)", "TIME", text)


def until_repair(cluster, name, state, lane):
    def there():
        repair = repair_of(cluster, name)
        return repair if (repair["state"], repair["lane"]) == (state, lane) else None
    return cluster.until(there, WAIT, f"the repair of {name} is {state}, {lane}")


def until_spare(cluster, name):
    cluster.until(lambda: node_of(cluster, name)["role"] == "spare", WAIT, f"{name} is a spare")


def only_spare(cluster, name):
    """Drains all other spares; they are returned."""
    others = [node["name"] for node in cluster.get("/v1/nodes")["items"]
              if node["role"] == "spare" and node["name"] != name]
    for other in others:
        cluster.cli("drain", other, "--reason", "aside", "-y")
    return others


def lose(cluster, name, recoveries):
    """The whole node dies, and the job goes on without it."""
    cluster.kill_node(name)
    wait_closed(cluster, NAME, recoveries)


def power_cycled(cluster):
    """a node that dies is power-cycled by the hook, and is a spare again once it has passed"""
    cluster.submit(tiny(cluster, NAME, steps=20000, every=40, step_min_ms=20, data=4))
    wait_step(cluster, NAME, 5)
    victim = cluster.victim = cluster.slot_nodes(NAME)[1]
    lose(cluster, victim, 1)
    cluster.until(lambda: hooks(cluster, victim), WAIT, "the hook is started")
    repair = until_repair(cluster, victim, "validating", "reboot")
    same(hooks(cluster, victim), [["reboot", victim, "127.0.0.1", f"{victim}-1", "reboot", "I-0001"]],
         "what the hook was told")
    check("hooks.reboot has ended: done" in repair["text"], repair["text"])
    check("if it fails: diag" in repair["next"], repair["next"])
    check("Repair:       validating, reboot, try 1, for I-0001" in describe(cluster, victim),
          describe(cluster, victim))
    cluster.start_agent(victim)
    until_spare(cluster, victim)
    node = node_of(cluster, victim)
    same((node["life"], node["marks"], node["repair"]["state"]), ("probation", [], "none"), "after")
    check("repaired: reboot, passed its full checks" in node["repair"]["text"], node["repair"])


def same_fault_again(cluster):
    """the same fault within the hour: full checks, which fail, so the next lane; then not this job"""
    victim = cluster.victim
    others = only_spare(cluster, victim)
    holder = cluster.slot_nodes(NAME)[0]
    cluster.cli("drain", holder, "--reason", "make room", "-y", "--when", "now")
    cluster.until(lambda: victim in cluster.slot_nodes(NAME), WAIT, f"{victim} has a slot again")
    wait_closed(cluster, NAME, 2)
    cluster.cli("undrain", ",".join([*others, holder]), "--reason", "back")
    for name in [*others, holder]:
        until_spare(cluster, name)
    (cluster.folder / f"unfit-{victim}").touch()
    lose(cluster, victim, 3)
    until_repair(cluster, victim, "validating", "reboot")
    cluster.start_agent(victim)
    until_repair(cluster, victim, "person", "rma") # diag has ended, and it is unfit still
    same([line[0] for line in hooks(cluster, victim)], ["reboot", "reboot", "diag", "ticket"],
         "hooks")
    log = " ".join(row[0] for row in rows(cluster, "SELECT detail FROM node_log WHERE what = 'repair'"))
    check("after reboot it failed its full checks" in log and "GPU 1: 12 errors" in log, log)
    node = node_of(cluster, victim)
    same((node["state"], node["not_used_by"]), ("drained", [NAME]), "after the ticket")
    check(f"keepstep undrain {victim}" in node["repair"]["next"], node["repair"])


def person_gives_back(cluster):
    """a person gives it back: it must pass in full, or the person vouches for it"""
    victim = cluster.victim
    said = cluster.cli("undrain", victim, "--reason", "riser replaced, DC-4519")
    check("validating (full), then spare" in said, said)
    def failed():
        marks = node_of(cluster, victim)["marks"]
        return [mark["code"] for mark in marks] == ["validation"]
    cluster.until(failed, WAIT, "it fails its checks")
    same(node_of(cluster, victim)["not_used_by"], [], "a person has given it back")
    check("GPU 1: 12 errors" in describe(cluster, victim), describe(cluster, victim))


def failed_checks_are_cleared(cluster):
    """undrain --clear: the mark goes, by whom and why is kept, also over a restart"""
    victim = cluster.victim
    done = cluster.cli("undrain", victim, "--clear", "validation", "--skip-validation", ok=None)
    same(done.returncode, 2, done.stderr)
    check("a reason is required" in done.stderr, done.stderr)
    status, answer, *_ = cluster.request("POST", "/v1/node-actions", {
        "action": "undrain", "nodes": victim, "skip_validation": True})
    same(status, 422, answer)
    cluster.cli("undrain", victim, "--clear", "validation", "--skip-validation",
                "--reason", "the program is wrong")
    until_spare(cluster, victim)
    cluster.kill_controller()
    cluster.start_controller()
    until_spare(cluster, victim)
    same(node_of(cluster, victim)["marks"], [], "marks after the restart")
    audit = rows(cluster, "SELECT actor, reason FROM actions WHERE verb = 'undrain' ORDER BY seq DESC "
                 "LIMIT 1")
    same([row[1] for row in audit], ["the program is wrong"], "the audit")
    check(audit[0][0] != "", audit)
    skipped = [row[0] for row in rows(cluster, "SELECT detail FROM node_log WHERE "
                                      "what = 'validation' ORDER BY seq DESC LIMIT 1")]
    check("skipped by" in skipped[0] and "the program is wrong" in skipped[0], skipped)
    (cluster.folder / f"unfit-{victim}").unlink()


def validated_on_request(cluster):
    """validate: a node without a slot is checked at any time; one that has a slot is not disturbed"""
    victim = cluster.victim
    done = cluster.cli("validate", cluster.slot_nodes(NAME)[0], ok=None)
    same(done.returncode, 4, done.stderr)
    check("holds slot 0" in done.stderr and "drain" in done.stderr, done.stderr)
    said = cluster.cli("validate", victim, "--level", "full")
    check("validating (full)" in said and f"describe node {victim}" in said, said)
    cluster.until(lambda: "passed its full checks: 1 program of the site" in
                  node_of(cluster, victim)["validation"]["text"], WAIT, "it passes")
    until_spare(cluster, victim)
    done = cluster.cli("validate", victim, "--level", "some", ok=None)
    check(done.returncode != 0 and "quick or full" in done.stderr, done.stderr)
    same(len(rows(cluster, "SELECT seq FROM actions WHERE verb = 'validate'")), 1, "audited")


GOLDEN = """\
Name:         NODE
State:        drained, no role, since TIME
Job:          none
Place:        rack RACK, pool -, leaf -, feed -
Address:      127.0.0.1
Agent:        VERSION, incarnation NUMBER
Marks:
  operator/cordon, no-new, by USER since TIME: power work
  operator/drain, leave, by USER since TIME: fan is loud
  health/validation, leave, by keepstep since TIME: failed its full checks: PATH: GPU 1: 12 errors
Repair:       none
Validation:   must pass full, since TIME: failed its full checks: PATH: GPU 1: 12 errors
"""


def each_mark_a_sentence(cluster):
    """describe node: a sentence for each mark, who set it and why, and what is left by an undrain"""
    name = only_spare(cluster, cluster.victim)[0]
    cluster.cli("undrain", name)
    until_spare(cluster, name)
    (cluster.folder / f"unfit-{name}").touch()
    cluster.cli("cordon", name, "--reason", "power work")
    cluster.cli("drain", name, "--reason", "fan is loud", "-y")
    cluster.cli("validate", name, "--level", "full")
    cluster.until(lambda: len(node_of(cluster, name)["marks"]) == 3, WAIT, "it has three marks")
    text = describe(cluster, name).replace(name, "NODE")
    for pattern, word in ((r"rack r\d\d", "rack RACK"), (r"/[^ ]*/fit", "PATH"),
                          (r"by (?!keepstep)[^:]+ since", "by USER since"),
                          (r"(Agent: +)[^,]+, incarnation \d+",
                           r"\1VERSION, incarnation NUMBER")):
        text = re.sub(pattern, word, text)
    same(text.splitlines(), GOLDEN.splitlines(), "what is described")
    said = cluster.cli("undrain", name, "--reason", "quiet again")
    check("still marked, such as" in said and "health/validation" in said, said)
    (cluster.folder / f"unfit-{name}").unlink()
    cluster.cli("undrain", name, "--clear", "validation", "--reason", "GPU 1 replaced")
    until_spare(cluster, name)


XID = "3,{},{},-;NVRM: Xid (PCI:0000:3b:00): {}, pid=4711, name=python3, something broke.\n"


class Logged(Cluster):
    """Each node has a kernel log of its own."""

    def kmsg(self, name):
        return self.folder / "nodes" / name / "kmsg"

    def start_agent(self, name, *flags):
        self.kmsg(name).parent.mkdir(parents=True, exist_ok=True)
        self.kmsg(name).touch()
        super().start_agent(name, "--kmsg", str(self.kmsg(name)), *flags)

    def log(self, name, number, xid):
        with open(self.kmsg(name), "a", encoding="ascii") as file:
            file.write(XID.format(number, number * 1000, xid))


def reset_by_the_hook(cluster):
    """an Xid that a reset mends: evicted, reset, checked, on probation"""
    cluster.submit(tiny(cluster, NAME, steps=20000, every=40, step_min_ms=20, data=4))
    wait_step(cluster, NAME, 5)
    for name in cluster.names: # where reading begins is remembered from here on
        with open(cluster.kmsg(name), "a", encoding="ascii") as file:
            file.write("6,100,5,-;a line of no meaning\n")
    cluster.until(lambda: all("cursor" in (cluster.folder / "nodes" / name / "state/probes")
                              .read_text() for name in cluster.names), 20, "all logs are read")
    victim = cluster.slot_nodes(NAME)[1]
    cluster.log(victim, 101, 48)
    recovery = wait_closed(cluster, NAME, 1)
    same(recovery["blamed"], [victim], "blamed")
    until_repair(cluster, victim, "none", "gpu-reset")
    same(hooks(cluster, victim), [["gpu_reset", victim, "127.0.0.1", f"{victim}-1", "gpu-reset",
                                   "I-0001"]], "what the hook was told")
    until_spare(cluster, victim)
    node = node_of(cluster, victim)
    same((node["life"], node["marks"]), ("probation", []), "after")
    check("passed its quick checks" in node["validation"]["text"], node["validation"])


def sticky_xid_is_cleared(cluster):
    """an Xid that no hook mends waits for a person; cleared by name, audited, over a restart"""
    victim = next(node["name"] for node in cluster.get("/v1/nodes")["items"]
                  if node["role"] == "spare")
    cluster.log(victim, 102, 79)
    repair = until_repair(cluster, victim, "person", "reboot")
    check("no hook for reboot or what follows" in repair["text"], repair)
    same([mark["code"] for mark in node_of(cluster, victim)["marks"]], ["fatal-signal"], "marks")
    cluster.cli("undrain", victim, "--clear", "fatal-signal", "--reason", "riser reseated, DC-12")
    until_spare(cluster, victim)
    check("passed its full checks" in node_of(cluster, victim)["validation"]["text"], "in full")
    cluster.kill_controller()
    cluster.start_controller()
    until_spare(cluster, victim)
    same(node_of(cluster, victim)["marks"], [], "marks after the restart")
    same(rows(cluster, "SELECT reason FROM actions WHERE verb = 'undrain'"),
         [("riser reseated, DC-12",)], "the audit")
    unmarked = rows(cluster, "SELECT detail, actor FROM node_log WHERE what = 'unmark' "
                    "ORDER BY seq DESC LIMIT 1")[0]
    check("health/fatal-signal" in unmarked[0] and unmarked[1] not in ("", "keepstep"), unmarked)


def by_the_log():
    with Logged(4, beside={**QUICK, "timing.repair_wait": "500ms"}, probes="kmsg") as cluster:
        make_programs(cluster)
        cluster.beside["hooks.gpu_reset"] = cluster.folder / "hook-gpu_reset"
        cluster._write_config()
        cluster.start()
        return run_in_cluster([reset_by_the_hook, sticky_xid_is_cleared], cluster)


def by_silence():
    with Cluster(4, beside={**QUICK, "timing.repair_wait": "500ms"}) as cluster:
        make_programs(cluster)
        cluster.beside.update({f"hooks.{hook}": cluster.folder / f"hook-{hook}"
                               for hook in ("reboot", "diag", "ticket")})
        cluster._write_config()
        cluster.agent_flags = ("--validate-programs", str(cluster.folder / "fit"))
        cluster.start()
        return run_in_cluster([power_cycled, same_fault_again, person_gives_back,
                               failed_checks_are_cleared, validated_on_request,
                               each_mark_a_sentence], cluster)


def main():
    status = by_the_log()
    if has_cgroups():
        return max(status, by_silence())
    print("skipped: no cgroups, a node that died cannot prove itself empty", flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
