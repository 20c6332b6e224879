"""Incidents made from a seed, for diagnose_incident_test.py: one function for each kind.

Each draws its own nodes, devices, carriers, spellings and times, and says what a person on call would
say: (fault owner, action, nodes). Lines of followers and of boots are mixed in everywhere; log lines
carry the stamps of clocks that are wrong; rows are given in any order.
"""
import random

STAGES, REPLICAS, PER_NODE = 16, 128, 8
NODES = STAGES * REPLICAS
MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
PROGRAMS = ["python3", "pt_main_thread", "train.3", "KMS thread", "ray::Worker"]
RESET, REBOOT = "evict_node_gpu_reset", "evict_node_reboot"
DIAG, RMA = "evict_node_diag", "evict_node_rma"


class Incident:
    """Rows of one incident, with what stands in front of log lines."""

    def __init__(self, seed):
        self.draw = random.Random(seed)
        self.rows = []
        # seconds by which the clock of each node is wrong
        self.skew = {}

    # ---- rows ----

    def row(self, t, node, stream, line):
        self.rows.append((max(0, int(t)), node, stream, line))

    def jitter(self, most=30):
        return self.draw.uniform(0, most)

    def stamp(self, t, node):
        """Seconds of the day by the node's own clock, which proves nothing."""
        skew = self.skew.setdefault(node, self.draw.choice([0, 0, -4.2, 7.5, -3600, 3600.1]))
        return (36000 + t / 1000 + skew) % 86400

    def kernel(self, t, node, message):
        seconds = self.stamp(t, node)
        clock = "%02d:%02d:%02d" % (seconds // 3600, seconds // 60 % 60, seconds % 60)
        front = self.draw.choice([
            "", "", "kernel: ", "[%12.6f] " % (seconds + 5000),
            "kernel: [%12.6f] " % (seconds + 5000),
            "[Sun %s %2d %s 2025] " % (self.draw.choice(MONTHS), self.draw.randint(1, 28), clock),
            "%s %2d %s %s kernel: " % (self.draw.choice(MONTHS), self.draw.randint(1, 28), clock,
                                       node),
            "%d,%d,%d,-;" % (self.draw.randint(0, 7), self.draw.randint(1, 99999),
                             int(seconds * 1e6)),
            "kern  :warn  : 2025-01-21T%s,283302+00:00 " % clock,
        ])
        self.row(t, node, "kmsg", front + message)

    def program(self, t, node, message):
        front = self.draw.choice(["", "", "[rank%d]: " % self.rank_on(node),
                                  "%d: " % self.draw.randint(0, 7)])
        self.row(t, node, "stderr", front + message)

    def agent(self, t, node, line):
        self.row(t, node, "agent", line)

    def ctl(self, t, line, node="ctl"):
        self.row(t, node, "ctl", line)

    # ---- names ----

    def nodes(self, count):
        """Different nodes, no two of them in one rack."""
        racks = self.draw.sample(range(NODES // 8), count)
        return ["node%04d" % (rack * 8 + self.draw.randrange(8)) for rack in racks]

    def node(self):
        return self.nodes(1)[0]

    def rank_on(self, node):
        if not node.startswith("node"):
            return self.draw.randrange(NODES * PER_NODE)
        return int(node[4:]) * PER_NODE + self.draw.randrange(PER_NODE)

    def pci(self):
        return "%04x:%02x:%02x" % (self.draw.choice([0, 0, 0, 1, 24]), self.draw.randrange(1, 256),
                                   self.draw.choice([0, 0, 1]))

    def address(self, node):
        number = int(node[4:])
        return "10.%d.%d.%d" % (self.draw.randint(0, 99), number // 100, number % 100)

    def pid(self):
        pid = self.draw.choice(["<unknown>", "'<unknown>'", str(self.draw.randrange(400, 4194303))])
        if "unknown" in pid:
            return "pid=%s, name=%s" % (pid, self.draw.choice(["<unknown>", "'<unknown>'"]))
        return "pid=%s, name=%s" % (pid, self.draw.choice(PROGRAMS))

    # ---- lines ----

    def xid(self, t, node, code, text, pci=None):
        pci = pci or self.pci()
        form = self.draw.choice(["NVRM: Xid (PCI:%s): %d, %s, %s", "NVRM: Xid (PCI:%s): %d, %s, %s",
                                 "NVRM: Xid (PCI:%s.0): %d, %s, %s"])
        self.kernel(t, node, form % (pci, code, self.pid(), text))
        return pci

    def recovery(self, t, node, value, pci):
        words = ["None", "GPU Reset Required", "Node Reboot Required", "Drain P2P",
                 "Drain and Reset"]
        self.kernel(t, node, "NVRM: Xid (PCI:%s): 154, GPU recovery action changed from 0x0 (None) "
                    "to 0x%x (%s)" % (pci, value, words[value]))

    def preempted(self, t, node):
        self.xid(t, node, 45, "Ch %08x" % self.draw.randrange(64))

    def closed(self, t, node, peer):
        self.program(t, node, "%s:%d:%d [%d] misc/socket.cc:%d NCCL WARN socketProgress: Connection "
                     "closed by remote peer %s%s<%d>" %
                     (node, self.draw.randrange(1, 9999), self.draw.randrange(1, 9999),
                      self.draw.randrange(8), self.draw.randrange(40, 900), peer,
                      self.draw.choice([".ib", "", ".cluster.local"]),
                      self.draw.randrange(1024, 65535)))

    def retries(self, t, node, peer):
        wording = self.draw.choice([
            "Got completion from peer %s<%d> with status=12 opcode=0 len=0 vendor err 129 (%s)",
            "Got completion from peer %s<%d> with error 12, opcode 0, len 0, vendor err 129 (%s)",
        ]) % (self.address(peer), self.draw.randrange(1024, 65535),
              self.draw.choice(["Send", "Recv"]))
        self.program(t, node, "transport/net_ib.cc:%d NCCL WARN NET/IB : %s" %
                     (self.draw.randrange(200, 2000), wording))

    def watchdog(self, t, node, sequence, operation, rank=None, group=None):
        rank = self.rank_on(node) if rank is None else rank
        front = "[Rank %d]" % rank if group is None else "[PG ID %d PG GUID %d(g) Rank %d]" % (
            group, group, rank)
        self.row(t, node, "stderr",
                 "[rank%d]:[E ProcessGroupNCCL.cpp:%d] %s Watchdog caught collective operation "
                 "timeout: WorkNCCL(SeqNum=%d, OpType=%s, NumelIn=%d, NumelOut=1, "
                 "Timeout(ms)=600000) ran for %d milliseconds before timing out." %
                 (rank, self.draw.randrange(500, 2000), front, sequence, operation,
                  self.draw.randrange(1, 9999), self.draw.randrange(600000, 601000)))

    def noise(self, near=None):
        """Lines that mean nothing, on any node and at any time."""
        for _ in range(self.draw.randrange(6)):
            node = self.draw.choice(near) if near and self.draw.random() < 0.5 else self.node()
            t = self.jitter(8000)
            kind = self.draw.randrange(6)
            if kind == 0:
                self.kernel(t, node, "perf: interrupt took too long (%d > %d), lowering "
                            "kernel.perf_event_max_sample_rate to %d" %
                            (self.draw.randrange(2500, 9000), 2500, self.draw.randrange(9000, 90000)))
            elif kind == 1:
                self.kernel(t, node, "mlx5_core 0000:%02x:00.0: mlx5_pcie_event:299:(pid %d): "
                            "Detected insufficient power on the PCIe slot (27W)." %
                            (self.draw.randrange(256), self.draw.randrange(1, 99999)))
            elif kind == 2:
                self.program(t, node, "%s:%d:%d [%d] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; "
                             "OOB eth0:10.9.%d.%d<0>" %
                             (node, self.draw.randrange(9999), self.draw.randrange(9999),
                              self.draw.randrange(8), self.draw.randrange(255),
                              self.draw.randrange(255)))
            elif kind == 3:
                self.kernel(t, node, "NVRM: Xid (%s): 14, Channel %08x" %
                            (self.pci(), self.draw.randrange(99)))
            elif kind == 4:
                self.program(t, node, " iteration %8d/  115311 | elapsed time per iteration (s): "
                             "%.2f | lm loss: %.6fE+00 | grad norm: %.3f |" %
                             (self.draw.randrange(115311), self.draw.uniform(9, 110),
                              self.draw.uniform(1, 4), self.draw.uniform(0.1, 2)))
            else:
                self.kernel(t, node, "mlx5_core 0000:%02x:00.1: enp65s0f1np1: renamed from eth1" %
                            self.draw.randrange(256))

    def aftermath(self, t, guilty, count=None):
        """What the other nodes say when one has failed."""
        for node in self.nodes(count if count is not None else self.draw.randrange(4)):
            if node == guilty:
                continue
            kind = self.draw.randrange(3)
            if kind == 0:
                self.closed(t + self.jitter(2000), node, guilty)
            elif kind == 1:
                self.retries(t + 4000 + self.jitter(2000), node, guilty)
            self.preempted(t + 300 + self.jitter(2000), node)

    def text(self, name):
        rows = list(self.rows)
        self.draw.shuffle(rows)
        return "".join("%s\t%d\t%s\t%s\t%s\n" % (name, *row) for row in rows)


# ---- one node -----------------------------------------------------------------------------------


def off_the_bus(i):
    node = i.node()
    t = i.jitter()
    wanted = REBOOT
    if i.draw.random() < 0.6:
        i.kernel(t, node, "pcieport 0000:%02x:01.0: AER: Uncorrected (Fatal) error received: "
                 "0000:%02x:01.0" % (i.draw.randrange(256), i.draw.randrange(256)))
    pci = i.pci()
    how = i.draw.randrange(3)
    if how == 0:
        i.kernel(t + 400, node, "NVRM: GPU %s.0: GPU has fallen off the bus." % pci)
    else:
        i.xid(t + 400, node, 79, "GPU has fallen off the bus.", pci)
    if how == 2:
        i.recovery(t + 410, node, 2, pci)
    if i.draw.random() < 0.3:
        i.agent(t + 5000, node, "gpu_count=7 expected=8")
    i.aftermath(t + 900, node)
    return "hardware-node", wanted, [node]


def recovery_action(i):
    """The driver's own word overrules what its code is known for."""
    node = i.node()
    code, text = i.draw.choice([(79, "GPU has fallen off the bus."),
                                (48, "An uncorrectable double bit error (DBE) has been detected"),
                                (95, "Uncontained: LTC TAG (0x2, 0x1). RST: Yes, D-RST: No"),
                                (46, "GPU stopped processing")])
    value = i.draw.choice([1, 2, 4])
    pci = i.xid(i.jitter(), node, code, text)
    i.recovery(40 + i.jitter(), node, value, pci)
    i.aftermath(900, node)
    return "hardware-node", REBOOT if value == 2 else RESET, [node]


def memory_errors(i):
    node = i.node()
    pci = i.pci()
    kind = i.draw.randrange(4)
    t = i.jitter()
    row = "0x%016x" % i.draw.getrandbits(32)
    if kind == 0:  # contained, and its row is remapped
        i.xid(t, node, 63, "Row Remapper: New row (%s) marked for remapping, reset gpu to activate"
              % row, pci)
        i.xid(t + 3, node, 94, "Contained: CE User Channel (0x9). RST: No, D-RST: No", pci)
        i.program(t + 60, node, "RuntimeError: CUDA error: uncorrectable ECC error encountered")
        i.kernel(t + 70, node, "NVRM: Xid (PCI:%s): 45, pid=9, name=python3, Ch 00000008 caused by "
                 "previous Xid 94" % pci)
    elif kind == 1:
        i.xid(t, node, 48, "An uncorrectable double bit error (DBE) has been detected on GPU in the "
              "framebuffer at partition 4, subpartition 1", pci)
        i.xid(t + 2, node, 63, "Row Remapper: New row (%s) marked for remapping, reset gpu to "
              "activate" % row, pci)
    elif kind == 2:
        i.xid(t, node, 48, "An uncorrectable double bit error (DBE) has been detected on GPU", pci)
        i.xid(t + 2, node, 64, "Row Remapper Error: (%s) - All reserved rows for bank are remapped"
              % row, pci)
        i.aftermath(900, node)
        return "hardware-node", RMA, [node]
    else:
        i.xid(t, node, 95, "Uncontained: LTC TAG (0x2, 0x1). RST: Yes, D-RST: No", pci)
        i.xid(t + 9, node, 94, "Contained: CE User Channel (0x9). RST: No, D-RST: No", pci)
    i.aftermath(900, node)
    return "hardware-node", RESET, [node]


def remap_only(i):
    """The job runs on: nothing is lost yet."""
    node = i.node()
    i.xid(i.jitter(), node, 63, "Row Remapper: New row (0x%016x) marked for remapping, reset gpu to "
          "activate" % i.draw.getrandbits(32))
    i.ctl(3000, "job 17 step %d ok 14.9 s" % i.draw.randrange(1, 90000))
    return "hardware-node", "degrade_watch", [node]


def switch_failed(i):
    node = i.node()
    code, text = i.draw.choice([(22003, "Minion Halt"), (23001, "ingress invalid command"),
                                (23010, "route buffer over/underflow"), (12020, "sequence id error")])
    i.kernel(i.jitter(10), node, "nvidia-nvswitch%d: SXid (PCI:%s.0): %d, Fatal, Link %02d %s" %
             (i.draw.randrange(4), i.pci(), code, i.draw.randrange(36), text))
    for gpu in range(i.draw.randrange(0, 9)):
        i.xid(20 + gpu, node, 74, "NVLink: fatal error detected on link %d(0x10000, 0x0, 0x0, 0x0, "
              "0x0, 0x0, 0x0)" % i.draw.randrange(18))
    i.preempted(300, node)
    i.aftermath(900, node)
    return "hardware-node", REBOOT, [node]


def one_link(i):
    node = i.node()
    i.xid(i.jitter(), node, 74, "NVLink: fatal error detected on link %d(0x10000, 0x0, 0x0, 0x0, "
          "0x0, 0x0, 0x0)" % i.draw.randrange(18))
    i.aftermath(900, node)
    return "hardware-node", DIAG, [node]


def gsp_timeout(i):
    node = i.node()
    gpu = i.draw.randrange(8)
    wording = i.draw.choice([
        "Timeout after %ds of waiting for RPC response from GPU%d GSP! Expected function 76 "
        "(GSP_RM_CONTROL) sequence 811 (0x20808159 0x9c0)." % (i.draw.choice([6, 45]), gpu),
        "Timeout waiting for RPC from GSP%d! Expected function 76 (GSP_RM_CONTROL) (0x2080014b "
        "0x5)." % gpu])
    i.xid(i.jitter(), node, i.draw.choice([119, 119, 120]), wording)
    if i.draw.random() < 0.6:
        i.agent(10000 + i.jitter(), node, "nvml_poll stuck %d s gpu=%d; heartbeat %s" %
                (i.draw.randrange(10, 50), gpu, i.draw.choice(["ok", "missed"])))
    i.aftermath(900, node)
    return "node-software", RESET, [node]


def gpu_missing(i):
    node = i.node()
    i.agent(i.jitter(), node, i.draw.choice([
        "gpu_count=%d expected=8" % i.draw.randrange(1, 8),
        "nvml: GPU is lost; gpu=%d" % i.draw.randrange(8)]))
    i.aftermath(900, node)
    return "hardware-node", REBOOT, [node]


def kernel_panic(i):
    node = i.node()
    fatal = i.draw.random() < 0.4
    why = "Fatal Machine check" if fatal else i.draw.choice(["hung_task: blocked tasks",
                                                             "Attempted to kill init!"])
    i.kernel(i.jitter(), node, "Kernel panic - not syncing: %s" % why)
    i.ctl(3000, "heartbeat missed 3; last_seq=%d; bmc=reachable; rack=r%d" %
          (i.draw.randrange(99999), int(node[4:]) // 8), node)
    i.aftermath(900, node)
    return "hardware-node", DIAG if fatal else "evict_node", [node]


def host_dead(i):
    node = i.node()
    reachable = i.draw.random() < 0.5
    i.ctl(i.jitter(), "heartbeat missed %d; last_seq=%d; bmc=%s; rack=r%d" %
          (i.draw.randrange(3, 9), i.draw.randrange(99999),
           "reachable" if reachable else "unreachable", int(node[4:]) // 8), node)
    i.aftermath(900, node, 3)
    return "hardware-node", REBOOT if reachable else "evict_node", [node]


def host_memory(i):
    node = i.node()
    i.kernel(i.jitter(), node, i.draw.choice([
        "EDAC MC%d: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#0_DIMM#0 (channel:0 slot:0 "
        "page:0x1b2c11 offset:0x0 grain:32)" % i.draw.randrange(8),
        "mce: [Hardware Error]: CPU %d: Machine Check: 0 Bank 4: a600000000020408" %
        i.draw.randrange(128)]))
    i.aftermath(900, node)
    return "hardware-node", "evict_node", [node]


def disk(i):
    node = i.node()
    drive = i.draw.randrange(8)
    i.kernel(i.jitter(), node, i.draw.choice([
        "nvme nvme%d: I/O tag %d (2016) opcode 0x2 (Admin Cmd) QID 0 timeout, reset controller" %
        (drive, i.draw.randrange(99)),
        "nvme nvme%d: Disabling device after reset failure: -19" % drive,
        "md/raid0:md0: Disk failure on nvme%dn1p1 detected, failing array." % drive]))
    i.kernel(500 + i.jitter(), node, "EXT4-fs (md0): Remounting filesystem read-only")
    i.aftermath(900, node)
    return "hardware-node", "evict_node", [node]


def nic_dead(i):
    node = i.node()
    i.kernel(i.jitter(), node, "mlx5_core 0000:%02x:00.0: poll_health:%d:(pid 0): device's health "
             "compromised - reached miss count" % (i.draw.randrange(256), i.draw.randrange(999)))
    i.aftermath(900, node)
    return "hardware-node", "evict_node", [node]


def leftover(i):
    node = i.node()
    i.program(i.jitter(), node, "RuntimeError: The server socket has failed to listen on any local "
              "network address. port: %d, useIpv6: false, code: -98, name: EADDRINUSE, message: "
              "address already in use" % i.draw.randrange(20000, 40000))
    for peer in i.nodes(2):
        i.program(200 + i.jitter(), peer, "NCCL WARN NET/Socket : peer closed; ncclRemoteError: A "
                  "call failed possibly due to a network error or a remote process exiting "
                  "prematurely.")
    return "node-software", "clean_node_then_restart", [node]


def no_fabric_manager(i):
    nodes = i.nodes(i.draw.choice([1, 1, 2]))
    for node in nodes:
        i.program(i.jitter(), node, "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error "
                  "802: system not yet initialized")
    return "node-software", "clean_node_then_restart", nodes


def daemon_killed(i):
    node = i.node()
    victim = i.draw.choice(["nvidia-fabricma", "slurmd", "sshd", "keepstep-agent"])
    i.kernel(i.jitter(), node, "Out of memory: Killed process %d (%s) total-vm:811200kB, "
             "anon-rss:33120kB, file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:310kB oom_score_adj:0" %
             (i.draw.randrange(400, 99999), victim))
    return "node-software", "evict_node", [node]


def repeated_device(i):
    """What a program's own fault looks like, twice on one GPU and on no other."""
    node = i.node()
    code = i.draw.choice([31, 13])
    gpc, tpc = i.draw.randrange(8), i.draw.randrange(9)
    pci = i.pci()
    attempt = i.draw.randrange(3, 90)
    told = i.draw.random() < 0.7
    t = 0
    for number in range(i.draw.choice([2, 2, 3])):
        if code == 31:
            i.xid(t + i.jitter(), node, 31, "Ch 00000007, intr 00000000. MMU Fault: ENGINE GRAPHICS "
                  "GPCCLIENT_T1_6 faulted @ 0x7fb2_%08x. Fault is of type FAULT_PDE "
                  "ACCESS_TYPE_VIRT_READ" % i.draw.getrandbits(32), pci)
        else:
            i.xid(t + i.jitter(), node, 13, "Graphics SM Warp Exception on (GPC %d, TPC %d, SM 1): "
                  "Out Of Range Address" % (gpc, tpc), pci)
        i.xid(t + 50, node, 43, "Ch 00000008", pci)
        if told:
            i.ctl(t + 300 + i.jitter(), "job 17 attempt %d ended: rank %d exit 1" %
                  (attempt + number, i.rank_on(node)))
        t += i.draw.randrange(10 * 60, 7 * 3600) * 1000
    return "hardware-node", DIAG, [node]


def waiting_host(i):
    """One rank has nothing under way, and its peers wait for it."""
    node = i.node()
    base = int(node[4:]) * PER_NODE
    guilty = i.draw.randrange(PER_NODE)
    sequence = i.draw.randrange(100, 99999)
    silent = i.draw.random() < 0.3
    t = 600000
    for local in i.draw.sample(range(PER_NODE), i.draw.randrange(2, 9)) + [guilty]:
        if local == guilty:
            i.agent(t + i.jitter(), node, "rank=%d comm=tp/%d last_enqueued=%d last_completed=%d "
                    "state=%s%s" % (base + local, base // 8, sequence - 1, sequence - 1,
                                    "silent" if silent else "running",
                                    "" if silent else " cpu=100% gpu_util=0"))
        else:
            i.agent(t + i.jitter(), node, "rank=%d comm=tp/%d last_enqueued=%d last_completed=%d "
                    "state=waiting" % (base + local, base // 8, sequence, sequence - 1))
    for other in i.nodes(2):
        i.watchdog(t + i.jitter(), other, sequence + 9, "ALLREDUCE")
        i.agent(t + i.jitter(), other, "rank=%d comm=dp/%d last_enqueued=%d last_completed=%d "
                "state=waiting" % (i.rank_on(other), i.draw.randrange(99), 41, 40))
    return "hardware-node", DIAG, [node]


def stuck_inside(i):
    """One GPU has not completed what all others of its communicator have."""
    guilty, *others = i.nodes(i.draw.randrange(3, 9))
    for node in others + [guilty]:
        i.agent(600000 + i.jitter(), node, "rank=%d comm=dp/7 last_enqueued=41 last_completed=%d "
                "state=waiting" % (i.rank_on(node), 40 if node == guilty else 41))
    return "hardware-node", DIAG, [guilty]


def stalled_transfer(i):
    """Both ends of a transfer wait for each other: nothing comes through between two nodes."""
    nodes = i.nodes(2)
    for node in nodes:
        i.agent(600000 + i.jitter(), node, "rank=%d comm=pp/%d last_enqueued=900 "
                "last_completed=899 state=waiting" % (i.rank_on(node), 12))
    for other in i.nodes(3):
        i.watchdog(600000 + i.jitter(), other, 9120, "ALLREDUCE")
    return "network", "restart_in_place", nodes


def rerun_elsewhere(i):
    """A step that was run again on another GPU, after the trainer had asked for one."""
    first = i.node()
    spare = "spare%03d" % i.draw.randrange(64)
    same = i.draw.random() < 0.5
    i.row(i.jitter(), first, "stderr", "WARNING:megatron.core.rerun_state_machine:Unexpected result "
          "1.25 on rank %d at iteration #41 invocation #0 (message='loss')" % i.rank_on(first))
    i.ctl(500, "job 17 attempt 7 ended: rank %d exit 16" % i.rank_on(first))
    i.row(900000 + i.jitter(), spare, "stderr", "ERROR:megatron.core.rerun_state_machine:%s" %
          ("Correct result (but possible Application error)!" if same else
           "Possible persistent error!"))
    i.ctl(900400, "job 17 attempt 8 ended: rank %d exit 17" % i.rank_on(first))
    return ("user-code", "fail_job_user", []) if same else ("hardware-node", DIAG, [first])


def told_to_end(i):
    """Somebody ended the ranks, and not by Keepstep."""
    for node in i.nodes(i.draw.randrange(2, 9)):
        i.program(i.jitter(), node, "torch.distributed.elastic.multiprocessing.api."
                  "SignalException: Process %d got signal: 15" % i.draw.randrange(400, 99999))
        i.preempted(500 + i.jitter(), node)
    return "operator", "stop_expected", []


def hung_on_one(i):
    node = i.node()
    i.kernel(i.jitter(), node, "INFO: task %s:%d blocked for more than 120 seconds." %
             (i.draw.choice(["python3", "pt_main_thread"]), i.draw.randrange(400, 99999)))
    for other in i.nodes(2):
        i.watchdog(600000 + i.jitter(), other, 9120, "ALLREDUCE")
    return "hardware-node", "evict_node", [node]


def two_racks_lost(i):
    racks = i.draw.sample(range(NODES // 8), 2)
    nodes = ["node%04d" % (rack * 8 + number) for rack in racks for number in range(8)]
    for node in nodes:
        i.ctl(i.jitter(2000), "heartbeat missed 3; last_seq=%d; bmc=unreachable; rack=r%d" %
              (i.draw.randrange(99999), int(node[4:]) // 8), node)
    return "facility", "evict_node", nodes


def slow_node(i):
    node = i.node()
    rank = i.rank_on(node)
    steps = i.draw.choice([3, 5, 20, 44])
    base = i.draw.randrange(4000, 20000)
    ratio = i.draw.uniform(1.15, 3)
    if steps < 20 or i.draw.random() < 0.5:
        i.agent(i.jitter(), node, "gpu=%d clocks_event_reasons=0x%016x (hw_slowdown,"
                "hw_thermal_slowdown) sm_clock=720 temp=88" %
                (rank % 8, i.draw.choice([0x48, 0x40, 0x8])))
    for step in range(steps):
        slow = steps < 20 or step >= steps * 0.2
        i.agent(100 + step * 15000, node, "rank=%d step=%d compute_ms=%d wait_ms=110 "
                "peers_median_compute_ms=%d" %
                (rank, 51000 + step, base * (ratio if slow else 1.02), base))
    for other in i.nodes(2):
        for step in range(steps):
            i.agent(100 + step * 15000, other, "rank=%d step=%d compute_ms=%d wait_ms=9000 "
                    "peers_median_compute_ms=%d" %
                    (i.rank_on(other), 51000 + step, base * i.draw.uniform(0.97, 1.03), base))
    return "hardware-node", DIAG, [node]


def other_hash(i):
    replica, stage = i.draw.randrange(REPLICAS), i.draw.randrange(STAGES)
    for step in range(i.draw.randrange(1, 4)):
        i.ctl(step * 900000, "hash step=%d stage=%d tp=%d majority=%08x minority dp=%d hash=%08x" %
              (41200 + step * 100, stage, i.draw.randrange(8), i.draw.getrandbits(32), replica,
               i.draw.getrandbits(32)))
    return "hardware-node", DIAG, ["node%04d" % (replica * STAGES + stage)]


# ---- the program --------------------------------------------------------------------------------


def page_faults(i):
    t = 0
    nodes = i.nodes(i.draw.choice([1, 2, 3, 5]))
    for node in nodes:
        for _ in range(2 if len(nodes) == 1 else i.draw.randrange(1, 4)):
            pci = i.xid(t + i.jitter(), node, 31, "Ch 00000007, intr 00000000. MMU Fault: ENGINE "
                        "GRAPHICS GPCCLIENT_T1_6 faulted @ 0x7fb2_c1902000. Fault is of type "
                        "FAULT_PDE ACCESS_TYPE_VIRT_READ")
            i.xid(t + 40, node, 43, "Ch 00000008", pci)
    i.program(300, nodes[0], "torch.AcceleratorError: CUDA error: an illegal memory access was "
              "encountered")
    return "user-code", "fail_job_user", []


def one_page_fault(i):
    node = i.node()
    i.xid(i.jitter(), node, 31, "Ch 00000007, intr 00000000. MMU Fault: ENGINE GRAPHICS "
          "GPCCLIENT_T1_6 faulted @ 0x7fb2_c1902000.")
    i.aftermath(900, node)
    return "user-code", "restart_then_fail_job", []


ERRORS = ["KeyError: 'input_ids'", "ValueError: optimizer got an empty parameter list",
          "ModuleNotFoundError: No module named 'flash_attn'",
          "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
          "RuntimeError: CUDA error: device-side assert triggered"]


def raised(i):
    nodes = i.nodes(i.draw.choice([1, 1, 4, 12]))
    error = i.draw.choice(ERRORS)
    for node in nodes:
        if i.draw.random() < 0.5:
            i.row(i.jitter(), node, "stderr", "[rank%d]: Traceback (most recent call last):" %
                  i.rank_on(node))
        i.row(2 + i.jitter(), node, "stderr", error)
    i.ctl(900, "job 17 attempt 4 ended: rank %d exit 1" % i.rank_on(nodes[0]))
    i.aftermath(900, nodes[0])
    return "user-code", "fail_job_user", []


def job_memory(i):
    node = i.node()
    i.kernel(i.jitter(), node, "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,"
             "mems_allowed=0-1,oom_memcg=/system.slice/job17,task_memcg=/system.slice/job17,"
             "task=pt_data_worker,pid=%d,uid=1000" % i.draw.randrange(400, 999999))
    i.ctl(500, "job 17 attempt 4 ended: rank %d exit %d" % (i.rank_on(node),
                                                            i.draw.choice([137, -9])))
    i.aftermath(900, node)
    return "user-code", "restart_then_fail_job", []


def different_collectives(i):
    sequence = i.draw.randrange(1, 99999)
    group = i.draw.choice([None, i.draw.randrange(9)])
    first, second = i.draw.sample(["ALLREDUCE", "BROADCAST", "_ALLGATHER_BASE", "REDUCE_SCATTER"], 2)
    nodes = i.nodes(i.draw.choice([1, 2, 4]))
    if len(nodes) == 1:
        i.watchdog(i.jitter(), nodes[0], sequence, first, 0, group)
        i.watchdog(i.jitter(), nodes[0], sequence, second, 3, group)
    else:
        for number, node in enumerate(nodes):
            i.watchdog(i.jitter(), node, sequence, second if number == 0 else first, None, group)
    return "user-code", "fail_job_user", []


def same_nan(i):
    """The same at the same step, after a restart on another node."""
    first = i.node()
    second = i.draw.choice(["spare%03d" % i.draw.randrange(64), i.node()])
    step = i.draw.randrange(1000, 90000)
    wording = i.draw.choice([
        "Unexpected result nan on rank %d at iteration #%d invocation #0 (message='loss')",
        "WARNING: rank %d: loss is nan at step %d", "[%d] iteration %d/  115311 | lm loss: NAN |"])
    for number, node in enumerate([first, second]):
        t = number * i.draw.randrange(600, 3600) * 1000
        i.row(t + i.jitter(), node, "stderr", wording % (i.rank_on(first), step))
        i.ctl(t + 500, "job 17 attempt %d ended: rank %d exit %d" %
              (7 + number, i.rank_on(first), i.draw.choice([1, 16])))
    return "user-code", "fail_job_user", []


def other_nan(i):
    """Another value at that step on another node: the first node made the wrong one."""
    first = i.node()
    step = i.draw.randrange(1000, 90000)
    spare = "spare%03d" % i.draw.randrange(64)
    i.row(i.jitter(), first, "stderr", "Unexpected result nan on rank %d at iteration #%d invocation "
          "#0 (message='grad')" % (i.rank_on(first), step))
    i.ctl(500, "job 17 attempt 7 ended: rank %d exit 16" % i.rank_on(first))
    i.row(900000 + i.jitter(), spare, "stderr", "Unexpected result %.4f on rank %d at iteration #%d "
          "invocation #0 (message='grad')" % (i.draw.uniform(2, 900), i.rank_on(first), step))
    return "hardware-node", DIAG, [first]


def another_gpu(i):
    node = i.node()
    i.ctl(i.jitter(), "job 17 attempt 7 ended: rank %d exit 16" % i.rank_on(node))
    i.aftermath(900, node)
    return "hardware-node", DIAG, [node]


def half_the_hashes(i):
    stage, step = i.draw.randrange(STAGES), i.draw.randrange(1000, 90000)
    replicas = i.draw.sample(range(REPLICAS), i.draw.randrange(43, 60))
    for replica in replicas:
        i.ctl(i.jitter(), "hash step=%d stage=%d tp=2 majority=9f12c0aa minority dp=%d hash=9f12c0ab"
              % (step, stage, replica))
    return "user-code", "fail_job_user", []


def poison(i):
    """One slot, three nodes, one after the other."""
    first = i.node()
    spares = ["spare%03d" % number for number in i.draw.sample(range(64), 2)]
    rank = i.rank_on(first)
    for number, node in enumerate([first] + spares):
        t = number * 1200000
        i.row(t + i.jitter(), node, "kmsg", "Kernel panic - not syncing: hung_task: blocked tasks")
        i.ctl(t + 300, "job 17 attempt %d ended: rank %d exit 1" % (7 + number, rank))
    return "user-code", "fail_job_user", []


# ---- around the nodes ---------------------------------------------------------------------------


def blip(i):
    node, peer = i.nodes(2)
    device = "mlx5_%d/1" % i.draw.randrange(8)
    i.agent(i.jitter(5), node, "%s state=1:DOWN phys_state=%s link_downed=+1" %
            (device, i.draw.choice(["3:Disabled", "2:Polling"])))
    if i.draw.random() < 0.6:
        i.program(10 + i.jitter(), node, "transport/net_ib.cc:253 NCCL WARN NET/IB : %s:1 Got "
                  "non-fatal async event: port error(10)" % device[:-2])
    if i.draw.random() < 0.6:
        i.retries(4000 + i.jitter(), peer, node)
    i.agent(i.draw.randrange(2000, 29000), node, "%s state=4:ACTIVE phys_state=5:LinkUp "
            "link_downed=+0" % device)
    return "network", "restart_in_place", [node]


def flapping(i):
    node = i.node()
    device = "mlx5_%d/1" % i.draw.randrange(8)
    times, span = i.draw.choice([(2, 290000), (3, 3500000), (4, 250000)])
    t = 0
    for _ in range(times):
        i.agent(t, node, "%s state=1:DOWN phys_state=2:Polling link_downed=+1" % device)
        i.agent(t + i.draw.randrange(900, 9000), node, "%s state=4:ACTIVE phys_state=5:LinkUp "
                "link_downed=+0" % device)
        t += span // times
    return "network", "evict_node", [node]


def stays_down(i):
    node, peer = i.nodes(2)
    device = "mlx5_%d/1" % i.draw.randrange(8)
    i.agent(i.jitter(5), node, "%s state=1:DOWN phys_state=3:Disabled link_downed=+1" % device)
    i.retries(30000 + i.jitter(), peer, node)
    if i.draw.random() < 0.5:
        i.agent(i.draw.randrange(31000, 90000), node, "%s state=4:ACTIVE phys_state=5:LinkUp "
                "link_downed=+0" % device)
    return "network", "evict_node", [node]


def unused_port(i):
    node = i.node()
    i.agent(i.jitter(5), node, "mlx5_1/1 state=1:DOWN phys_state=2:Polling link_downed=+1")
    for step in range(3):
        i.ctl(5000 + step * 15000, "job 17 step %d ok 14.9 s" % (41200 + step))
    return "network", "degrade_watch", [node]


def leaf_down(i):
    leaf = "leaf-%d" % i.draw.randrange(200)
    device = "mlx5_%d/1" % i.draw.randrange(8)
    nodes = i.nodes(i.draw.choice([2, 16, 32]))
    for node in nodes:
        i.agent(i.jitter(2000), node, "%s state=1:DOWN phys_state=2:Polling link_downed=+1 leaf=%s" %
                (device, leaf))
    for node in nodes[:3]:
        i.retries(5000 + i.jitter(), i.node(), node)
    return "network", "hold_job_check_network", []


def broken_pair(i):
    a, b = i.nodes(2)
    i.retries(i.jitter(), a, b)
    if i.draw.random() < 0.6:
        i.retries(i.jitter(), b, a)
    return "network", "restart_in_place", [a, b]


def common_peer(i):
    guilty, *others = i.nodes(i.draw.randrange(3, 9))
    for other in others:
        i.retries(i.jitter(), other, guilty)
    return "network", DIAG, [guilty]


def hot_cable(i):
    node = i.node()
    i.kernel(i.jitter(), node, "mlx5_core 0000:%02x:00.0: Port module event[error]: module 0, Cable "
             "error, High Temperature" % i.draw.randrange(256))
    return "network", DIAG, [node]


def rack_lost(i):
    rack = i.draw.randrange(NODES // 8)
    nodes = ["node%04d" % (rack * 8 + number) for number in range(8)]
    for node in nodes:
        i.ctl(i.jitter(2000), "heartbeat missed 3; last_seq=%d; bmc=unreachable; rack=r%d" %
              (i.draw.randrange(99999), rack), node)
    i.aftermath(2500, nodes[3])
    return "facility", "evict_node", nodes


def power_brake(i):
    rack = i.draw.randrange(NODES // 8)
    nodes = ["node%04d" % (rack * 8 + number) for number in range(8)]
    for node in nodes:
        for gpu in i.draw.sample(range(8), i.draw.randrange(1, 9)):
            i.agent(i.jitter(3000), node, "gpu=%d clocks_event_reasons=0x%016x (hw_slowdown,"
                    "hw_power_brake_slowdown) sm_clock=345 temp=51" % (gpu, 0x88))
    return "facility", "degrade_watch", nodes


def mount_stalls(i):
    nodes = i.nodes(i.draw.randrange(2, 14))
    server = "10.9.0.%d" % i.draw.randrange(255)
    lustre = i.draw.random() < 0.4
    for node in nodes:
        if lustre:
            i.kernel(i.jitter(), node, "LustreError: 11-0: scratch-MDT0000-mdc-ffff9a11c4e21000: "
                     "operation obd_ping to node %s@o2ib failed: rc = -107" % server)
        else:
            i.kernel(i.jitter(), node, "nfs: server %s not responding, still trying" % server)
    i.kernel(122000, nodes[0], "INFO: task pt_main_thread:33122 blocked for more than 120 seconds.")
    i.watchdog(600000, nodes[-1], 9120, "ALLREDUCE")
    if not lustre and i.draw.random() < 0.5:
        i.kernel(610000, nodes[0], "nfs: server %s OK" % server)
    return "storage", "hold_job_check_storage", []


def quota(i):
    node = i.node()
    i.program(i.jitter(), node, "OSError: [Errno %s: '/ckpt/run17/iter_0041200/mp_rank_03_012/"
              "model_optim_rng.pt.tmp'" % i.draw.choice(["122] Disk quota exceeded",
                                                         "28] No space left on device"]))
    i.row(40, node, "stderr", "[rank%d]: Traceback (most recent call last):" % i.rank_on(node))
    return "storage", "hold_job_check_storage", []


def stopped(i):
    i.ctl(i.jitter(200), "job 17 stop requested by operator %s" % i.draw.choice(["alice", "bob"]))
    for node in i.nodes(i.draw.randrange(1, 9)):
        i.program(300 + i.jitter(), node, "torch.distributed.elastic.multiprocessing.api."
                  "SignalException: Process %d got signal: 15" % i.draw.randrange(400, 99999))
        i.preempted(800 + i.jitter(), node)
    if i.draw.random() < 0.5:
        i.ctl(1500, "job 17 attempt 4 ended: rank 0 exit -15")
    return "operator", "stop_expected", []


def hardware_in_a_stop(i):
    """No stop takes a GPU off the bus."""
    node = i.node()
    stopped(i)
    i.xid(2000 + i.jitter(), node, 79, "GPU has fallen off the bus.")
    return "hardware-node", REBOOT, [node]


def another_jobs_stop(i):
    node = i.node()
    i.ctl(0, "job 18 stop requested by operator alice")
    i.row(200 + i.jitter(), node, "stderr", "KeyError: 'input_ids'")
    i.ctl(900, "job 17 attempt 4 ended: rank %d exit 1" % i.rank_on(node))
    return "user-code", "fail_job_user", []


def blind(i):
    wording = i.draw.choice(["nvml: cannot load libnvidia-ml.so.1; gpu_count=unknown",
                             "nvml: insufficient permissions; gpu_count=unknown",
                             "gpu_count=unknown expected=8", "gpu_count=0 expected=8"])
    for node in i.nodes(i.draw.choice([1, 5, 20])):
        i.agent(i.jitter(200), node, wording)
    if i.draw.random() < 0.8:
        i.ctl(2000, "job 17 step %d ok 14.9 s" % i.draw.randrange(90000))
    return "node-software", "none", []


def silent_agents(i):
    """Agents are silent, and the job moves on."""
    for node in i.nodes(i.draw.choice([1, 3, 12])):
        i.ctl(i.jitter(2000), "heartbeat missed %d; last_seq=9; bmc=reachable; rack=r%d" %
              (i.draw.randrange(3, 9), int(node[4:]) // 8), node)
    for step in range(2):
        i.ctl(9000 + step * 15000, "job 17 step %d ok 14.9 s" % (41200 + step))
    return "node-software", "none", []


def nothing(i):
    i.noise()
    node = i.node()
    i.kernel(0, node, "NVRM: Xid (%s): 14, Channel 00000001" % i.pci())
    i.ctl(9000, "job 17 step 41200 ok 14.9 s")
    return "benign", "none", []


def written_by_hand(i):
    """A program may write into the kernel's log; that is no reason to act."""
    node = i.node()
    i.row(0, node, "kmsg", "%d,%d,%d,-;NVRM: Xid (PCI:%s): 79, pid=1, name=test, GPU has fallen off "
          "the bus." % (8 + i.draw.randrange(8), i.draw.randrange(99), i.draw.randrange(10**9),
                        i.pci()))
    i.ctl(9000, "job 17 step 41200 ok 14.9 s")
    return "benign", "none", []


KINDS = [
    off_the_bus, recovery_action, memory_errors, remap_only, switch_failed, one_link, gsp_timeout,
    gpu_missing, kernel_panic, host_dead, host_memory, disk, nic_dead, leftover, no_fabric_manager,
    daemon_killed, repeated_device, waiting_host, stuck_inside, stalled_transfer, rerun_elsewhere,
    told_to_end, hung_on_one, two_racks_lost, slow_node, other_hash, page_faults, one_page_fault,
    raised, job_memory, different_collectives, same_nan, other_nan, another_gpu, half_the_hashes,
    poison, blip, flapping, stays_down, unused_port, leaf_down, broken_pair, common_peer, hot_cable,
    rack_lost, power_brake, mount_stalls, quota, stopped, hardware_in_a_stop, another_jobs_stop,
    blind, silent_agents, nothing, written_by_hand,
]
# Those whose answer a line of another fault would change: nothing is mixed into them.
BARE = {nothing, written_by_hand, unused_port}
