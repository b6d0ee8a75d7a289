"""How much a client has not taken yet, asked of the kernel; and cutting off one that takes nothing.

granian accepts whatever it is given for a stream and does not say what has gone out. The kernel does: while the
client's socket takes more, all that waits is in the socket's own queue, and its length is known. Sockets are found by
the client's address among this process's own descriptors. Linux only: elsewhere nothing is known.
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
        number = self._number(client)
        if number is None:
            return None
        poll = select.poll()
        poll.register(number, select.POLLOUT)
        if not any(ready & select.POLLOUT for _, ready in poll.poll(0)):
            return None
        try:
            queued: int = _QUEUED.unpack(fcntl.ioctl(number, termios.TIOCOUTQ, bytes(_QUEUED.size)))[0]
        except OSError:  # closed meanwhile
            return None
        return queued

    def cut(self, client: str) -> bool:
        """End the connection at once, whatever waits for it; False if there is none to be found."""
        number = self._number(client)
        if number is None:
            return False
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(number)) as pinned:
            if _peer(pinned) == client:  # pinned, the number cannot come to stand for another connection
                pinned.shutdown(socket.SHUT_RDWR)
                return True
        return False

    def _number(self, client: str) -> int | None:
        """The descriptor of the client's socket."""
        number = self._found.get(client)
        if (number is None or _peer_of(number) != client) and self._scan():
            number = self._found.get(client)
        return number if number is not None and _peer_of(number) == client else None

    def _scan(self) -> bool:
        """Look at every descriptor, at most once in a while: 5,000 take about 20 ms."""
        now = time.monotonic()
        if now - self._scanned_s < _SCANNED_EVERY_S or not os.path.isdir(_DESCRIPTORS):
            return False
        numbers = map(int, os.listdir(_DESCRIPTORS))
        self._found = {client: number for number in numbers if (client := _peer_of(number)) is not None}
        self._scanned_s = time.monotonic()
        return True


def _peer_of(number: int) -> str | None:
    """The other end of a descriptor, if it is a TCP connection.

    Only looked at: to close a copy of the store's lock file would give up the locks that this process holds on it.
    """
    try:
        handle = socket.socket(fileno=number)
    except OSError:
        return None
    try:
        return _peer(handle)
    except OSError:
        return None
    finally:
        handle.detach()


def _peer(handle: socket.socket) -> str | None:
    """The other end of a socket, if it is a TCP connection."""
    if handle.type != socket.SOCK_STREAM or handle.family not in (socket.AF_INET, socket.AF_INET6):
        return None
    host, port = handle.getpeername()[:2]
    return f"[{host}]:{port}" if handle.family == socket.AF_INET6 else f"{host}:{port}"
