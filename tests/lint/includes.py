#!/usr/bin/env python3
"""Checks every #include against the table of rooms: who may know whom.

The table below is the design's own (architecture, "Who may know whom"). A file that breaks it is
moved or rewritten; the table is not. Prints `file:line: what` and ends with 1 when there is one.
"""
import os
import re
import sys

# Header -> library. Everything that is not here and not ours is libc.
LIBRARIES = [
    (r"uv\.h", "uv"),
    (r"sqlite3(ext)?\.h", "sqlite"),
    (r"(google/)?protobuf-c/.*", "protobuf"),
    (r".*\.pb-c\.h", "protobuf"),
    (r"curl/.*", "curl"),
    (r"jansson\.h", "jansson"),
    (r"yaml\.h", "yaml"),
    (r"microhttpd\.h", "microhttpd"),
    (r"gnutls/.*", "gnutls"),
    (r"xxhash\.h", "xxhash"),
    (r"(cuda|nccl|nvml|cublas).*", "cuda"),
    (r"math\.h|tgmath\.h|complex\.h|fenv\.h", "libm"),
    (r"pthread\.h|threads\.h|semaphore\.h", "threads"),
    (r"sys/socket\.h|sys/un\.h|netinet/.*|arpa/.*|netdb\.h|net/.*", "sockets"),
]

# What a pure room may include of libc. string.h and stdio.h (for vsnprintf) also have functions
# that it must not call: the check of symbols finds those.
PURE_HEADERS = {
    "assert.h", "errno.h", "inttypes.h", "limits.h", "stdalign.h", "stdarg.h", "stdbool.h",
    "stddef.h", "stdint.h", "stdio.h", "string.h",
}

PURE_BASE = ["err", "check", "prng", "hash", "heap", "sort", "text", "hostlist", "duration",
             "message", "signal"]
PURE_BASE_HEADERS = {f"proto/base/{name}.h" for name in PURE_BASE}

# What core_create may use besides: its allocator.
CORE_BASE_HEADERS = PURE_BASE_HEADERS | {"proto/base/mem.h"}

# Shapes of files and messages that two processes share: plain structs, no code.
SHARED_SHAPES = {"agent/rank/mailbox.h", "agent/shim/shim.h"}


class Room:
    def __init__(self, rooms, libraries=(), pure=False, headers=()):
        self.rooms = set(rooms)          # rooms whose headers it may include, besides its own
        self.libraries = set(libraries)
        self.pure = pure                 # only PURE_HEADERS of libc
        self.headers = set(headers)      # single headers of other rooms


SHELL = {"threads", "sockets"}

ROOMS = {
    "proto/base": Room([], SHELL),
    "proto/base/config": Room(["proto/base"], {"jansson", "yaml"}),
    "proto/wire": Room(["proto/base"], {"protobuf", "sockets"}),
    "controller/core": Room([], pure=True, headers=CORE_BASE_HEADERS),
    "agent/core": Room([], pure=True, headers=CORE_BASE_HEADERS),
    "db": Room(["proto/base", "proto/base/config", "controller/core"],
               {"sqlite", "jansson", "threads"}),
    "controller/io": Room(
        ["proto/base", "proto/base/config", "proto/wire", "controller/core", "controller/api",
         "db"],
        {"uv", "microhttpd", "gnutls", "curl", "jansson"} | SHELL),
    "controller/api": Room(
        ["proto/base", "proto/base/config", "proto/wire", "controller/core", "controller/io",
         "db"],
        {"uv", "microhttpd", "gnutls", "curl", "jansson"} | SHELL),
    "controller/cli": Room(["proto/base", "proto/base/config"], {"curl", "jansson", "sockets"}),
    "controller/sim": Room(["controller/core", "agent/core", "proto/base"]),
    "controller/tools": Room(
        ["controller/core", "agent/core", "controller/sim", "db", "proto/wire", "proto/base",
         "proto/base/config"],
        {"uv", "jansson", "gnutls"} | SHELL),
    "agent/io": Room(
        ["agent/core", "agent/probe", "proto/wire", "proto/base", "proto/base/config"],
        {"uv", "gnutls", "xxhash", "jansson"} | SHELL, headers=SHARED_SHAPES),
    "agent/probe": Room(
        ["agent/core", "proto/wire", "proto/base"],
        {"uv", "gnutls", "xxhash"} | SHELL, headers=SHARED_SHAPES),
    "agent/shim": Room([], {"sockets"}),
    "agent/rank": Room([], {"xxhash", "sockets", "threads"}),
    "agent/trainer": Room([], {"libm", "xxhash", "cuda"} | SHELL,
                          headers={"agent/rank/keepstep.h"}),
}
# Main files wire the rooms of their side together.
ROOMS["agent"] = Room(
    ["agent/io"] + sorted(ROOMS["agent/io"].rooms), ROOMS["agent/io"].libraries,
    headers=SHARED_SHAPES)
ROOMS["controller"] = Room(
    ["controller/io"] + sorted(ROOMS["controller/io"].rooms), ROOMS["controller/io"].libraries)

INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')


def room_of(path):
    """The room of a file or header of ours; None when it is not in a room."""
    if path.startswith("proto/base/config"):
        return "proto/base/config"
    folder = os.path.dirname(path)
    while folder and folder not in ROOMS:
        folder = os.path.dirname(folder)
    return folder or None


def library_of(header):
    for pattern, library in LIBRARIES:
        if re.fullmatch(pattern, header):
            return library
    return None


def is_pure_file(path):
    name = os.path.basename(path).rsplit(".", 1)[0]
    return path.startswith("proto/base/") and name in PURE_BASE


def fault_of(path, header, quoted):
    """What is wrong with this include; None when nothing is."""
    name = room_of(path)
    room = ROOMS[name]
    library = library_of(header)
    if library is not None:
        if library not in room.libraries:
            return f"{name} must not use {library}"
        return None
    if quoted:
        if os.path.dirname(header) == "":
            return f'write the path from the project root, not "{header}"'
        if header.endswith(".inc"):
            return None  # generated text
        other = room_of(header)
        if is_pure_file(path) and other == "proto/base" and header not in PURE_BASE_HEADERS:
            return f"the pure part of base must not include {header}"
        if other == name or other in room.rooms or header in room.headers:
            return None
        return f"{name} must not know {other or header}"
    if room.pure and header not in PURE_HEADERS:
        return f"{name} is pure and must not include <{header}>"
    if is_pure_file(path) and header not in PURE_HEADERS:
        # The assertion handler ends the process.
        if (os.path.basename(path), header) != ("check.c", "stdlib.h"):
            return f"the pure part of base must not include <{header}>"
    return None


def main():
    faults = 0
    for path in sys.argv[1:]:
        if room_of(path) is None:
            continue
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                match = INCLUDE.match(line)
                if match is None:
                    continue
                header = match.group(1) or match.group(2)
                fault = fault_of(path, header, match.group(1) is not None)
                if fault is not None:
                    print(f"{path}:{number}: {fault}")
                    faults += 1
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
