"""Pipelined connections to nodes of a Redis Cluster: commands are sent without waiting for earlier answers.

The cluster's client costs 100 to 150 us of Python per command, a link 10 us. A link knows nothing of the cluster. If
there is no link yet, or it failed, or a key moved, the caller uses the cluster's client instead.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias, cast

import hiredis
from redis._parsers.base import BaseParser
from redis.asyncio.cluster import ClusterNode

RedisCommand: TypeAlias = tuple[Any, ...]
_REOPEN_AFTER_S = 1.0
"""How long a node whose link failed is left to the cluster's client, which finds out if another node has its keys."""
_CHECKS, _INCOMPLETE = 2, object()


class PendingCommand(Protocol):
    """A command that waits for its answer. Exactly one of the two methods is called, once."""

    def answered(self, answer: Any) -> None:
        """Take the answer, which may be an error of the server."""
        ...

    def failed(self) -> None:
        """The link ended, so there will be no answer. The server may have executed the command."""
        ...


class Links:
    """One link per node. `answer_timeout_s`: a node that is silent for this long counts as down. For one event loop."""

    def __init__(self, answer_timeout_s: float) -> None:
        self._answer_timeout_s = answer_timeout_s
        self._links: dict[str, _Link] = {}
        self._not_before_s: dict[str, float] = {}
        self._opening: dict[str, asyncio.Task[None]] = {}

    def send(self, node: ClusterNode, commands: Sequence[tuple[RedisCommand, PendingCommand]]) -> bool:
        """Send commands to a node. Returns False, with nothing sent, if there is no link to it now; one is opened."""
        link = self._links.get(node.name)
        if link is None:
            self._open(node)
            return False
        link.send(commands)
        return True

    def _open(self, node: ClusterNode) -> None:
        """Connect to a node, unless that is in progress or failed less than _REOPEN_AFTER_S ago."""
        loop, name = asyncio.get_running_loop(), node.name
        if name not in self._opening and loop.time() >= self._not_before_s.get(name, 0.0):
            self._opening[name] = task = loop.create_task(self._connect(node))
            task.add_done_callback(lambda _: self._opening.pop(name, None))

    async def _connect(self, node: ClusterNode) -> None:
        loop, name = asyncio.get_running_loop(), node.name
        link = _Link(self._answer_timeout_s, lambda: self._report_lost(name))
        try:
            async with asyncio.timeout(self._answer_timeout_s):
                await loop.create_connection(lambda: link, node.host, int(node.port))
                password = node.connection_kwargs.get("password")
                if password:
                    await link.log_in(password)
        except (OSError, TimeoutError):
            link.close()
            self._report_lost(name)
        except asyncio.CancelledError:  # `close`
            link.close()
            raise
        else:
            if not link.is_over:
                self._links[name] = link

    def _report_lost(self, name: str) -> None:
        self._links.pop(name, None)
        self._not_before_s[name] = asyncio.get_running_loop().time() + _REOPEN_AFTER_S

    def close(self) -> None:
        """Close all links. Commands without an answer fail."""
        for task in self._opening.values():
            task.cancel()
        for link in list(self._links.values()):
            link.close()


class _Link(asyncio.Protocol):
    """One connection. Answers come in the order of commands."""

    def __init__(self, answer_timeout_s: float, report_lost: Callable[[], None]) -> None:
        self._check_s, self._report_lost = answer_timeout_s / _CHECKS, report_lost
        self._reader = hiredis.Reader(replyError=BaseParser.parse_error, notEnoughData=_INCOMPLETE)
        self._waiting: deque[PendingCommand] = deque()
        self._transport: asyncio.Transport | None = None
        self._check: asyncio.TimerHandle | None = None
        self._idle = 0  # checks since the last answer
        self.is_over = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def send(self, commands: Sequence[tuple[RedisCommand, PendingCommand]]) -> None:
        assert self._transport is not None  # noqa: S101 - it is used once it is connected
        self._transport.write(b"".join([hiredis.pack_command(command) for command, _ in commands]))
        self._waiting.extend([pending for _, pending in commands])
        if self._check is None:
            self._idle = 0
            self._check_later()

    def _check_later(self) -> None:
        self._check = asyncio.get_running_loop().call_later(self._check_s, self._check_answers)

    def _check_answers(self) -> None:
        """Close the connection after _CHECKS checks without an answer. One is too few: this process may have paused."""
        self._check = None
        self._idle += 1
        if self._waiting and self._idle >= _CHECKS:
            self.close()
        elif self._waiting:
            self._check_later()

    def data_received(self, data: bytes) -> None:
        self._idle = 0
        self._reader.feed(data)
        while (answer := self._reader.gets()) is not _INCOMPLETE:
            self._waiting.popleft().answered(answer)

    async def log_in(self, password: str) -> None:
        """Send the cluster's password; OSError if it is refused."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.send([(("AUTH", password), _Waiter(answer))])
        if isinstance(await answer, Exception):
            raise OSError("the password of Redis is not accepted")

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()
        self.connection_lost(None)

    def connection_lost(self, error: Exception | None) -> None:
        if self.is_over:
            return
        self.is_over = True
        if self._check is not None:
            self._check.cancel()
        self._report_lost()
        while self._waiting:
            self._waiting.popleft().failed()


class _Waiter:
    """A `PendingCommand` that completes a future."""

    def __init__(self, answer: asyncio.Future[Any]) -> None:
        self._answer = answer

    def answered(self, answer: Any) -> None:
        if not self._answer.done():
            self._answer.set_result(answer)

    def failed(self) -> None:
        self.answered(OSError("the connection ended"))
