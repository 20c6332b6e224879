"""controller_lib.py: starts real controllers, and speaks just enough of the wire protocol to be an
agent that says hello. Python's standard library only."""

import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

BUILD = os.environ.get("KEEPSTEP_BUILD", "build")
PROGRAM = os.path.join(BUILD, "keepstep-controller")
HELLO, BEAT, WELCOME, ACK = 1, 2, 32, 33
PROTOCOL = 1 << 16


def varint(number):
    out = bytearray()
    while True:
        if number < 0x80:
            out.append(number)
            return bytes(out)
        out.append(number & 0x7F | 0x80)
        number >>= 7


def field(number, value):
    """One protobuf field: an int or bool as varint, bytes or str as length-delimited."""
    if isinstance(value, (int, bool)):
        return varint(number << 3) + varint(int(value))
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def frame(kind, body, version=1, size=None):
    return struct.pack(">4sBBHI", b"KSTP", version, kind, 0,
                       len(body) if size is None else size) + body


def hello(node, boot="11111111-1111-1111-1111-111111111111", incarnation=1, cluster=""):
    body = field(2, node) + field(3, boot) + field(4, incarnation) + field(8, PROTOCOL)
    body += field(9, "127.0.0.1") + field(10, 9)
    if cluster:
        body = field(1, cluster) + body
    return frame(HELLO, body)


def decode(body):
    """{field number: last value} of a protobuf message without groups and fixed-size fields."""
    fields, at = {}, 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = body[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    while at < len(body):
        key = number()
        if key & 7 == 0:
            fields[key >> 3] = number()
        elif key & 7 == 2:
            size = number()
            fields[key >> 3] = body[at:at + size]
            at += size
        else:
            raise ValueError("wire type %d" % (key & 7))
    return fields


class Agent:
    """One connection to the agents' port."""

    def __init__(self, port, host="127.0.0.1"):
        self.socket = socket.create_connection((host, port), timeout=10)
        self.bytes = b""

    def send(self, data):
        self.socket.sendall(data)

    def take(self):
        """(kind, fields) of the next frame; None at the end of the connection."""
        while True:
            if len(self.bytes) >= 12:
                size = struct.unpack(">I", self.bytes[8:12])[0]
                if len(self.bytes) >= 12 + size:
                    kind, body = self.bytes[5], self.bytes[12:12 + size]
                    self.bytes = self.bytes[12 + size:]
                    return kind, decode(body)
            try:
                part = self.socket.recv(65536)
            except ConnectionResetError:
                return None
            if not part:
                return None
            self.bytes += part

    def is_ended(self):
        while True:
            got = self.take()
            if got is None:
                return True

    def close(self):
        self.socket.close()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Controller:
    """A controller in a folder of its own; `with` ends it and removes the folder."""

    def __init__(self, *flags, folder=None, port=None, config="", start=True):
        self.own_folder = folder is None
        self.folder = folder or tempfile.mkdtemp(prefix="keepstep-e2e-")
        self.port = port or free_port()
        self.database = os.path.join(self.folder, "k.db")
        self.config = os.path.join(self.folder, "controller.yaml")
        self.flags = flags
        self.log_path = os.path.join(self.folder, "log")
        with open(self.config, "w") as file:
            file.write("timing:\n  start_grace: 100ms\n  start_quiet: 50ms\n"
                       "log:\n  format: json\n" + config)
        self.process = None
        if start:
            self.start()
            self.wait_ready()

    def start(self, *more):
        log = open(self.log_path, "ab")
        self.process = subprocess.Popen(
            [PROGRAM, "--config", self.config, "--database", self.database,
             "--listen-agents", "127.0.0.1:%d" % self.port, "--listen-rest", "",
             "--listen-socket", "", *self.flags, *more],
            stderr=log, stdin=subprocess.DEVNULL)
        log.close()

    def log(self):
        with open(self.log_path) as file:
            return [json.loads(line) for line in file if line.startswith("{")]

    def log_text(self):
        with open(self.log_path) as file:
            return file.read()

    def events(self, name):
        return [line for line in self.log() if line["event"] == name]

    def wait_for(self, test, what, seconds=10):
        until = time.monotonic() + seconds
        while not test():
            if time.monotonic() > until or self.process.poll() is not None and not test():
                sys.exit("no %s; status %s\n%s" % (what, self.process.poll(), self.log_text()))
            time.sleep(0.01)

    def wait_ready(self, times=1):
        self.wait_for(lambda: len(self.events("ready")) >= times, "readiness")

    def wait_end(self, seconds=20):
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            sys.exit("the controller did not end\n" + self.log_text())

    def stop(self, number=signal.SIGTERM):
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)
            return self.wait_end()
        return None if self.process is None else self.process.returncode

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.stop(signal.SIGKILL)
        if self.own_folder:
            shutil.rmtree(self.folder, ignore_errors=True)


def check(condition, text):
    if not condition:
        sys.exit("FAILED: " + text)


def same(got, wanted, text):
    check(got == wanted, "%s: %r, wanted %r" % (text, got, wanted))
