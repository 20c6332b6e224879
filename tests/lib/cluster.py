"""cluster.py: a real Keepstep cluster on this machine, for the demo and the end-to-end tests.

Every daemon is a real process in a process group of its own; nodes differ by name, state folder and
peer port on loopback. Only the standard library is used. Paths live under one temporary folder that
`Cluster.close()` removes; processes are ended by the pids that this module started, and ranks by the
cookie that names their own state folder.
"""

import contextlib
import fcntl
import http.client
import itertools
import json
import os
import pathlib
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def build_dir():
    """The folder with the programs: KEEPSTEP_BUILD, else build/ of this tree."""
    return pathlib.Path(os.environ.get("KEEPSTEP_BUILD", ROOT / "build")).resolve()


PORT_LOCKS = []  # of this process, as long as it lives


def own_ports():
    """Ports below those that the kernel gives out: a hundred that no other test has, then any. A node
    that is killed comes back to its port, so nobody else may begin with it meanwhile."""
    blocks = [(os.getpid() + i) % 90 for i in range(90)]
    for block in blocks:
        lock = open(pathlib.Path(tempfile.gettempdir()) / f"keepstep-ports.{os.getuid()}.{block}",
                    "w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            continue
        PORT_LOCKS.append(lock)
        break
    else:
        block = blocks[0]
    first = 10000 + block * 100
    return itertools.chain(range(first, 20000), itertools.cycle(range(10000, 20000)))


OWN_PORTS = own_ports()


def free_ports(count):
    """Ports that were free a moment ago and that nobody gets by chance, as a list of ints."""
    ports = []
    while len(ports) < count:
        port = next(OWN_PORTS)
        with socket.socket() as one, contextlib.suppress(OSError):
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.bind(("127.0.0.1", port))
            ports.append(port)
    return ports


def has_cgroups():
    """Whether ranks get a cgroup, which alone proves that nothing is left when their shim died."""
    places = ("/sys/fs/cgroup/unified", "/sys/fs/cgroup")
    return os.getuid() == 0 and any(os.path.exists(f"{place}/cgroup.controllers") and
                                    os.access(f"{place}/cgroup.procs", os.W_OK) for place in places)


class UnixConnection(http.client.HTTPConnection):
    """HTTP over the controller's Unix socket."""

    def __init__(self, path, timeout=10):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Timeout(Exception):
    """Something did not happen in time; the text says what."""


class Cluster:
    """A controller and its agents. Nodes are gpu-0001 … gpu-NNNN, two to a rack."""

    def __init__(self, nodes, folder=None, ranks_per_node=2, start_grace="1s", beside=None,
                 agent_flags=(), probes="none"):
        self.owned = folder is None
        self.folder = pathlib.Path(folder or tempfile.mkdtemp(prefix="ks-"))
        self.folder.mkdir(parents=True, exist_ok=True)
        self.build = build_dir()
        self.ranks_per_node = ranks_per_node
        self.start_grace = start_grace
        self.beside = beside or {}
        self.agent_flags = agent_flags
        self.probes = probes # those that look at this machine are not each test's affair
        self.agent_port, *self.peer_ports = free_ports(nodes + 1)
        self.socket = str(self.folder / "api.sock")
        self.database = self.folder / "keepstep.db"
        self.controller = None
        self.environment = None # of daemons that are started from now on; None: ours
        self.agents = {}
        self.names = [f"gpu-{i + 1:04d}" for i in range(nodes)]
        self._write_config()

    # ---- daemons -------------------------------------------------------------------------------

    # A cluster whose nodes have networks of their own, or whose agents dial a proxy, overrides
    # these; name None is the controller.

    def address(self, name):
        """Where a node, or the controller, is reached."""
        return "127.0.0.1"

    def dials(self, name):
        """What a node's agent dials to reach the controller."""
        return f"{self.address(None)}:{self.agent_port}"

    def inside(self, name):
        """Words before a daemon's command that bring it into its network."""
        return []

    def _write_config(self):
        keys = {"timing.start_grace": self.start_grace, **self.beside}
        tree = {}
        for path, value in keys.items():
            group, key = path.split(".")
            tree.setdefault(group, {})[key] = value
        lines = []
        for group, values in tree.items():
            lines.append(f"{group}:")
            lines += [f"  {key}: {value}" for key, value in values.items()]
        (self.folder / "controller.yaml").write_text("\n".join(lines) + "\n")

    def start_controller(self, *flags, wait=True):
        """Starts the controller; flags such as --crash-at=after:12."""
        log = open(self.folder / "controller.log", "ab")
        self.controller = subprocess.Popen(
            [*self.inside(None), str(self.build / "keepstep-controller"),
             "--config", str(self.folder / "controller.yaml"), "--database", str(self.database),
             "--listen-agents", f"{self.address(None)}:{self.agent_port}",
             "--listen-rest", "", "--listen-socket", self.socket, *flags],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            env=self.environment)
        log.close()
        if wait:
            self.until(lambda: self._alive() and self.get("/v1/version"), 10,
                       "the controller answers")

    def _alive(self):
        if self.controller.poll() is not None:
            raise Timeout(f"the controller ended with {self.controller.returncode}: "
                          + self.tail("controller.log"))
        return True

    def tail(self, name, size=2000):
        """The end of a log file, for error texts."""
        with contextlib.suppress(OSError):
            return (self.folder / name).read_bytes()[-size:].decode(errors="replace")
        return ""

    def start_agent(self, name, *flags):
        """Starts (or starts again) the agent of a node."""
        index = self.names.index(name)
        state = self.folder / "nodes" / name
        state.mkdir(parents=True, exist_ok=True)
        log = open(self.folder / f"{name}.log", "ab")
        self.agents[name] = subprocess.Popen(
            [*self.inside(name), str(self.build / "keepstep-agent"), "--node", name,
             "--controller", self.dials(name),
             "--state", str(state / "state"), "--run", str(state / "run"),
             "--peer-listen", f"{self.address(name)}:{self.peer_ports[index]}",
             "--address", self.address(name), "--rack", f"r{index // 2 + 1:02d}",
             "--gpus", str(self.ranks_per_node), "--shim", str(self.build / "keepstep-ranks"),
             "--probes", self.probes, *self.agent_flags, *flags],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            env=self.environment)
        log.close()

    def start(self):
        """Controller and all agents, until every node is a ready spare."""
        self.start_controller()
        for name in self.names:
            self.start_agent(name)
        self.until(lambda: self.spares() == len(self.names), 20, "all nodes are ready")

    # ---- looking -------------------------------------------------------------------------------

    def request(self, method, path, body=None, headers=None):
        """(status, parsed body or text); raises OSError when nobody answers."""
        connection = UnixConnection(self.socket)
        try:
            data = body if isinstance(body, (bytes, str)) or body is None else json.dumps(body)
            connection.request(method, path, data, headers or {})
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        with contextlib.suppress(ValueError):
            return answer.status, json.loads(text)
        return answer.status, text.decode(errors="replace")

    def get(self, path):
        """The body of a GET, or None when the controller does not answer 200."""
        try:
            status, body = self.request("GET", path)
        except (OSError, http.client.HTTPException):
            return None
        return body if status == 200 else None

    def spares(self):
        answer = self.get("/v1/spares")
        return answer["items"][0]["ready"] if answer else -1

    def job(self, name):
        return self.get(f"/v1/jobs/{name}")

    def recoveries(self, name):
        answer = self.get(f"/v1/recoveries?job={name}")
        return answer["items"] if answer else []

    def slot_nodes(self, name):
        """Names of the nodes that hold slots 0, 1, …"""
        answer = self.get(f"/v1/jobs/{name}/layout")
        return answer["node"] if answer else []

    @staticmethod
    def until(test, seconds, what, every=0.02):
        """Waits until test() is true and returns its value; Timeout otherwise."""
        end = time.monotonic() + seconds
        while True:
            value = test()
            if value:
                return value
            if time.monotonic() >= end:
                raise Timeout(f"not within {seconds} s: {what}")
            time.sleep(every)

    def until_state(self, name, state, seconds):
        return self.until(lambda: (self.job(name) or {}).get("state") == state, seconds,
                          f"{name} is {state} (now {self.job(name) and self.job(name)['state']})")

    # ---- doing ---------------------------------------------------------------------------------

    def cli(self, *words, ok=(0,)):
        """Runs `keepstep`; returns its stdout; AssertionError on another exit code."""
        done = subprocess.run([str(self.build / "keepstep"), "-s", f"unix:{self.socket}", "-y",
                               *words],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
        if ok is not None and done.returncode not in ok:
            raise AssertionError(f"keepstep {' '.join(words)}: exit {done.returncode}\n"
                                 f"{done.stdout}{done.stderr}")
        return done.stdout if ok is not None else done

    def submit(self, spec):
        """Submits a job given as YAML text; returns its name."""
        path = self.folder / "job.yaml"
        path.write_text(spec)
        return self.cli("submit", str(path), "-o", "name").strip()

    def rank_pids(self, name):
        """Pids of the ranks on a node: {global rank: pid}, by the environment they were given."""
        mark = f"KEEPSTEP_NODE={name}".encode()
        own = str(self.folder).encode()
        found = {}
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            with contextlib.suppress(OSError):
                environ = (entry / "environ").read_bytes()
                words = environ.split(b"\0")
                if mark in words and own in environ:
                    rank = next((w for w in words if w.startswith(b"RANK=")), None)
                    if rank is not None:
                        found[int(rank[5:])] = int(entry.name)
        return found

    def node_pids(self, name):
        """Everything of a node: agent, shims, ranks."""
        pids = list(self.rank_pids(name).values())
        state = str(self.folder / "nodes" / name).encode()
        for entry in pathlib.Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    line = (entry / "cmdline").read_bytes()
                    if line and state in line and int(entry.name) not in pids:
                        pids.append(int(entry.name))
        return pids

    def kill_node(self, name):
        """kill -9 of a whole node, at one moment: agent, shims and ranks."""
        pids = self.node_pids(name)
        for pid in pids: # stopped first, so that nobody of them sees another one die
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        agent = self.agents.get(name)
        if agent is not None:
            agent.wait()
        return pids

    def vouch(self):
        """Where nothing proves that a node is empty whose shim was killed, an operator says so."""
        for node in [] if has_cgroups() else self.get("/v1/nodes")["items"]:
            marks = [mark["text"] for mark in node["marks"] if mark["code"] == "unproven"]
            if node["connected"] and marks and "vouched" not in marks[0]:
                self.cli("undrain", node["name"], "--clear", "unproven", "--reason", "I looked")

    def kill_controller(self):
        self.controller.kill()
        self.controller.wait()

    def close(self):
        """Ends everything that this cluster started and removes its folder."""
        for process in [*self.agents.values(), self.controller]:
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()
        end = time.monotonic() + 10
        while time.monotonic() < end:
            left = [pid for name in self.names for pid in self.node_pids(name)]
            if not left:
                break
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)
        if self.owned:
            shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def whoami():
    return pwd.getpwuid(os.getuid()).pw_name


def trainer_spec(cluster, name="demo", data=8, steps=150, folder=None, extra=(), seed=1,
                 every=20, step_min_ms=100, more="", tensor=1, pipeline=1):
    """YAML of a job that runs the reference trainer, tensor x pipeline x data ranks of it, on the
    licence texts that Debian ships."""
    folder = pathlib.Path(folder or cluster.folder / "ckpt")
    folder.mkdir(parents=True, exist_ok=True)
    text = "/usr/share/common-licenses"
    words = [str(cluster.build / "keepstep-trainer"), "--text", text, "--steps", str(steps),
             "--seed",
             str(seed), "--step-min-ms", str(step_min_ms), "--checkpoint-dir", "{checkpoint.dir}",
             "--checkpoint-every", str(every), *map(str, extra)]
    root = "true" if os.getuid() == 0 else "false"
    return f"""name: {name}
run:
  command: {json.dumps(words)}
  workdir: {folder}
  user: {whoami()}
  allow_root: {root}
layout: {{tensor: {tensor}, pipeline: {pipeline}, data: {data}, ranks_per_node: {cluster.ranks_per_node}}}
checkpoint: {{dir: {folder}, drain_wait: 20s}}
signals: {{stop_grace: 5s, recovery_grace: 2s}}
{more}"""
