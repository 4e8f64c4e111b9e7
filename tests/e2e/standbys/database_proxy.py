"""A stretch of the way between services and a PostgreSQL server that ends a connection in the middle of a commit.

Promises: bytes pass whole and in order in both directions; after cut_next() the next transaction that says `marker` loses its connection
at its COMMIT, once: before the server has heard of it, or after the server has done it and before anybody is told. Nobody is told of
the cut but by the end of the connection, at both ends."""
import re
import socket
import threading
import time

PIECE = 1 << 16
BEGIN, COMMIT = b"BEGIN\0", b"COMMIT\0"


class DatabaseProxy:
    def __init__(self, address, server):
        """Listens at `address` for connections to `server`, a function that says where it is now; both (host, port)."""
        self.server = server
        self.armed = None  # (marker, "before" or "after")
        self.cut, self.cut_at = threading.Event(), None
        self.listener = socket.create_server(address)
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_next(self, marker, when):
        self.cut.clear()
        self.armed = (marker, when)

    def _accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return  # it was closed
            try:
                far = socket.create_connection(self.server(), timeout=5)
            except OSError:
                near.close()
                continue
            far.settimeout(None)
            for end in (near, far):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            way = Way(self, near, far)
            for run in (way.forward, way.back):
                threading.Thread(target=run, daemon=True).start()

    def close(self):
        self.listener.close()


class Way:
    """One connection."""

    def __init__(self, proxy, near, far):
        self.proxy, self.near, self.far = proxy, near, far
        self.said = b""        # since the transaction began
        self.silenced = False  # nothing goes back any more: the commit's answer is waited for

    def forward(self):
        """From the service to the server."""
        while piece := receive(self.near):
            self.said = (self.said + piece)[-(1 << 22):]
            when = self._cuts_now()
            if when == "before":
                break
            self.silenced = self.silenced or when == "after"
            if not send(self.far, piece):
                break
            if COMMIT in self.said:
                self.said = self.said[self.said.rindex(COMMIT) + len(COMMIT):]
        if not self.silenced:
            self.end()

    def back(self):
        heard = b""
        while piece := receive(self.far):
            if self.silenced:
                heard += piece
                if COMMIT in heard or re.search(rb"\0?ROLLBACK\0", heard):
                    break
            elif not send(self.near, piece):
                break
        self.end()

    def _cuts_now(self):
        armed = self.proxy.armed
        if armed is None:
            return None
        marker, when = armed
        began = self.said.rfind(BEGIN)
        transaction = self.said[max(began, 0):]
        if COMMIT not in transaction or marker not in transaction:
            return None
        self.proxy.armed, self.proxy.cut_at = None, time.time()
        self.proxy.cut.set()
        return when

    def end(self):
        for end in (self.near, self.far):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # the other direction was quicker
            end.close()


def receive(end):
    try:
        return end.recv(PIECE)
    except OSError:
        return b""


def send(end, piece):
    try:
        end.sendall(piece)
        return True
    except OSError:
        return False
