"""Runs Lua scripts, each atomic on the keys of one hash tag, and plain commands on a Redis Cluster.

Translates errors of the client into ours: StoreFull, StoreUnavailable.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Sequence
from importlib import resources
from typing import Any, TypeAlias

from redis.asyncio.cluster import ClusterNode, RedisCluster
from redis.exceptions import (
    AskError,
    BusyLoadingError,
    ClusterDownError,
    MovedError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisClusterException,
    RedisError,
    TryAgainError,
)

from kith.core.errors import StoreFull, StoreUnavailable
from kith.engines.redis.connecting import LinkedCluster

RedisKey: TypeAlias = str | bytes
ScriptCall: TypeAlias = tuple[RedisKey, Sequence[Any]]
"""A key, which selects the node, and the arguments."""
_CLIENT_ERRORS = (RedisError, RedisClusterException, OSError)
_NOT_EXECUTED = (AskError, MovedError, NoScriptError, TryAgainError, ClusterDownError, BusyLoadingError, ReadOnlyError)
"""Errors of a node that executed nothing: it does not know the script, cannot serve, or does not have the key."""


_NEVER_SUFFIX = ":never"
"""The suffix of a key that is never written."""


class Script:
    """The Lua script in a `file` of this package. A node that does not know it yet is sent its text.

    All calls to a node in one turn of the event loop are sent over its link together. If there is no link, or the node
    cannot execute the call, the cluster's client makes the call and finds the right node. For one event loop.
    """

    def __init__(self, cluster: LinkedCluster, file: str, *, uses_more: bool = False) -> None:
        """`uses_more`: the script uses keys that it is not called with.

        While a slot moves to another node, some of those keys have moved already and look missing here. So the script
        is called with a second key, which never exists: a node answers TRYAGAIN for two keys that it does not both
        have, until the slot has moved.
        """
        self._cluster, self._uses_more = cluster, uses_more
        self._text = resources.files(__package__).joinpath(file).read_text()
        self._sha = hashlib.sha1(self._text.encode(), usedforsecurity=False).hexdigest()
        self._pending: list[_Call] = []
        self._for_client: list[_Call] = []
        self._answering: set[asyncio.Task[None]] = set()

    async def run(self, key: RedisKey, *arguments: Any) -> Any:
        """The script's answer for one key."""
        (answer,) = await self.run_all([(key, arguments)])
        return answer

    async def run_all(self, calls: Iterable[ScriptCall]) -> list[Any]:
        """The script's answers to all these calls, sent at once."""
        loop = asyncio.get_running_loop()
        caller = _Caller(loop.create_future())
        pending = [_Call(self, caller, index, call) for index, call in enumerate(calls)]
        if not pending:
            return []
        if not self._pending:
            loop.call_soon(self._begin)
        self._pending += pending
        caller.collected = [None] * len(pending)
        caller.missing = len(pending)
        return await caller.answers

    def _begin(self) -> None:
        """Send the calls of this turn, each to its node."""
        pending, self._pending = self._pending, []
        by_node: dict[str, tuple[ClusterNode, list[_Call]]] = {}
        slots, slot_of = self._cluster.nodes_manager.slots_cache, self._cluster.keyslot
        for call in pending:
            nodes = slots.get(slot_of(call.request[0]))
            if nodes:
                by_node.setdefault(nodes[0].name, (nodes[0], []))[1].append(call)
            else:
                self.hand_to_client(call)
        for node, calls in by_node.values():
            commands = [(self._command(*call.request), call) for call in calls]
            if not self._cluster.links.send(node, commands):
                for call in calls:
                    self.hand_to_client(call)

    def hand_to_client(self, call: _Call) -> None:
        """Have the cluster's client make the call; it finds the node that can answer."""
        if not self._for_client:
            asyncio.get_running_loop().call_soon(self._ask_client)
        self._for_client.append(call)

    def _ask_client(self) -> None:
        pending, self._for_client = self._for_client, []
        answering = asyncio.get_running_loop().create_task(self._answer(pending))
        self._answering.add(answering)
        answering.add_done_callback(self._answering.discard)

    async def _answer(self, pending: Sequence[_Call]) -> None:
        try:
            answers = await self._answers([call.request for call in pending])
        except Exception as error:
            for call in pending:
                call.caller.fail(error)
            return
        for call, answer in zip(pending, answers, strict=True):
            call.caller.take(call.index, answer)

    async def _answers(self, calls: Sequence[ScriptCall]) -> list[Any]:
        """The answer to each call, which may be an error of the server."""
        answers = await send(self._cluster, [self._command(*call) for call in calls])
        unknown = [index for index, answer in enumerate(answers) if isinstance(answer, NoScriptError)]
        if unknown:  # send the text of the script, which the node then caches
            full_commands = [self._command(*calls[index], with_text=True) for index in unknown]
            for index, answer in zip(unknown, await send(self._cluster, full_commands), strict=True):
                answers[index] = answer
        return answers

    def _command(self, key: RedisKey, arguments: Sequence[Any], *, with_text: bool = False) -> tuple[Any, ...]:
        keys = (2, key, f"{key!s}{_NEVER_SUFFIX}") if self._uses_more else (1, key)
        return (*(("EVAL", self._text) if with_text else ("EVALSHA", self._sha)), *keys, *arguments)


