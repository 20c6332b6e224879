"""torchrun_probe.py: a rank that writes down what it was given, and ends.

    torchrun_probe.py OUT        writes OUT-RANK.json: {fact: value}, all texts
    torchrun_probe.py --odd COMMAND...
                                 becomes COMMAND in an unusual state, as a daemon or a shell
                                 may hand it down: a launcher passes each thing on, or does not

A fact that has no meaning outside its process (a pid, a descriptor's number of this program) is
given as what it amounts to: `own`, or `the launcher's`. Only the standard library is used."""

import json
import os
import pwd
import resource
import signal
import stat
import sys

LIMITS = [name for name in dir(resource) if name.startswith("RLIMIT_")]
ODD_OPEN_FILES = 512
ODD_MEMLOCK = 65536
ODD_NICE = 3
ODD_OOM_SCORE = 300
ODD_UMASK = 0o077
# SIGPIPE and SIGXFSZ are missing here: Python sets both by itself, whatever it was given.
ODD_IGNORED = (signal.SIGHUP, signal.SIGINT, signal.SIGUSR1)
ODD_BLOCKED = (signal.SIGUSR2, signal.SIGWINCH)


def odd(command):
    """What a launcher may have been given by its own starter, all at once."""
    for name, soft in (("RLIMIT_NOFILE", ODD_OPEN_FILES), ("RLIMIT_MEMLOCK", ODD_MEMLOCK)):
        number = getattr(resource, name)
        resource.setrlimit(number, (soft, resource.getrlimit(number)[1]))
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
    with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write(str(ODD_OOM_SCORE))
    os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
    if os.geteuid() == 0:  # the groups that a login gives: a container's root may have none
        os.initgroups(pwd.getpwuid(0).pw_name, 0)
    os.nice(ODD_NICE)
    os.umask(ODD_UMASK)
    for number in ODD_IGNORED:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, ODD_BLOCKED)
    os.set_inheritable(os.open("/dev/null", os.O_RDWR), True)  # a descriptor that leaks
    os.execvp(command[0], command)


def status():
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)


def signals_of(mask):
    bits = int(mask, 16)
    names = []
    for number in range(1, 65):
        if number in (32, 33):
            continue  # the C library's own: nobody else can set them
        if bits >> (number - 1) & 1:
            try:
                names.append(signal.Signals(number).name)
            except ValueError:
                names.append(str(number))
    return " ".join(names) or "none"


def descriptor(number):
    """What kind of file it is, by where it leads and how it was opened."""
    try:
        info = os.fstat(number)
    except OSError:
        return "closed"
    with open(f"/proc/self/fdinfo/{number}", encoding="ascii") as file:
        flags = int(dict(line.split(":\t") for line in file)["flags"], 8)
    mode = {os.O_RDONLY: "read", os.O_WRONLY: "write", os.O_RDWR: "read and write"}[flags & 3]
    if flags & os.O_APPEND:
        mode += ", append"
    if stat.S_ISREG(info.st_mode):
        return f"a file, {mode}"
    if stat.S_ISFIFO(info.st_mode):
        return f"a pipe, {mode}"
    return f"{os.readlink(f'/proc/self/fd/{number}')}, {mode}"


def descriptors():
    facts = {f"descriptor {number}": descriptor(number) for number in range(3)}
    others = sorted(int(name) for name in os.listdir("/proc/self/fd"))
    facts["descriptors above 2"] = "; ".join(
        descriptor(number) for number in others[3:] if descriptor(number) != "closed") or "none"
    return facts


def parent():
    with open(f"/proc/{os.getppid()}/comm", encoding="utf-8") as file:
        return file.read().strip()


def family():
    own = os.getpid()
    try:
        os.close(os.open("/dev/tty", os.O_RDWR))
        terminal = "one"
    except OSError:
        terminal = "none"
    return {"session": "own" if os.getsid(0) == own else "the launcher's",
            "process group": "own" if os.getpgid(0) == own else "the launcher's",
            "terminal": terminal, "parent": parent()}


def limits():
    def text(value):
        return "unlimited" if value == resource.RLIM_INFINITY else str(value)
    facts = {}
    for name in LIMITS:
        if name == "RLIMIT_OFILE":  # another name of RLIMIT_NOFILE
            continue
        soft, hard = resource.getrlimit(getattr(resource, name))
        if soft == hard:
            value = "the hard limit"
        else:
            value = text(soft)
        facts[f"limit {name[7:].lower()}"] = value
        facts[f"hard limit {name[7:].lower()}"] = text(hard)
    return facts


def process():
    mask = os.umask(0)
    os.umask(mask)
    lines = status()
    with open("/proc/self/oom_score_adj", encoding="ascii") as file:
        score = file.read().strip()
    with open("/proc/self/timerslack_ns", encoding="ascii") as file:
        slack = file.read().strip()
    return {"arguments": " ".join(sys.argv[2:]), "interpreter": sys.executable,
            "unbuffered": str(sys.stdout.write_through), "folder": os.getcwd(),
            "umask": f"{mask:04o}", "nice": str(os.nice(0)),
            "scheduler": str(os.sched_getscheduler(0)),
            "processors": "all" if os.cpu_count() == len(os.sched_getaffinity(0)) else
                          str(len(os.sched_getaffinity(0))),
            "signals blocked": signals_of(lines["SigBlk"]),
            "signals ignored": signals_of(lines["SigIgn"]),
            "user": f"{os.getresuid()}", "group": f"{os.getresgid()}",
            "groups": " ".join(map(str, sorted(os.getgroups()))),
            "capabilities": lines["CapEff"].strip(),
            "no new privileges": lines["NoNewPrivs"].strip(),
            "oom score": score, "timer slack": slack}


def main():
    if sys.argv[1] == "--odd":
        odd(sys.argv[2:])
    facts = {f"${name}": value for name, value in os.environ.items()}
    errors = os.path.dirname(os.environ["TORCHELASTIC_ERROR_FILE"])
    facts["an error file"] = "can be written" if os.access(errors, os.W_OK) else "is refused"
    for part in (process(), family(), descriptors(), limits()):
        facts.update(part)
    with open(f"{sys.argv[1]}-{os.environ['RANK']}.json", "w", encoding="utf-8") as file:
        json.dump(facts, file, indent=1, sort_keys=True)


if __name__ == "__main__":
    main()
