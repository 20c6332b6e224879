#!/usr/bin/env python3
"""rest_load.py: many clients that look at a controller, each at a fixed pace.

    rest_load.py SOCKET SECONDS CLIENTS RATE PATH...

Each client keeps one connection and asks RATE times a second for one path after the other, every
third time with the entity tag that it was given last. An answer's time counts from the moment when
it should have been asked for, so that a slow one makes those behind it slow too. Prints one JSON
line: {"times_ms": [...], "statuses": {"200": n, "304": n}, "bytes": n}.
"""

import json
import selectors
import socket
import sys
import time


class Client:
    def __init__(self, path, at, gap, paths, turn):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.connect(path)
        self.socket.setblocking(False)
        self.at, self.gap, self.paths, self.turn = at, gap, paths, turn
        self.tags = {}
        self.busy = False
        self.got = bytearray()
        self.whole = None  # bytes of the answer under way, once its head is there

    def ask(self):
        path = self.paths[self.turn % len(self.paths)]
        self.path = path
        tag = self.tags.get(path) if self.turn % 3 == 0 else None
        more = f"If-None-Match: {tag}\r\n" if tag else ""
        self.turn += 1
        self.busy = True
        self.due = self.at
        self.at += self.gap
        self.socket.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{more}\r\n".encode())

    def read_head(self):
        end = self.got.find(b"\r\n\r\n")
        if end < 0:
            return
        lines = self.got[:end].decode().split("\r\n")
        self.status = int(lines[0].split()[1])
        heads = {name.lower(): value.strip() for name, _, value in
                 (line.partition(":") for line in lines[1:])}
        if "etag" in heads:
            self.tags[self.path] = heads["etag"]
        if heads.get("transfer-encoding") == "chunked":
            raise ValueError("a chunked answer: its size is not known before")
        size = 0 if self.status == 304 else int(heads.get("content-length", "0"))
        self.whole = end + 4 + size

    def take(self):
        """(status, bytes) when the answer is whole, else None."""
        part = self.socket.recv(1 << 20)
        if not part:
            raise ConnectionError("the controller closed a connection")
        self.got += part
        if self.whole is None:
            self.read_head()
        if self.whole is None or len(self.got) < self.whole:
            return None
        size = self.whole
        self.got.clear()
        self.whole = None
        self.busy = False
        return self.status, size


def main():
    path, seconds, count, rate, *paths = sys.argv[1:]
    begin = time.monotonic() + 0.2
    end = begin + float(seconds)
    gap = 1 / float(rate)
    clients = [Client(path, begin + gap * index / int(count), gap, paths, index)
               for index in range(int(count))]
    selector = selectors.DefaultSelector()
    for client in clients:
        selector.register(client.socket, selectors.EVENT_READ, client)
    times, statuses, size = [], {}, 0
    while True:
        now = time.monotonic()
        idle = [client for client in clients if not client.busy]
        if now >= end and len(idle) == len(clients):
            break
        for client in idle:
            if client.at <= now < end:
                client.ask()
        soonest = min((client.at for client in clients if not client.busy), default=now + 0.05)
        for key, _ in selector.select(min(0.05, max(0.0, soonest - time.monotonic()))):
            answer = key.data.take()
            if answer is not None:
                times.append(round((time.monotonic() - key.data.due) * 1e3, 3))
                statuses[str(answer[0])] = statuses.get(str(answer[0]), 0) + 1
                size += answer[1]
    print(json.dumps({"times_ms": times, "statuses": statuses, "bytes": size}))


if __name__ == "__main__":
    main()
