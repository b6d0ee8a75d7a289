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
    """The connections of a `Kith` and its views. Thread-safe."""

    def __init__(self, wait_s: float) -> None:
        """`wait_s`: how long to wait for a free connection."""
        self._free, self._wait_s = threading.Semaphore(CONNECTIONS), wait_s
        self._streams = set[socket.socket]()
        self.is_closed = False

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
        network = response.extensions.get("network_stream")
        if network is None:  # a transport for tests
            yield
            return
        connection = network.get_extra_info("socket")
        self._streams.add(connection)
        if self.is_closed:
            self.shut_down()
        try:
            yield
        finally:
            self._streams.discard(connection)

    def shut_down(self) -> None:
        """End all streams, now and later. Call it before the sockets are closed: closing one wakes no thread that reads
        from it, so a stream would end with the next heartbeat.
        """
        self.is_closed = True
        for connection in list(self._streams):
            with suppress(OSError):  # the stream ended meanwhile
                socket.socket.shutdown(connection, socket.SHUT_RDWR)  # that of a TLS socket would break its reader


class AsyncConnections:
    """The connections of an `AsyncKith` and its views."""

    def __init__(self, wait_s: float) -> None:
        """`wait_s`: how long to wait for a free connection."""
        self._free, self._wait_s = asyncio.Semaphore(CONNECTIONS), wait_s
        self._finishing = set[asyncio.Task[Any]]()

    @asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        """Hold a connection. PoolTimeout if none is free."""
        await self._reserve()
        try:
            yield
        finally:
            self._free.release()

    async def finish(self, send: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The result of `send()`, which goes on if the caller is cancelled. PoolTimeout if no connection is free."""
        await self._reserve()
        return await asyncio.shield(self._finish(send()))

    @asynccontextmanager
    async def stream(self, send: Callable[[], Coroutine[Any, Any, httpx.Response]]) -> AsyncIterator[httpx.Response]:
        """The response of `send()`, which is closed at the end. PoolTimeout if no connection is free."""
        await self._reserve()
        opening = asyncio.ensure_future(send())
        try:
            yield await asyncio.shield(opening)
        finally:
            closing = self._finish(_close(opening))
            if opening.done():  # otherwise it was cancelled, and must not wait
                await asyncio.shield(closing)

    async def _reserve(self) -> None:
        try:
            async with asyncio.timeout(self._wait_s):
                await self._free.acquire()
        except TimeoutError:
            raise httpx.PoolTimeout("") from None

    def _finish(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Do this to its end, then release its connection."""
        task = asyncio.ensure_future(work)
        self._finishing.add(task)
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: asyncio.Task[Any]) -> None:
        self._finishing.discard(task)
        self._free.release()
        if not task.cancelled():
            task.exception()  # asyncio logs one that nobody asks for, such as that of a cancelled call


async def _close(opening: asyncio.Future[httpx.Response]) -> None:
    """Close a response once it is there."""
    with suppress(httpx.RequestError):
        await (await opening).aclose()
