"""How much a client has not taken yet, asked of the kernel; and cutting off one that takes nothing.

granian accepts whatever it is given for a stream and does not say what has gone out. The kernel does: while the
client's socket takes more, all that waits is in the socket's own queue, and its length is known. Sockets are found by
the client's address among this process's own descriptors. Linux only: elsewhere nothing is known and nothing cut.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import socket
import struct
import termios
import time
from collections.abc import Iterator

_DESCRIPTORS = "/proc/self/fd"
_SCANNED_EVERY_S = 0.2
_QUEUED = struct.Struct("i")


class Sockets:
    """The client sockets of this process, by the address as RSGI gives it (`127.0.0.1:5000`, `[::1]:5000`)."""

    def __init__(self) -> None:
        self._found: dict[str, int] = {}
        self._scanned_s = 0.0

    def unsent(self, client: str) -> int | None:
        """Bytes that wait for this client; None if its socket takes no more now, or is not to be found."""
        with self._socket(client) as found:
            if found is None:
                return None
            poll = select.poll()
            poll.register(found, select.POLLOUT)
            if not any(ready & select.POLLOUT for _, ready in poll.poll(0)):
                return None
            queued: int = _QUEUED.unpack(fcntl.ioctl(found, termios.TIOCOUTQ, bytes(_QUEUED.size)))[0]
            return queued

    def cut(self, client: str) -> bool:
        """End the connection at once, whatever waits for it; False if there is none to be found."""
        with self._socket(client) as found:
            if found is not None:
                found.shutdown(socket.SHUT_RDWR)
            return found is not None

    @contextlib.contextmanager
    def _socket(self, client: str) -> Iterator[socket.socket | None]:
        """A handle of the client's socket. It is one of its own, so that no other connection can take its number."""
        with contextlib.ExitStack() as stack:
            try:
                found = self._open(client, stack)
                if found is None and self._scan():
                    found = self._open(client, stack)
                yield found
            except OSError:  # closed meanwhile
                return

    def _open(self, client: str, stack: contextlib.ExitStack) -> socket.socket | None:
        number = self._found.get(client)
        if number is None:
            return None
        with contextlib.suppress(OSError):
            handle = stack.enter_context(_handle(number))
            if _peer(handle) == client:
                return handle
        del self._found[client]
        return None

    def _scan(self) -> bool:
        """Look at every descriptor, at most once in a while: 5,000 take about 20 ms."""
        now = time.monotonic()
        if now - self._scanned_s < _SCANNED_EVERY_S or not os.path.isdir(_DESCRIPTORS):
            return False
        self._found.clear()
        for name in os.listdir(_DESCRIPTORS):
            with contextlib.suppress(OSError), _handle(int(name)) as handle:
                client = _peer(handle)
                if client is not None:
                    self._found[client] = int(name)
        self._scanned_s = time.monotonic()
        return True


def _handle(number: int) -> socket.socket:
    """A descriptor of one's own for what `number` stands for; OSError if that is no socket."""
    copy = os.dup(number)
    try:
        return socket.socket(fileno=copy)
    except OSError:
        os.close(copy)
        raise


def _peer(handle: socket.socket) -> str | None:
    """The other end of a TCP connection."""
    if handle.type != socket.SOCK_STREAM or handle.family not in (socket.AF_INET, socket.AF_INET6):
        return None
    host, port = handle.getpeername()[:2]
    return f"[{host}]:{port}" if handle.family == socket.AF_INET6 else f"{host}:{port}"
