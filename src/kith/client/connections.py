"""What the blocking client adds to httpx: closing it ends its streams at once."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import httpx


class OpenSockets:
    """Duplicates of the sockets of a `Kith`'s open streams. Thread-safe.

    Closing a socket wakes nobody who waits for it: a read in another thread would end with the next heartbeat. Shutting
    it down does, and that works on a duplicate, which nobody else closes.
    """

    def __init__(self) -> None:
        self._duplicates = set[socket.socket]()
        self._closed = False

    @contextmanager
    def holding(self, response: httpx.Response) -> Iterator[None]:
        """While it holds, `shut_down` ends a read of this response."""
        try:
            network = response.extensions["network_stream"]
            duplicate = socket.socket(fileno=socket.dup(network.get_extra_info("socket").fileno()))
        except (KeyError, OSError):  # a transport without a network, or it was closed just now
            duplicate = None
        if duplicate is None:
            yield
            return
        with duplicate:
            self._duplicates.add(duplicate)
            if self._closed:
                self.shut_down()
            try:
                yield
            finally:
                self._duplicates.discard(duplicate)

    def shut_down(self) -> None:
        """End all reads, now and later."""
        self._closed = True
        for duplicate in list(self._duplicates):
            with suppress(OSError):  # the stream ended meanwhile
                duplicate.shutdown(socket.SHUT_RDWR)
