"""network.py: a cluster whose nodes have a network of their own, so that a host can fall silent.

Each node lives in a network namespace with one address on a bridge; the controller sits at the
bridge. A silent host neither answers nor closes anything: its packets are dropped, its processes
live on. Needs root, `ip` and `iptables`; the namespaces are removed with the cluster.
"""

import itertools
import os
import shutil
import subprocess

from .cluster import Cluster

NUMBERS = itertools.count(1)  # of the networks of this process
SUBNET = "10.77.0"
CONTROLLER_HOST = 254


def run(*words, text=None):
    done = subprocess.run(words, input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OSError(f"{' '.join(words)}: {done.stderr.strip()}")


def missing():
    """Why no such network can be made here; None when it can."""
    if os.getuid() != 0:
        return "network namespaces need root"
    for program in ("ip", "nsenter", "iptables-restore"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    name = f"ks-{os.getpid()}-try-{next(NUMBERS)}"
    try:
        run("ip", "netns", "add", name)
    except OSError as error:
        return f"no network namespace can be made: {error}"
    try:
        policy(name, "ACCEPT")
    except OSError as error:
        return f"no packet filter: {error}"
    finally:
        run("ip", "netns", "del", name)
    return None


def policy(space, word):
    """What becomes of all packets of a namespace, at one moment: ACCEPT or DROP."""
    run("nsenter", f"--net=/run/netns/{space}", "iptables-restore",
        text=f"*filter\n:INPUT {word} [0:0]\n:OUTPUT {word} [0:0]\nCOMMIT\n")


class NetworkCluster(Cluster):
    """A Cluster whose nodes are at 10.77.0.1, 10.77.0.2, … and can be cut off."""

    def __init__(self, nodes, **more):
        super().__init__(nodes, **more)
        self.tag = f"ks-{os.getpid()}-{next(NUMBERS)}"
        self.made = []
        try:
            self._connect()
        except OSError:
            self._disconnect()
            raise

    def space(self, name):
        """The namespace of a node; of the controller for None."""
        return f"{self.tag}-{0 if name is None else self.names.index(name) + 1}"

    def address(self, name):
        return f"{SUBNET}.{CONTROLLER_HOST if name is None else self.names.index(name) + 1}"

    def inside(self, name):
        return ["nsenter", f"--net=/run/netns/{self.space(name)}"]

    def _add(self, name):
        run("ip", "netns", "add", self.space(name))
        self.made.append(self.space(name))
        run("ip", "-n", self.space(name), "link", "set", "lo", "up")

    def _connect(self):
        hub = self.space(None)
        self._add(None)
        run("ip", "-n", hub, "link", "add", "hub", "type", "bridge")
        run("ip", "-n", hub, "address", "add", f"{self.address(None)}/24", "dev", "hub")
        run("ip", "-n", hub, "link", "set", "hub", "up")
        for number, name in enumerate(self.names, 1):
            self._add(name)
            run("ip", "-n", hub, "link", "add", f"port{number}", "type", "veth",
                "peer", "name", "eth0", "netns", self.space(name))
            run("ip", "-n", hub, "link", "set", f"port{number}", "master", "hub", "up")
            run("ip", "-n", self.space(name), "address", "add", f"{self.address(name)}/24",
                "dev", "eth0")
            run("ip", "-n", self.space(name), "link", "set", "eth0", "up")

    def _disconnect(self):
        for space in self.made:
            run("ip", "netns", "del", space)
        self.made = []

    # An address that is not loopback needs a key or this word.

    def start_controller(self, *flags, **more):
        super().start_controller("--insecure", *flags, **more)

    def start_agent(self, name, *flags):
        super().start_agent(name, "--insecure", *flags)

    def silence(self, name):
        """From now on the host of this node answers nothing."""
        policy(self.space(name), "DROP")

    def heal(self, name):
        policy(self.space(name), "ACCEPT")

    def close(self):
        super().close()
        self._disconnect()
