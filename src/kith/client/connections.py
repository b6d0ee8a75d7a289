"""The connections of both clients. They count them in place of httpcore, which loses a connection for ever if a request
is cancelled, or gives up waiting for one, at a bad moment: then no request uses it, and none gets it.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, TypeVar

import httpx

CONNECTIONS = 100
"""Most connections of a client and its views."""
LIMITS = httpx.Limits(max_keepalive_connections=20)
"""The limits of httpx: how many idle connections stay open, but no number of connections, so that none waits there."""

T = TypeVar("T")


class Connections:
    """The connections of a `Kith` and its views. Thread-safe.

    Closing a socket wakes nobody who waits for it: a stream in another thread would end with the next heartbeat.
    Shutting it down does, and that works on a duplicate, which nobody else closes.
    """

    def __init__(self, wait_s: float) -> None:
        """`wait_s`: how long to wait for a free connection."""
        self._free, self._wait_s = threading.Semaphore(CONNECTIONS), wait_s
        self._duplicates = set[socket.socket]()  # of the sockets of open streams
        self._closed = False

    @contextmanager
    def one(self) -> Iterator[None]:
        """Hold a connection. PoolTimeout if none is free."""
        if not self._free.acquire(timeout=self._wait_s):
            raise httpx.PoolTimeout("")
        try:
            yield
        finally:
            self._free.release()

    @contextmanager
    def ended_by_close(self, response: httpx.Response) -> Iterator[None]:
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


class AsyncConnections:
    """The connections of an `AsyncKith` and its views.

    A request that is sent is finished though its call is cancelled.
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