class _Caller:
    """A caller of `run_all` that waits for all its answers."""

    __slots__ = ("answers", "collected", "missing")

    def __init__(self, answers: asyncio.Future[list[Any]]) -> None:
        self.answers = answers
        self.collected: list[Any] = []
        self.missing = 0

    def take(self, index: int, answer: Any) -> None:
        """Take the answer to the call at `index`; an error of the server fails the caller."""
        if isinstance(answer, Exception):
            self.fail(_kith_error(answer))
            return
        self.collected[index] = answer
        self.missing -= 1
        if not self.missing and not self.answers.done():
            self.answers.set_result(self.collected)

    def fail(self, error: Exception) -> None:
        if not self.answers.done():
            self.answers.set_exception(error)


class _Call:
    """One call of a caller; implements `links.PendingCommand`."""

    __slots__ = ("_script", "caller", "index", "request")

    def __init__(self, script: Script, caller: _Caller, index: int, request: ScriptCall) -> None:
        self._script, self.caller, self.index, self.request = script, caller, index, request

    def answered(self, answer: Any) -> None:
        """Take an answer that came over a link."""
        if isinstance(answer, _NOT_EXECUTED):
            self._script.hand_to_client(self)
        else:
            self.caller.take(self.index, answer)

    def failed(self) -> None:
        """The link ended without an answer."""
        self.caller.fail(StoreUnavailable("a node of the Redis Cluster does not answer; it is tried again"))


async def ask(cluster: RedisCluster, *command: Any, **options: Any) -> Any:
    """The answer to one command."""
    try:
        return await cluster.execute_command(*command, **options)
    except _CLIENT_ERRORS as error:
        raise _kith_error(error) from error


async def send(cluster: RedisCluster, commands: Iterable[Sequence[Any]]) -> list[Any]:
    """The answers to all these commands, sent at once. An answer may be an error of the server."""
    pipeline = cluster.pipeline()
    for command in commands:
        pipeline.execute_command(*command)
    try:
        return await pipeline.execute(raise_on_error=False)
    except _CLIENT_ERRORS as error:
        raise _kith_error(error) from error


async def ask_all(cluster: RedisCluster, commands: Iterable[Sequence[Any]]) -> list[Any]:
    """The answers to all these commands, sent at once; the first error is raised."""
    answers = await send(cluster, commands)
    for answer in answers:
        if isinstance(answer, Exception):
            raise _kith_error(answer) from answer
    return answers


def _kith_error(error: BaseException) -> Exception:
    if isinstance(error, OutOfMemoryError):
        return StoreFull("a Redis node has no memory left; raise its maxmemory, or lower `timelines_max`")
    message = f"Redis Cluster does not answer ({type(error).__name__}: {error}); it is tried again"
    return StoreUnavailable(message, for_clients="a store does not answer; try again")
