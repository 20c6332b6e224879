"""cluster_witness.py RECORD COMMAND...: becomes the command, but first adds to RECORD one JSON line
about this start of a rank: who it is, and which processes of older attempts of its job are alive on
its node at this moment. RECORD.old may list pids, one a line as `node pid`, that no environment
would give away."""

import json
import os
import pathlib
import sys


def is_alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")",
                                                                    1)[1].split()[0] not in "ZX"
    except (OSError, IndexError):
        return False


def environment(pid):
    try:
        words = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return {}
    return dict(word.decode(errors="replace").split("=", 1) for word in words if b"=" in word)


def older(pid, own):
    """Whether a process is a rank, or a child of one, of an older attempt on this node."""
    other = environment(pid)
    place = other.get("KEEPSTEP_MAILBOX",
                      "").partition("/nodes/")[0] # another cluster is no concern
    return own["KEEPSTEP_MAILBOX"].startswith(place + "/nodes/") and \
        all(other.get(key) == own[key] for key in ("KEEPSTEP_JOB", "KEEPSTEP_NODE")) and \
        int(other.get("KEEPSTEP_ATTEMPT", own["KEEPSTEP_ATTEMPT"])) < int(own["KEEPSTEP_ATTEMPT"])


def main():
    record, command = sys.argv[1], sys.argv[2:]
    own = dict(os.environ)
    left = [int(entry) for entry in os.listdir("/proc") if entry.isdigit()
            and older(entry, own) and is_alive(entry)]
    if os.path.exists(record + ".old") and own["KEEPSTEP_ATTEMPT"] != "0":
        for line in pathlib.Path(record + ".old").read_text().splitlines():
            node, pid = line.split()
            if node == own["KEEPSTEP_NODE"] and is_alive(pid):
                left.append(int(pid))
    line = {"rank": int(own["RANK"]), "attempt": int(own["KEEPSTEP_ATTEMPT"]), "left": left,
            "node": own["KEEPSTEP_NODE"], "port": int(own["MASTER_PORT"])}
    file = os.open(record, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.write(file, (json.dumps(line) + "\n").encode())
    os.close(file)
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
