"""What both clients add to httpx: closing one ends its streams at once, and a cancelled call costs no connection."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, TypeVar

import httpx

CONNECTIONS = 100
"""Most connections of a client and its views, also of a `Kith`, as httpx has it."""
KEPT_ALIVE = 20
"""Most idle connections that stay open."""

T = TypeVar("T")


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


class Connections:
    """Counts the connections of an `AsyncKith`, in place of httpcore.

    That loses a connection for ever if a request is cancelled, or gives up waiting for one, at a bad moment. So no
    request waits in its queue, and one that is sent is finished though its call is cancelled.
    """

    def __init__(self, wait_s: float) -> None:
        """`wait_s`: how long to wait for a free connection."""
        self._free, self._wait_s = asyncio.Semaphore(CONNECTIONS), wait_s
        self._sending = set[asyncio.Task[Any]]()

    async def finish(self, send: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The result of `send()`, which goes on if the caller is cancelled. PoolTimeout if no connection is free."""
        await self._reserve()
        sending = asyncio.ensure_future(send())
        self._sending.add(sending)
        sending.add_done_callback(self._finished)
        return await asyncio.shield(sending)

    @asynccontextmanager
    async def stream(self, send: Callable[[], Coroutine[Any, Any, httpx.Response]]) -> AsyncIterator[httpx.Response]:
        """The response of `send()`, which is closed at the end. PoolTimeout if no connection is free."""
        await self._reserve()
        opening = asyncio.ensure_future(send())
        try:
            yield await asyncio.shield(opening)
        finally:
            closing = asyncio.ensure_future(_close(opening))
            self._sending.add(closing)
            closing.add_done_callback(self._finished)
            if opening.done():  # otherwise it was cancelled, and must not wait
                await asyncio.shield(closing)

    @asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        """Hold a connection. PoolTimeout if none is free."""
        await self._reserve()
        try:
            yield
        finally:
            self._free.release()

    async def _reserve(self) -> None:
        try:
            async with asyncio.timeout(self._wait_s):
                await self._free.acquire()
        except TimeoutError:
            raise httpx.PoolTimeout("") from None

    def _finished(self, sending: asyncio.Task[Any]) -> None:
        self._sending.discard(sending)
        self._free.release()


async def _close(opening: asyncio.Future[httpx.Response]) -> None:
    """Close a response once it is there."""
    with suppress(httpx.RequestError):
        await (await opening).aclose()
