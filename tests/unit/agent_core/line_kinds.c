/* line_kinds.c: see line_kinds.h. */
#include "tests/unit/agent_core/line_kinds.h"

#include "proto/base/check.h"

const struct line_kind line_kinds[] = {
    /* NVIDIA */
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT_REBOOT,
     "NVRM: Xid (PCI:<pci>): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT_REBOOT,
     "NVRM: Xid (PCI:<pci>): 79, pid=<pid>, name=<proc>, GPU has fallen off the bus."},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT_REBOOT,
     "NVRM: GPU <pcif>: GPU has fallen off the bus."},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT_REBOOT, "NVRM: The NVIDIA GPU <pcif>"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT_REBOOT,
     "NVRM: (PCI ID: 10de:<hex8>) installed in this system has"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT_REBOOT,
     "NVRM: fallen off the bus and is not responding to commands."},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT_REBOOT,
     "NVRM: The NVIDIA GPU <pcif>|NVRM: (PCI ID: 10de:20b0) installed in this system has|NVRM: "
     "fallen off the bus and is not responding to commands."},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT_REBOOT,
     "NVRM: GPU <pcif>: RmInitAdapter failed! (<hex>:<hex>:<n>)"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT_REBOOT,
     "NVRM: RmInitAdapter failed! (<hex>:<hex>:<n>)"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT_REBOOT,
     "NVRM: GPU <pcif>: rm_init_adapter failed, device minor number <small>"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT_REBOOT, "NVRM: rm_init_adapter(<small>) failed"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT_REBOOT,
     "NVRM: krcRcAndNotifyAllChannels_IMPL: RC all channels for critical error 79."},
    {CARRIER_KERNEL, LABEL_SOFTWARE, ADVICE_EVICT_RESET,
     "NVRM: krcRcAndNotifyAllChannels_IMPL: RC all channels for critical error 119."},
    {CARRIER_KERNEL, LABEL_USER, ADVICE_RESTART_FAIL,
     "NVRM: Xid (PCI:<pci>): 13, pid=<pid>, name=<proc>, Graphics SM Warp Exception on (GPC "
     "<small>, TPC <small>, SM <small>): Out Of Range Address"},
    {CARRIER_KERNEL, LABEL_USER, ADVICE_RESTART_FAIL,
     "NVRM: Xid (PCI:<pci>): 13, Graphics Exception: ESR <hex>=<hex> <hex>=<hex>"},
    {CARRIER_KERNEL, LABEL_USER, ADVICE_RESTART_FAIL,
     "NVRM: Xid (PCI:<pci>): 31, pid=<pid>, name=<proc>, Ch <hex8>, intr <hex8>. MMU Fault: ENGINE "
     "GRAPHICS GPCCLIENT_T1_<small> faulted @ <hex>_<hex8>. Fault is of type FAULT_PDE "
     "ACCESS_TYPE_VIRT_READ"},
    {CARRIER_KERNEL, LABEL_USER, ADVICE_RESTART_FAIL,
     "NVRM: Xid (<pci>): 31, Ch <hex8>, engmask <hex8>, intr <hex8>"},
    {CARRIER_KERNEL, LABEL_USER, ADVICE_RESTART_FAIL,
     "NVRM: Xid (PCI:<pci>): 68, pid=<pid>, name=<proc>, NVDEC0 Exception"},
    {CARRIER_KERNEL, LABEL_USER, ADVICE_RESTART_FAIL,
     "NVRM: Xid (PCI:<pci>): 69, pid=<pid>, Class Error: ChId <small>, Class <hex8>, Offset "
     "<hex8>, Data <hex8>, ErrorCode <hex8>"},
    {CARRIER_KERNEL, LABEL_USER, ADVICE_RESTART_FAIL,
     "NVRM: Xid (PCI:<pci>): 137, pid=<pid>, name=<proc>, NVLink remote translation error: faulted "
     "@ <hex>. Fault is of type FAULT_PTE"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT_DIAG,
     "NVRM: Xid (PCI:<pci>): 32, pid=<pid>, name=<proc>, Channel ID <hex8> intr0 <hex8>"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT_RESET,
     "NVRM: Xid (PCI:<pci>): 46, pid=<pid>, GPU stopped processing"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT_RESET,
     "NVRM: Xid (PCI:<pci>): 48, pid=<pid>, name=<proc>, An uncorrectable double bit error (DBE) "
     "has been detected on GPU in the framebuffer at partition <small>, subpartition <small>."},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT_DIAG,
     "NVRM: Xid (PCI:<pci>): 62, pid=<pid>, name=<proc>, <hex8> <hex8> <hex8>"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_WATCH,
     "NVRM: Xid (PCI:<pci>): 63, pid='<unknown>', name=<unknown>, Row Remapper: New row (<hex>) "
     "marked for remapping, reset gpu to activate."},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT_RMA,
     "NVRM: Xid (PCI:<pci>): 64, pid='<unknown>', name=<unknown>, Row Remapper Error: (<hex>) - "
     "All reserved rows for bank are remapped"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT_DIAG,
     "NVRM: Xid (PCI:<pci>): 74, pid='<unknown>', name=<unknown>, NVLink: fatal error detected on "
     "link <small>(<hex>, <hex>, <hex>, <hex>, <hex>, <hex>, <hex>)"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_WATCH,
     "NVRM: Xid (PCI:<pci>): 92, pid=<pid>, name=<proc>, High single-bit ECC error rate"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT_RESET,
     "NVRM: Xid (PCI:<pci>): 94, pid=<pid>, name=<proc>, Contained: SM (<hex>). RST: No, D-RST: "
     "No"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT_RESET,
     "NVRM: Xid (PCI:<pci>): 95, pid=<pid>, name=<proc>, Uncontained: LTC TAG (<hex>, <hex>). RST: "
     "Yes, D-RST: No"},
    {CARRIER_KERNEL, LABEL_SOFTWARE, ADVICE_EVICT_RESET,
     "NVRM: Xid (PCI:<pci>): 109, pid=<pid>, name=<proc>, Ch <hex8>, errorString CTX SWITCH "
     "TIMEOUT, Info <hex>"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT_RESET,
     "NVRM: Xid (PCI:<pci>): 110, SEC_FAULT: _BAR_FIREWALL_ENGAGE"},
    {CARRIER_KERNEL, LABEL_SOFTWARE, ADVICE_EVICT_RESET,
     "NVRM: Xid (PCI:<pci>): 119, pid=<pid>, name=<proc>, Timeout after <small>s of waiting for "
     "RPC response from GPU<small> GSP! Expected function <small> (GSP_RM_CONTROL) (<hex> <hex>)."},
    {CARRIER_KERNEL, LABEL_SOFTWARE, ADVICE_EVICT_RESET,
     "NVRM: Xid (PCI:<pci>): 120, pid=<pid>, name=<proc>, GSP task exception: 0x7 @ pc:<hex>"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT_RESET,
     "NVRM: Xid (PCI:<pci>): 136, NVLink: Link training failed for link <small>(<hex>, <hex>, "
     "<hex>, <hex>, <hex>, <hex>, <hex>)"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT_RESET,
     "NVRM: Xid (PCI:<pci>): 140, pid=<pid>, name=<proc>, An uncorrectable ECC error detected "
     "(possible firmware handling failure) DRAM:-1840, LTC:0, MMU:0, PCIE:0"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT_RESET,
     "NVRM: Xid (PCI:<pci>): 143, Failed to initialize"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT_DIAG, "NVRM: Xid (PCI:<pci>): 158, timeout"},
    {CARRIER_KERNEL, LABEL_CASCADE, ADVICE_FOLLOW,
     "NVRM: Xid (PCI:<pci>): 43, pid=<pid>, name=<proc>, Ch <hex8>"},
    {CARRIER_KERNEL, LABEL_CASCADE, ADVICE_FOLLOW,
     "NVRM: Xid (PCI:<pci>): 45, pid=<pid>, name=<proc>, Ch <hex8>"},
    {CARRIER_KERNEL, LABEL_CASCADE, ADVICE_FOLLOW,
     "NVRM: Xid (PCI:<pci>): 45, pid=<pid>, name=<proc>, Ch <hex8> caused by previous Xid 94"},
    {CARRIER_KERNEL, LABEL_BENIGN, ADVICE_NONE, "NVRM: Xid (<pci>): 14, Channel <hex8>"},
    {CARRIER_KERNEL, LABEL_BENIGN, ADVICE_NONE,
     "NVRM: Xid (PCI:<pci>): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 "
     "(None)"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT_RESET,
     "NVRM: Xid (PCI:<pci>): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset "
     "Required)"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT_REBOOT,
     "NVRM: Xid (PCI:<pci>): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot "
     "Required)"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT_RESET,
     "NVRM: Xid (PCI:<pci>): 154, GPU recovery action changed from 0x2 (Node Reboot Required) to "
     "0x4 (Drain and Reset)"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT,
     "nvidia-nvswitch<small>: SXid (PCI:<pcif>): 12028, Non-fatal, Link <small> egress non-posted "
     "PRIV error (First)"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT,
     "nvidia-nvswitch<small>: SXid (PCI:<pcif>): 22003, Fatal, Link <small> Minion Halt"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT,
     "nvidia-nvswitch<small>: SXid (PCI:<pcif>): 23001, Fatal, Link <small> ingress SRC-VC buffer "
     "overflow (First)"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT,
     "nvidia-nvswitch<small>: SXid (PCI:<pcif>): 20034, Fatal, Link <small> LTSSM Fault Up"},
    {CARRIER_KERNEL, LABEL_BENIGN, ADVICE_NONE,
     "nvidia-nvswitch<small>: SXid (PCI:<pcif>): 12023, Non-fatal, Link <small> egress ECC single "
     "bit limit error (First)"},
    {CARRIER_KERNEL, LABEL_BENIGN, ADVICE_NONE,
     "nvidia-nvswitch<small>: SXid (PCI:<pcif>): 22003, Severity 1 Engine instance <small> "
     "Sub-engine instance 00"},
    {CARRIER_KERNEL, LABEL_BENIGN, ADVICE_NONE,
     "nvidia-nvswitch<small>: SXid (PCI:<pcif>): 22003, Data {<hex>, <hex>, <hex>}"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_WATCH,
     "nvidia-nvswitch<small>: SXid (PCI:<pcif>): 20001, Non-fatal, Link <small> TX Replay Error"},
    {CARRIER_KERNEL, LABEL_SOFTWARE, ADVICE_WATCH,
     "NVRM: API mismatch: the client has the version <small>.<small>.<small>, but"},
    {CARRIER_KERNEL, LABEL_SOFTWARE, ADVICE_WATCH,
     "nvidia-peermem nv_get_p2p_free_callback:<n> ERROR detected invalid context, skipping further "
     "processing"},
    {CARRIER_KERNEL, LABEL_OPERATOR, ADVICE_STOP_EXPECTED,
     "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  <small>.<small>.<small>  Mon Dec 30 17:44:08 "
     "UTC 2024"},
    {CARRIER_KERNEL, LABEL_OPERATOR, ADVICE_STOP_EXPECTED,
     "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  <small>.<small>.<small>  Release "
     "Build  (dvs-builder)"},
    /* PCIe */
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT,
     "pcieport <pcif>: AER: Uncorrected (Fatal) error received: <pcif>"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT,
     "pcieport <pcif>: AER: Uncorrectable (Fatal) error message received from <pcif>"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT,
     "pcieport <pcif>: AER: Multiple Uncorrected (Fatal) error received: <pcif>"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT,
     "pcieport <pcif>: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, "
     "(Receiver ID)"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT,
     "nvidia <pcif>: AER: can't recover (no error_detected callback)"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT, "pcieport <pcif>: AER: device recovery failed"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT,
     "pcieport <pcif>:    [ 5] SDES                   (First)"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT,
     "pcieport <pcif>:    [18] MalfTLP                (First)"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT,
     "pcieport <pcif>: DPC: containment event, status:<hex> source:<hex>"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT,
     "pcieport <pcif>: pciehp: Slot(<small>): Link Down"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_WATCH,
     "pcieport <pcif>: AER: Corrected error received: <pcif>"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_WATCH,
     "pcieport <pcif>: AER: Multiple Corrected error received: <pcif>"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_WATCH,
     "pcieport <pcif>: AER: Correctable error message received from <pcif>"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_WATCH,
     "nvidia <pcif>: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_WATCH, "pcieport <pcif>:    [ 6] BadTLP"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_WATCH, "pcieport <pcif>:    [12] Timeout"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_WATCH,
     "pcieport <pcif>: AER: Uncorrected (Non-Fatal) error received: <pcif>"},
    {CARRIER_KERNEL, LABEL_BENIGN, ADVICE_NONE, "pcieport <pcif>: AER: device recovery successful"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT_DIAG,
     "mlx5_core <pcif>: <small>.056 Gb/s available PCIe bandwidth, limited by 16.0 GT/s PCIe "
     "x<small> link at <pcif> (capable of 504.112 Gb/s with 32.0 GT/s PCIe x16 link)"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT_DIAG,
     "nvidia <pcif>: <small>.056 Gb/s available PCIe bandwidth, limited by 2.5 GT/s PCIe x16 link "
     "at <pcif> (capable of 504.112 Gb/s with 32.0 GT/s PCIe x16 link)"},
    {CARRIER_KERNEL, LABEL_BENIGN, ADVICE_NONE,
     "mlx5_core <pcif>: 504.112 Gb/s available PCIe bandwidth (32.0 GT/s PCIe x16 link)"},
    /* processors and memory */
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT,
     "mce: [Hardware Error]: CPU <small>: Machine Check: 0 Bank <small>: be00000000800400"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT,
     "mce: [Hardware Error]: CPU <small>: Machine Check Exception: 5 Bank <small>: "
     "f200000000000400"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_WATCH,
     "mce: [Hardware Error]: CPU <small>: Machine Check: 0 Bank <small>: 8c00004000010091"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_WATCH,
     "mce: [Hardware Error]: Machine check events logged"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT,
     "{<small>}[Hardware Error]: event severity: fatal"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_WATCH,
     "{<small>}[Hardware Error]: event severity: corrected"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT,
     "Memory failure: <hex>: Killing <proc>:<pid> due to hardware memory corruption"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT,
     "EDAC MC<small>: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#<small>_DIMM#0 "
     "(channel:<small> slot:0 page:<hex> offset:<hex> grain:32)"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT_DIAG,
     "EDAC MC<small>: 262 CE memory read error on CPU_SrcID#1_Ha#0_Chan#2_DIMM#0 (channel:2 slot:0 "
     "page:<hex> offset:<hex> grain:32 syndrome:0x0 -  OVERFLOW area:DRAM err_code:0001:0092)"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_WATCH,
     "EDAC MC<small>: 1 CE memory scrubbing error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0 (channel:1 "
     "slot:0 page:<hex> offset:<hex> grain:32 syndrome:0x0)"},
    /* the kernel */
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT,
     "Kernel panic - not syncing: hung_task: blocked tasks"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT,
     "Kernel panic - not syncing: Fatal exception in interrupt"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT_DIAG,
     "Kernel panic - not syncing: Fatal machine check"},
    {CARRIER_KERNEL, LABEL_SOFTWARE, ADVICE_WATCH,
     "watchdog: BUG: soft lockup - CPU#<small> stuck for <small>s! [<proc>:<pid>]"},
    {CARRIER_KERNEL, LABEL_SOFTWARE, ADVICE_WATCH,
     "rcu: INFO: rcu_sched self-detected stall on CPU"},
    {CARRIER_KERNEL, LABEL_SOFTWARE, ADVICE_EVICT_REBOOT,
     "BUG: unable to handle page fault for address: ffff<hex8>"},
    {CARRIER_KERNEL, LABEL_SOFTWARE, ADVICE_EVICT_REBOOT,
     "BUG: kernel NULL pointer dereference, address: <hex>"},
    {CARRIER_KERNEL, LABEL_SOFTWARE, ADVICE_EVICT_REBOOT,
     "general protection fault, probably for non-canonical address <hex>: 0000 [#1] SMP NOPTI"},
    {CARRIER_KERNEL, LABEL_STORAGE, ADVICE_HOLD_STORAGE,
     "INFO: task pt_main_thread:<pid> blocked for more than 120 seconds."},
    {CARRIER_KERNEL, LABEL_STORAGE, ADVICE_HOLD_STORAGE,
     "INFO: task jbd2/md0-8:<pid> blocked for more than 241 seconds."},
    {CARRIER_KERNEL, LABEL_STORAGE, ADVICE_HOLD_STORAGE,
     "INFO: task kworker/u256:<small>:<pid> blocked for more than 122 seconds."},
    {CARRIER_KERNEL, LABEL_BENIGN, ADVICE_NONE,
     "perf: interrupt took too long (<n> > <n>), lowering kernel.perf_event_max_sample_rate to "
     "<n>"},
    /* memory that ran out */
    {CARRIER_KERNEL, LABEL_USER, ADVICE_RESTART_FAIL,
     "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0-1,oom_memcg=/"
     "system.slice/job<small>,task_memcg=/system.slice/job<small>,task=python3,pid=<pid>,uid=1000"},
    {CARRIER_KERNEL, LABEL_USER, ADVICE_RESTART_FAIL,
     "Memory cgroup out of memory: Killed process <pid> (pt_data_worker) total-vm:<n>kB, "
     "anon-rss:<n>kB, file-rss:0kB, shmem-rss:0kB, UID:1000 pgtables:<n>kB oom_score_adj:0"},
    {CARRIER_KERNEL, LABEL_SOFTWARE, ADVICE_EVICT,
     "Out of memory: Killed process <pid> (nvidia-fabricma) total-vm:<n>kB, anon-rss:<n>kB, "
     "file-rss:0kB"},
    {CARRIER_KERNEL, LABEL_SOFTWARE, ADVICE_EVICT,
     "Out of memory: Killed process <pid> (slurmd) total-vm:<n>kB, anon-rss:<n>kB, file-rss:0kB"},
    {CARRIER_KERNEL, LABEL_SOFTWARE, ADVICE_EVICT,
     "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/"
     ",mems_allowed=0-1,global_oom,task_memcg=/a,task=python3,pid=<pid>,uid=1000"},
    {CARRIER_KERNEL, LABEL_USER, ADVICE_RESTART_FAIL,
     "pt_main_thread[<pid>]: segfault at <hex> ip <hex> sp <hex> error 4 in "
     "libtorch_cuda.so[<hex>+<hex>]"},
    {CARRIER_KERNEL, LABEL_USER, ADVICE_RESTART_FAIL,
     "traps: python3[<pid>] general protection fault ip:<hex> sp:<hex> error:0 in libc.so.6"},
    /* disks */
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT,
     "nvme nvme<small>: I/O tag <small> (<n>) opcode 0x2 (Admin Cmd) QID 0 timeout, reset "
     "controller"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT,
     "nvme nvme<small>: I/O <small> QID <small> timeout, reset controller"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT,
     "nvme nvme<small>: Disabling device after reset failure: -19"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT,
     "nvme nvme<small>: Removing after probe failure status: -19"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT,
     "nvme nvme<small>: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0xffff"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT,
     "blk_update_request: I/O error, dev <disk>, sector <n> op 0x1:(WRITE) flags 0x800 phys_seg 1 "
     "prio class 0"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT,
     "I/O error, dev <disk>, sector <n> op 0x0:(READ) flags 0x80700 phys_seg 4 prio class 2"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT,
     "Buffer I/O error on dev <disk>, logical block <n>, lost async page write"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT,
     "md/raid0:md<small>: Disk failure on <disk> detected, failing array."},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT,
     "md/raid1:md<small>: Disk failure on <disk>, disabling device."},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT,
     "EXT4-fs (<disk>): Remounting filesystem read-only"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT,
     "EXT4-fs error (device <disk>): ext4_find_entry:1682: inode #<n>: comm <proc>: reading "
     "directory lblock 0"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT,
     "XFS (<disk>): Log I/O Error Detected.  Shutting down filesystem"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT,
     "XFS (<disk>): metadata I/O error in \"xfs_trans_read_buf_map\" at daddr <hex> len 8 error 5"},
    {CARRIER_KERNEL, LABEL_BENIGN, ADVICE_NONE,
     "EXT4-fs (<disk>): mounted filesystem with ordered data mode. Quota mode: none."},
    {CARRIER_KERNEL, LABEL_BENIGN, ADVICE_NONE, "XFS (<disk>): Mounting V5 Filesystem"},
    /* file servers */
    {CARRIER_KERNEL, LABEL_STORAGE, ADVICE_HOLD_STORAGE,
     "nfs: server <ip> not responding, still trying"},
    {CARRIER_KERNEL, LABEL_STORAGE, ADVICE_HOLD_STORAGE,
     "nfs: server <host> not responding, timed out"},
    {CARRIER_KERNEL, LABEL_BENIGN, ADVICE_NONE, "nfs: server <ip> OK"},
    {CARRIER_KERNEL, LABEL_STORAGE, ADVICE_HOLD_STORAGE,
     "NFS: nfs4_reclaim_open_state: Lock reclaim failed!"},
    {CARRIER_KERNEL, LABEL_STORAGE, ADVICE_HOLD_STORAGE,
     "NFS: state manager: check lease failed on NFSv4 server <host> with error 13"},
    {CARRIER_KERNEL, LABEL_STORAGE, ADVICE_HOLD_STORAGE,
     "LustreError: 11-0: <fs>-MDT0000-mdc-ffff<hex8>: operation obd_ping to node <ip>@o2ib failed: "
     "rc = -107"},
    {CARRIER_KERNEL, LABEL_STORAGE, ADVICE_HOLD_STORAGE,
     "LustreError: 167-0: <fs>-OST00<small>-osc-ffff<hex8>: This client was evicted by "
     "<fs>-OST00<small>; in progress operations using this service will fail."},
    {CARRIER_KERNEL, LABEL_STORAGE, ADVICE_HOLD_STORAGE,
     "Lustre: <fs>-OST00<small>-osc-ffff<hex8>: Connection to <fs>-OST00<small> (at <ip>@o2ib) was "
     "lost; in progress operations using this service will wait for recovery to complete"},
    {CARRIER_KERNEL, LABEL_BENIGN, ADVICE_NONE,
     "Lustre: <fs>-OST00<small>-osc-ffff<hex8>: Connection restored to <ip>@o2ib (at <ip>@o2ib)"},
    {CARRIER_KERNEL, LABEL_STORAGE, ADVICE_HOLD_STORAGE, "ceph: mds<small> hung"},
    /* network cards */
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT,
     "mlx5_core <pcif>: poll_health:<n>:(pid 0): device's health compromised - reached miss count"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT,
     "mlx5_core <pcif>: print_health_info:<n>:(pid 0): synd 0x1: firmware internal error"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT,
     "mlx5_core <pcif>: print_health_info:<n>:(pid 0): assert_var[0] 0x<hex8>"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT,
     "mlx5_core <pcif>: print_health_info:<n>:(pid 0): Health issue observed, unrecoverable "
     "hardware error, severity(3) ERROR:"},
    {CARRIER_KERNEL, LABEL_HARDWARE, ADVICE_EVICT,
     "mlx5_core <pcif>: wait_func:<n>:(pid <pid>): ACCESS_REG(0x805) timeout. Will cause a leak of "
     "a command resource"},
    {CARRIER_KERNEL, LABEL_NETWORK, ADVICE_EVICT,
     "mlx5_core <pcif>: Port module event: module <small>, Cable unplugged"},
    {CARRIER_KERNEL, LABEL_BENIGN, ADVICE_NONE,
     "mlx5_core <pcif>: Port module event: module <small>, Cable plugged"},
    {CARRIER_KERNEL, LABEL_NETWORK, ADVICE_EVICT_DIAG,
     "mlx5_core <pcif>: Port module event[error]: module <small>, Cable error, High Temperature"},
    {CARRIER_KERNEL, LABEL_NETWORK, ADVICE_EVICT_DIAG,
     "mlx5_core <pcif>: Port module event[error]: module <small>, Cable error, Bus stuck(I2C or "
     "data shorted)"},
    {CARRIER_KERNEL, LABEL_BENIGN, ADVICE_NONE,
     "mlx5_core <pcif>: mlx5_cmd_out_err:<n>:(pid <pid>): ACCESS_REG(0x805) op_mod(0x1) failed, "
     "status bad operation(0x2), syndrome (0x<hex8>), err(-22)"},
    {CARRIER_KERNEL, LABEL_BENIGN, ADVICE_NONE,
     "mlx5_core <pcif>: mlx5_cmd_check:<n>:(pid <pid>): ACCESS_REG(0x805) op_mod(0x0) failed, "
     "status bad parameter(0x3), syndrome (0x<hex8>)"},
    {CARRIER_KERNEL, LABEL_BENIGN, ADVICE_NONE,
     "mlx5_core <pcif>: mlx5_pcie_event:<n>:(pid <pid>): Detected insufficient power on the PCIe "
     "slot (<small>W)."},
    {CARRIER_KERNEL, LABEL_BENIGN, ADVICE_NONE, "mlx5_core <pcif> <eth>: renamed from eth<small>"},
    {CARRIER_KERNEL, LABEL_BENIGN, ADVICE_NONE, "mlx5_core <pcif> <eth>: Link up"},
    {CARRIER_KERNEL, LABEL_NETWORK, ADVICE_WATCH, "mlx5_core <pcif> <eth>: Link down"},
    {CARRIER_KERNEL, LABEL_NETWORK, ADVICE_WATCH, "mlx5_core <pcif> <eth>: TX timeout detected"},
    {CARRIER_KERNEL, LABEL_NETWORK, ADVICE_WATCH,
     "mlx5_core <pcif> <eth>: TX timeout on queue: <small>, SQ: <hex>, CQ: <hex>, SQ Cons: <hex> "
     "SQ Prod: <hex>, usecs since last trans: <n>"},
    {CARRIER_KERNEL, LABEL_NETWORK, ADVICE_WATCH,
     "NETDEV WATCHDOG: <eth> (mlx5_core): transmit queue <small> timed out"},
    {CARRIER_KERNEL, LABEL_NETWORK, ADVICE_WATCH, "bnxt_en <pcif> <eth>: NIC Link is Down"},
    {CARRIER_KERNEL, LABEL_NETWORK, ADVICE_WATCH,
     "bond0: (slave <eth>): link status definitely down, disabling slave"},
    {CARRIER_KERNEL, LABEL_FACILITY, ADVICE_WATCH,
     "CPU<small>: Package temperature is above threshold, cpu clock is throttled (total events = "
     "<n>)"},
    {CARRIER_KERNEL, LABEL_FACILITY, ADVICE_WATCH,
     "mce: CPU<small>: Core temperature above threshold, cpu clock throttled (total events = <n>)"},
    {CARRIER_KERNEL, LABEL_BENIGN, ADVICE_NONE,
     "mce: CPU<small>: Package temperature/speed normal"},
    /* NCCL */
    {CARRIER_NCCL, LABEL_NETWORK, ADVICE_RESTART,
     "NCCL WARN NET/IB : Got completion from peer <ip><<n>> with error 12, opcode <small>, len "
     "<n>, vendor err 129"},
    {CARRIER_NCCL, LABEL_NETWORK, ADVICE_RESTART,
     "NCCL WARN NET/IB : Got completion from peer <ip><<n>> with status=12 opcode=<small> len=<n> "
     "vendor err 129 (Send) localGid ::ffff:<ip> remoteGids::ffff:<ip> hca <ib>"},
    {CARRIER_NCCL, LABEL_NETWORK, ADVICE_RESTART,
     "NCCL WARN NET/IB: Got completion from peer <host><<n>> with status=IBV_WC_RETRY_EXC_ERR(12) "
     "opcode=IBV_WC_SEND(<small>) vendor_err=129  hca <ib>"},
    {CARRIER_NCCL, LABEL_NETWORK, ADVICE_RESTART,
     "NCCL WARN NET/IB : Got completion with error 12, opcode <small>, len <n>, vendor err 129"},
    {CARRIER_NCCL, LABEL_CASCADE, ADVICE_FOLLOW,
     "NCCL WARN NET/IB : Got completion from peer <ip><<n>> with error 5, opcode <small>, len 0, "
     "vendor err 249 (Recv)"},
    {CARRIER_NCCL, LABEL_CASCADE, ADVICE_FOLLOW,
     "NCCL WARN NET/IB : Got completion from peer <ip><<n>> with status=5 opcode=<small> len=0 "
     "vendor err 249 (Recv) hca <ib>"},
    {CARRIER_NCCL, LABEL_CASCADE, ADVICE_FOLLOW,
     "NCCL WARN NET/IB: Got completion from peer <ip><<n>> with status=IBV_WC_WR_FLUSH_ERR(5) "
     "opcode=IBV_WC_RECV(<n>) vendor_err=249  hca <ib>"},
    {CARRIER_NCCL, LABEL_NETWORK, ADVICE_EVICT_DIAG,
     "NCCL WARN NET/IB : Got completion from peer <ip><<n>> with status=4 opcode=<small> len=<n> "
     "vendor err 81 (Send)"},
    {CARRIER_NCCL, LABEL_NETWORK, ADVICE_WATCH,
     "NCCL WARN NET/IB : <ib>:1 Got non-fatal async event: port error(10)"},
    {CARRIER_NCCL, LABEL_BENIGN, ADVICE_NONE,
     "NCCL WARN NET/IB : <ib>:1 Got non-fatal async event: port active(9)"},
    {CARRIER_NCCL, LABEL_NETWORK, ADVICE_EVICT_DIAG,
     "NCCL WARN Call to ibv_modify_qp failed with error Network is unreachable"},
    {CARRIER_NCCL, LABEL_SOFTWARE, ADVICE_EVICT,
     "NCCL WARN Call to ibv_modify_qp failed with error No such device"},
    {CARRIER_NCCL, LABEL_CASCADE, ADVICE_FOLLOW,
     "NCCL WARN socketProgress: Connection closed by remote peer <host>.ib<<n>>"},
    {CARRIER_NCCL, LABEL_CASCADE, ADVICE_FOLLOW,
     "NCCL WARN Net : Connection closed by remote peer <ip><<n>>"},
    {CARRIER_NCCL, LABEL_CASCADE, ADVICE_FOLLOW,
     "NCCL WARN socketStartConnect: Connect to <ip><<n>> failed : Connection refused"},
    {CARRIER_NCCL, LABEL_CASCADE, ADVICE_FOLLOW,
     "NCCL WARN socketPollConnect: connect returned Connection refused, exceeded error retry count "
     "(<n>)"},
    {CARRIER_NCCL, LABEL_CASCADE, ADVICE_FOLLOW,
     "NCCL WARN NET/Socket : peer <ip><<n>> closed; ncclRemoteError: A call failed possibly due to "
     "a network error or a remote process exiting prematurely."},
    {CARRIER_NCCL, LABEL_CASCADE, ADVICE_FOLLOW,
     "NCCL WARN [Proxy Service <small>] Failed to execute operation Connect from rank <n>, retcode "
     "2"},
    {CARRIER_NCCL, LABEL_CASCADE, ADVICE_FOLLOW,
     "NCCL WARN [Service thread] Accept failed Software caused connection abort"},
    {CARRIER_NCCL, LABEL_CASCADE, ADVICE_FOLLOW,
     "NCCL WARN communicator <hex> encountered a fatal error (detected in ncclCommGetAsyncError)"},
    {CARRIER_NCCL, LABEL_USER, ADVICE_FAIL,
     "NCCL WARN Duplicate GPU detected : rank <small> and rank <small> both on CUDA device <hex8>"},
    {CARRIER_NCCL, LABEL_USER, ADVICE_FAIL,
     "NCCL WARN Mismatched NCCL version detected : rank <n> version 22703 rank <n> version 22105"},
    {CARRIER_NCCL, LABEL_USER, ADVICE_FAIL, "NCCL WARN Cuda failure 'out of memory'"},
    {CARRIER_NCCL, LABEL_USER, ADVICE_FAIL, "NCCL WARN Cuda failure 2 'out of memory'"},
    {CARRIER_NCCL, LABEL_USER, ADVICE_RESTART_FAIL,
     "NCCL WARN Cuda failure 'an illegal memory access was encountered'"},
    {CARRIER_OUTPUT, LABEL_SOFTWARE, ADVICE_EVICT_REBOOT,
     "<host>:<pid>:<pid> [0] transport/nvls.cc:<n> NCCL WARN Cuda failure 1 'invalid argument'"},
    {CARRIER_OUTPUT, LABEL_SOFTWARE, ADVICE_EVICT_REBOOT,
     "transport/nvls.cc:<n> NCCL WARN Failed to bind NVLink SHARP (NVLS) Multicast memory of size "
     "<n> : CUDA error 401 'x'"},
    {CARRIER_NCCL, LABEL_BENIGN, ADVICE_NONE,
     "NCCL INFO NET/IB : Using [0]<ib>:1/IB [1]<ib>:1/IB [RO]; OOB <eth>:<ip><0>"},
    {CARRIER_NCCL, LABEL_BENIGN, ADVICE_NONE,
     "NCCL INFO Channel <small>/0 : <small>[0] -> <small>[0] [send] via NET/IB/<small>/GDRDMA"},
    {CARRIER_NCCL, LABEL_BENIGN, ADVICE_NONE,
     "NCCL INFO comm <hex> rank <n> nranks <n> cudaDev <small> busId <hex8> - Init COMPLETE"},
    {CARRIER_NCCL, LABEL_CASCADE, ADVICE_FOLLOW, "NCCL INFO transport/net.cc:<n> -> 6"},
    /* PyTorch */
    {CARRIER_OUTPUT, LABEL_CASCADE, ADVICE_FOLLOW,
     "[Rank <n>] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=<n>, "
     "OpType=ALLREDUCE, NumelIn=<n>, NumelOut=<n>, Timeout(ms)=600000) ran for <n> milliseconds "
     "before timing out."},
    {CARRIER_OUTPUT, LABEL_CASCADE, ADVICE_FOLLOW,
     "[PG ID <small> PG GUID <small>(dp) Rank <n>] Watchdog caught collective operation timeout: "
     "WorkNCCL(SeqNum=<n>, OpType=_ALLGATHER_BASE, NumelIn=<n>, NumelOut=<n>, Timeout(ms)=600000) "
     "ran for <n> milliseconds before timing out."},
    {CARRIER_OUTPUT, LABEL_USER, ADVICE_FAIL,
     "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=BROADCAST, "
     "NumelIn=<n>, Timeout(ms)=1) || [Rank 0] WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=<n>, "
     "Timeout(ms)=1)"},
    {CARRIER_OUTPUT, LABEL_CASCADE, ADVICE_FOLLOW,
     "[PG ID 0 PG GUID 0(default_pg) Rank <n>] Exception (either an error or timeout) detected by "
     "watchdog at work: <n>, last enqueued NCCL work: <n>, last completed NCCL work: <n>."},
    {CARRIER_OUTPUT, LABEL_CASCADE, ADVICE_FOLLOW,
     "[PG ID 1 PG GUID 1 Rank <n>]  failure detected by watchdog at work sequence id: <n> PG "
     "status: last enqueued work: <n>, last completed work: <n>"},
    {CARRIER_OUTPUT, LABEL_CASCADE, ADVICE_FOLLOW,
     "Some NCCL operations have failed or timed out. Due to the asynchronous nature of CUDA "
     "kernels, subsequent GPU operations might run on corrupted/incomplete data."},
    {CARRIER_OUTPUT, LABEL_CASCADE, ADVICE_FOLLOW,
     "To avoid data inconsistency, we are taking the entire process down."},
    {CARRIER_OUTPUT, LABEL_CASCADE, ADVICE_FOLLOW,
     "torch.distributed.DistBackendError: NCCL error in: "
     "../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:<n>, remote process exited or there was "
     "a network error, NCCL version 2.21.5"},
    {CARRIER_OUTPUT, LABEL_USER, ADVICE_RESTART_FAIL,
     "[PG 0 Rank <n>] Process group watchdog thread terminated with exception: CUDA error: an "
     "illegal memory access was encountered"},
    {CARRIER_OUTPUT, LABEL_USER, ADVICE_RESTART_FAIL,
     "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"},
    {CARRIER_OUTPUT, LABEL_USER, ADVICE_RESTART_FAIL,
     "RuntimeError: CUDA error: misaligned address"},
    {CARRIER_OUTPUT, LABEL_CASCADE, ADVICE_FOLLOW,
     "torch.AcceleratorError: CUDA error: unspecified launch failure"},
    {CARRIER_OUTPUT, LABEL_CASCADE, ADVICE_FOLLOW,
     "RuntimeError: CUDA error: unspecified launch failure"},
    {CARRIER_OUTPUT, LABEL_HARDWARE, ADVICE_EVICT_RESET,
     "RuntimeError: CUDA error: uncorrectable ECC error encountered"},
    {CARRIER_OUTPUT, LABEL_HARDWARE, ADVICE_EVICT_RESET,
     "RuntimeError: cuda runtime error (39) : uncorrectable ECC error encountered at "
     "/opt/x/THCGeneral.cpp:<n>"},
    {CARRIER_OUTPUT, LABEL_SOFTWARE, ADVICE_EVICT_DIAG,
     "RuntimeError: CUDA error: all CUDA-capable devices are busy or unavailable"},
    {CARRIER_OUTPUT, LABEL_SOFTWARE, ADVICE_CLEAN,
     "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions "
     "before calling NumCudaDevices()? Error 802: system not yet initialized"},
    {CARRIER_OUTPUT, LABEL_USER, ADVICE_FAIL,
     "RuntimeError: CUDA error: device-side assert triggered"},
    {CARRIER_OUTPUT, LABEL_USER, ADVICE_FAIL,
     "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate <gib> (GPU <small>; <gib> "
     "total capacity; <gib> already allocated; <gib> free; <gib> reserved in total by PyTorch)"},
    {CARRIER_OUTPUT, LABEL_USER, ADVICE_FAIL,
     "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate <gib>. GPU <small> has a total "
     "capacity of <gib> of which <gib> is free."},
    {CARRIER_OUTPUT, LABEL_USER, ADVICE_FAIL,
     "RuntimeError: Error(s) in loading state_dict for GPTModel: size mismatch for decoder.weight: "
     "copying a param with shape torch.Size([<n>, <n>]) from checkpoint"},
    {CARRIER_OUTPUT, LABEL_USER, ADVICE_RESTART_FAIL,
     "terminate called after throwing an instance of 'c10::Error'|  what():  CUDA error: an "
     "illegal memory access was encountered"},
    {CARRIER_OUTPUT, LABEL_CASCADE, ADVICE_FOLLOW,
     "terminate called after throwing an instance of 'c10::DistBackendError'"},
    {CARRIER_OUTPUT, LABEL_USER, ADVICE_RESTART_FAIL,
     "RuntimeError: DataLoader worker (pid <pid>) is killed by signal: Bus error. It is possible "
     "that dataloader's workers are out of shared memory."},
    {CARRIER_OUTPUT, LABEL_USER, ADVICE_RESTART_FAIL,
     "RuntimeError: DataLoader worker (pid <pid>) is killed by signal: Killed."},
    {CARRIER_OUTPUT, LABEL_USER, ADVICE_RESTART_FAIL,
     "RuntimeError: DataLoader worker (pid(s) <pid>, <pid>) exited unexpectedly"},
    {CARRIER_OUTPUT, LABEL_SOFTWARE, ADVICE_CLEAN,
     "RuntimeError: The server socket has failed to listen on any local network address. port: "
     "<n>, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use"},
    {CARRIER_OUTPUT, LABEL_CASCADE, ADVICE_FOLLOW,
     "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:"},
    {CARRIER_OUTPUT, LABEL_CASCADE, ADVICE_FOLLOW,
     "failed (exitcode: <small>) local_rank: <small> (pid: <pid>) of binary: /usr/bin/python3"},
    {CARRIER_OUTPUT, LABEL_OPERATOR, ADVICE_STOP_EXPECTED,
     "torch.distributed.elastic.multiprocessing.api.SignalException: Process <pid> got signal: 15"},
    {CARRIER_OUTPUT, LABEL_HARDWARE, ADVICE_EVICT_DIAG,
     "ERROR:megatron.core.rerun_state_machine:Possible persistent error!"},
    {CARRIER_OUTPUT, LABEL_TRANSIENT, ADVICE_WATCH,
     "WARNING:megatron.core.rerun_state_machine:Possible transient error!"},
    {CARRIER_OUTPUT, LABEL_BENIGN, ADVICE_NONE,
     " iteration    <n>/  <n> | consumed samples:  <n> | elapsed time per iteration (s): 104.28 | "
     "learning rate: 5.8E-05 | global batch size:  2048 | lm loss: 2.041775E+00 | grad norm: "
     "0.<small> | number of skipped iterations:   0 | number of nan iterations:   0 |"},
    {CARRIER_OUTPUT, LABEL_TRANSIENT, ADVICE_WATCH,
     " iteration    <n>/  <n> | consumed samples:  <n> | elapsed time per iteration (s): 104.28 | "
     "learning rate: 5.8E-05 | lm loss: 2.04E+00 | grad norm: 4<small>.412 | number of nan "
     "iterations:   0 |"},
    {CARRIER_OUTPUT, LABEL_TRANSIENT, ADVICE_WATCH,
     " iteration    <n>/  <n> | consumed samples:  <n> | lm loss: nan | grad norm: nan | number of "
     "nan iterations:   1 |"},
    /* Python */
    {CARRIER_OUTPUT, LABEL_USER, ADVICE_FAIL, "ValueError: optimizer got an empty parameter list"},
    {CARRIER_OUTPUT, LABEL_USER, ADVICE_FAIL, "KeyError: 'labels'"},
    {CARRIER_OUTPUT, LABEL_USER, ADVICE_FAIL,
     "TypeError: forward() got an unexpected keyword argument 'x<small>'"},
    {CARRIER_OUTPUT, LABEL_USER, ADVICE_FAIL,
     "AttributeError: 'NoneType' object has no attribute 'shape'"},
    {CARRIER_OUTPUT, LABEL_USER, ADVICE_FAIL, "IndexError: list index out of range"},
    {CARRIER_OUTPUT, LABEL_USER, ADVICE_FAIL,
     "AssertionError: world size (<n>) is not divisible by <small>"},
    {CARRIER_OUTPUT, LABEL_USER, ADVICE_FAIL, "ModuleNotFoundError: No module named 'apex<small>'"},
    {CARRIER_OUTPUT, LABEL_USER, ADVICE_FAIL,
     "ImportError: libcudnn.so.<small>: cannot open shared object file: No such file or directory"},
    {CARRIER_OUTPUT, LABEL_USER, ADVICE_FAIL,
     "FileNotFoundError: [Errno 2] No such file or directory: '<path>'"},
    {CARRIER_OUTPUT, LABEL_USER, ADVICE_FAIL,
     "PermissionError: [Errno 13] Permission denied: '<path>'"},
    {CARRIER_OUTPUT, LABEL_STORAGE, ADVICE_HOLD_STORAGE,
     "OSError: [Errno 122] Disk quota exceeded: '<path>'"},
    {CARRIER_OUTPUT, LABEL_STORAGE, ADVICE_HOLD_STORAGE,
     "OSError: [Errno 28] No space left on device: '<path>'"},
    {CARRIER_OUTPUT, LABEL_STORAGE, ADVICE_HOLD_STORAGE,
     "OSError: [Errno 5] Input/output error: '<path>'"},
    {CARRIER_OUTPUT, LABEL_STORAGE, ADVICE_HOLD_STORAGE,
     "OSError: [Errno 116] Stale file handle: '<path>'"},
    {CARRIER_OUTPUT, LABEL_SOFTWARE, ADVICE_CLEAN,
     "OSError: [Errno 28] No space left on device: '/tmp/cache<small>'"},
    {CARRIER_OUTPUT, LABEL_STORAGE, ADVICE_RESTART,
     "UnicodeDecodeError: 'utf-8' codec can't decode byte 0x<small> in position <n>: invalid start "
     "byte"},
    {CARRIER_OUTPUT, LABEL_STORAGE, ADVICE_HOLD_STORAGE,
     "RuntimeError: [enforce fail at inline_container.cc:<n>] . unexpected pos <n> vs <n>"},
    {CARRIER_OUTPUT, LABEL_STORAGE, ADVICE_RESTART,
     "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central "
     "directory"},
    {CARRIER_OUTPUT, LABEL_CASCADE, ADVICE_FOLLOW,
     "ConnectionRefusedError: [Errno 111] Connection refused"},
    {CARRIER_OUTPUT, LABEL_CASCADE, ADVICE_FOLLOW, "BrokenPipeError: [Errno 32] Broken pipe"},
    {CARRIER_OUTPUT, LABEL_BENIGN, ADVICE_NONE,
     "/opt/x/site-packages/torch/nn/modules/module.py:<n>: UserWarning: something will change"},
    /* MPI, the scheduler */
    {CARRIER_OUTPUT, LABEL_CASCADE, ADVICE_FOLLOW,
     "mpirun noticed that process rank <small> with PID <pid> on node <host> exited on signal 9 "
     "(Killed)."},
    {CARRIER_OUTPUT, LABEL_CASCADE, ADVICE_FOLLOW,
     "MPI_ABORT was invoked on rank <n> in communicator MPI_COMM_WORLD"},
    {CARRIER_OUTPUT, LABEL_NETWORK, ADVICE_RESTART,
     "[<n>.<n>] [<host>:<pid>:0] ib_mlx5_log.c:<n> UCX  ERROR Transport retry count exceeded on "
     "<ib>:1/IB (synd 0x15 vend 0x81 hw_synd 0/0)"},
    {CARRIER_OUTPUT, LABEL_OPERATOR, ADVICE_STOP_EXPECTED,
     "slurmstepd: error: *** JOB <n> ON <host> CANCELLED AT 2021-05-24T09:50:34 DUE TO TIME LIMIT "
     "***"},
    {CARRIER_OUTPUT, LABEL_OPERATOR, ADVICE_STOP_EXPECTED,
     "slurmstepd: error: *** STEP <n>.0 ON <host> CANCELLED AT 2021-05-24T09:50:34 ***"},
    {CARRIER_OUTPUT, LABEL_CASCADE, ADVICE_FOLLOW,
     "slurmstepd: error: *** JOB <n> ON <host> CANCELLED AT 2021-05-24T09:50:34 DUE TO NODE "
     "FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***"},
    {CARRIER_OUTPUT, LABEL_USER, ADVICE_RESTART_FAIL,
     "slurmstepd: error: Detected <small> oom_kill events in StepId=<n>.0. Some of the step tasks "
     "have been OOM Killed."},
    {CARRIER_OUTPUT, LABEL_CASCADE, ADVICE_FOLLOW,
     "srun: error: <host>: task <n>: Exited with exit code 1"},
    /* readings */
    {CARRIER_NONE, LABEL_FACILITY, ADVICE_WATCH,
     "gpu=<small> clocks_event_reasons=0x0000000000000048 (hw_slowdown,hw_thermal_slowdown) "
     "sm_clock=<n> temp=<small>"},
    {CARRIER_NONE, LABEL_FACILITY, ADVICE_WATCH,
     "agent: gpu=<small> clocks_event_reasons=0x0000000000000080 (hw_power_brake_slowdown) "
     "sm_clock=<n> temp=<small>"},
    {CARRIER_NONE, LABEL_BENIGN, ADVICE_NONE,
     "gpu=<small> clocks_event_reasons=0x0000000000000004 (sw_power_cap) sm_clock=<n> "
     "temp=<small>"},
};
const size_t line_kind_count = ARRAY_SIZE(line_kinds);
