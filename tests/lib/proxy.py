"""proxy.py: a TCP proxy between agents and their controller that knows where frames begin and end.

For each whole frame it asks a function of the test what to do with it: PASS it on, DROP it, send it
TWICE, KEEP it for later, or CUT the connection instead. What is kept goes out when the test says
so, over the node's present connection: a message that was long on its way. Only for agents without
TLS. Python's standard library only.
"""

import contextlib
import socket
import struct
import threading

PASS, DROP, TWICE, KEEP, CUT = "pass", "drop", "twice", "keep", "cut"
HEADER = 12  # bytes: magic, version, kind, flags, size of the body
LIMIT = 1 << 20  # no frame of the protocol is as long


class Frame:
    """One frame: up (agent to controller) or down, its kind (PROTOCOL.md), its bytes."""

    def __init__(self, up, data):
        self.up = up
        self.data = data
        self.kind = data[5]
        self.body = data[HEADER:]


def frames(source):
    """The whole frames that arrive on a socket, until its end."""
    data = b""
    while True:
        while len(data) >= HEADER:
            size = HEADER + struct.unpack(">I", data[8:HEADER])[0]
            if size > LIMIT:
                raise ValueError(f"a frame of {size} bytes")
            if len(data) < size:
                break
            yield data[:size]
            data = data[size:]
        part = b""
        with contextlib.suppress(OSError):
            part = source.recv(65536)
        if not part:
            return
        data += part


class Link:
    """One agent's connection and the one to the controller that belongs to it."""

    def __init__(self, proxy, agent):
        self.proxy = proxy
        self.agent = agent
        self.controller = socket.create_connection(("127.0.0.1", proxy.target), timeout=10)
        self.controller.settimeout(None)
        self.lock = threading.Lock()  # two threads may send the same way: pump and release
        for up in (True, False):
            threading.Thread(target=self.pump, args=(up,), daemon=True).start()

    def send(self, frame):
        with self.lock:
            (self.controller if frame.up else self.agent).sendall(frame.data)

    def pump(self, up):
        try:
            for data in frames(self.agent if up else self.controller):
                frame = Frame(up, data)
                what = self.proxy.decide(frame)
                if what == CUT:
                    break
                if what == KEEP:
                    self.proxy.kept.append(frame)
                elif what != DROP:
                    self.send(frame)
                    if what == TWICE:
                        self.send(frame)
        except OSError:
            pass  # the other end is gone: so is this one
        self.close()

    def close(self):
        for one in (self.agent, self.controller):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


class Proxy:
    """Listens on `port` for the agent of one node and carries its frames to the port `target`.
    `decide` is a function of a Frame, called by several threads."""

    def __init__(self, target, decide=lambda frame: PASS):
        self.target = target
        self.decide = decide
        self.kept = []
        self.link = None
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                agent, _ = self.listener.accept()
            except OSError:
                return  # close()
            try:
                self.link = Link(self, agent)
            except OSError:
                agent.close()  # no controller at this moment

    def release(self):
        """Sends what was kept, in its order, over the present connection; returns how many."""
        kept, self.kept = self.kept, []
        for frame in kept:
            self.link.send(frame)
        return len(kept)

    def close(self):
        self.listener.close()
        if self.link is not None:
            self.link.close()
