#!/usr/bin/env python3
"""What the probes of a node find moves a job: a line of the kernel's log, a GPU that is lost, a port
that stays down."""

import shutil
import sys
import time

from cluster_lib import (QUICK, Cluster, check, events, journal, once_each, run_in_cluster, same,
                         starts, stub, wait_closed, wait_step)

NAME = "j"
PORT = "sys/class/infiniband/mlx5_0/ports/1"
XID = "3,{},227986636,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, GPU has fallen off the bus.\n"


class Probed(Cluster):
    """Each node has a kernel log, a port and a driver's library of its own."""

    def own(self, name, path):
        return self.folder / "nodes" / name / path

    def port(self, name, state, phys):
        folder = self.own(name, PORT)
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in (("phys_state", phys), ("state", state)):
            (folder / "new").write_text(text + "\n")
            (folder / "new").rename(folder / file)

    def start_agent(self, name, *flags):
        self.port(name, "4: ACTIVE", "5: LinkUp")
        self.own(name, "kmsg").touch()
        shutil.copy(self.build / "tests/bin/fake_nvml.so", self.own(name, "nvml.so"))
        super().start_agent(name, "--kmsg", str(self.own(name, "kmsg")), "--sysfs",
                            str(self.own(name, "sys")), "--nvml", str(self.own(name, "nvml.so")),
                            "--port-down", "3s", *flags)

    def script(self, name, text):
        """What the library of a node says from now on."""
        (self.own(name, "new")).write_text(text)
        self.own(name, "new").rename(self.own(name, "nvml.so.script"))

    def log(self, name, text):
        with open(self.own(name, "kmsg"), "a", encoding="ascii") as file:
            file.write(text)


def by_the_log(cluster):
    """B12: Xid 79 on one node: the stop within half a second, the node evicted and nobody else"""
    cluster.submit(stub(cluster, NAME, "--steps=90000", "--step-ms=50", "--save-every=20"))
    wait_step(cluster, NAME, 6)
    for name in cluster.names: # where reading begins is remembered from here on
        cluster.log(name, "6,100,5,-;a line of no meaning\n")
    cluster.until(lambda: all("cursor" in cluster.own(name, "state/probes").read_text()
                              for name in cluster.names), 20, "all logs are read")
    victim = cluster.slot_nodes(NAME)[1]
    begin = time.monotonic()
    cluster.log(victim, XID.format(101))
    cluster.until(lambda: cluster.recoveries(NAME), 5, "a recovery", every=0.005)
    took = time.monotonic() - begin
    print(f"         from the line to the stop: {took * 1000:.0f} ms")
    recovery = wait_closed(cluster, NAME)
    same((recovery["cause"], recovery["blamed"], recovery["moved_nodes"]), ("node", [victim], 1),
         "the recovery")
    check(victim not in cluster.slot_nodes(NAME), "it has left the job")
    wait_step(cluster, NAME, cluster.job(NAME)["step"] + 5)
    same(starts(cluster, NAME), once_each((0, 1), 4), "processes started")
    facts = [body for _, _, body in journal(cluster, "fact_kept")]
    check(any(fact.get("signal") == "xid-79" and fact["subject"] == "0000:3b:00" for fact in facts),
          f"the fact with its signal: {facts}")
    check(took < 0.5, f"{took:.3f} s from the line to the stop")


def of_a_program(cluster):
    """a line like it that a program wrote, and an old one said again, change nothing"""
    victim = cluster.slot_nodes(NAME)[0]
    cluster.log(victim, "11,102,5,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=1, injected.\n")
    said = f"{victim}.log"
    cluster.until(lambda: "written by a program" in (cluster.folder / said).read_text(), 10,
                  "the agent shows it")
    step = cluster.job(NAME)["step"]
    wait_step(cluster, NAME, step + 40)
    same(len(cluster.recoveries(NAME)), 1, "recoveries")


def by_the_driver(cluster):
    """a GPU that the driver calls lost: the node evicted within five seconds, the other stays"""
    known = len(cluster.recoveries(NAME))
    victim = cluster.slot_nodes(NAME)[1]
    begin = time.monotonic()
    cluster.script(victim, "lost 1 15\n")
    cluster.until(lambda: len(cluster.recoveries(NAME)) > known, 10, "a recovery", every=0.005)
    took = time.monotonic() - begin
    print(f"         from the driver's word to the stop: {took * 1000:.0f} ms")
    recovery = wait_closed(cluster, NAME, known + 1)
    same((recovery["cause"], recovery["blamed"]), ("node", [victim]), "the recovery")
    facts = [body for _, _, body in journal(cluster, "fact_kept")]
    check(any(fact.get("signal") == "gpu-lost" and fact["gpu"] == 1 and
              fact["subject"] == "0000:3c:00" for fact in facts), f"the GPU is named: {facts}")
    check(took < 5, f"{took:.3f} s")
    wait_step(cluster, NAME, cluster.job(NAME)["step"] + 5)


def port_down(cluster):
    """a port that comes back in time stops nothing; one that stays down ends the attempt"""
    known = len(cluster.recoveries(NAME))
    victim = cluster.slot_nodes(NAME)[0]
    log = cluster.folder / f"{victim}.log"
    cluster.port(victim, "1: DOWN", "3: Disabled")
    cluster.until(lambda: "state=1:DOWN" in log.read_text(), 5, "it is seen")
    cluster.port(victim, "4: ACTIVE", "5: LinkUp")
    step = cluster.job(NAME)["step"]
    wait_step(cluster, NAME, step + 80)
    same(len(cluster.recoveries(NAME)), known, "recoveries")
    cluster.port(victim, "1: DOWN", "3: Disabled")
    cluster.until(lambda: len(cluster.recoveries(NAME)) == known + 1, 10, "the attempt is stopped")
    facts = [body for _, _, body in journal(cluster, "fact_kept")]
    check(any(fact.get("signal") == "port-down" and fact["port"] == 0 for fact in facts),
          f"the port is the evidence: {facts}")
    cluster.port(victim, "4: ACTIVE", "5: LinkUp")
    wait_closed(cluster, NAME, known + 1)
    wait_step(cluster, NAME, cluster.job(NAME)["step"] + 5)


def main():
    with Probed(5, beside=QUICK, probes="kmsg,ports,nvml") as cluster:
        cluster.start()
        result = run_in_cluster([by_the_log, of_a_program, by_the_driver, port_down], cluster)
        if result != 0:
            for row in events(cluster):
                print(row)
        return result


if __name__ == "__main__":
    sys.exit(main())
