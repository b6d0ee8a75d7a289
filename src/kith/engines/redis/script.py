"""A script that a Redis Cluster runs in one step on the keys of one hash tag, and plain commands beside it.

Errors of the client become ours here: StoreFull, StoreUnavailable.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Sequence
from importlib import resources
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

from redis.asyncio.cluster import RedisCluster
from redis.exceptions import NoScriptError, OutOfMemoryError, RedisClusterException, RedisError

from kith.core.errors import StoreFull, StoreUnavailable

RedisKey: TypeAlias = str | bytes
ScriptCall: TypeAlias = tuple[RedisKey, Sequence[Any]]
"""A key, which says the node, and the arguments."""
_AWAY = (RedisError, RedisClusterException, OSError)


class Script:
    """The script in a `file` beside this one. A node that does not know it yet is told it.

    Single calls to a node that are asked in one turn of the event loop, by whomever, are sent together: most of what
    a call costs is the way of one request through the client. One event loop uses it.
    """

    def __init__(self, cluster: RedisCluster, file: str) -> None:
        self._cluster = cluster
        self._text = resources.files(__package__).joinpath(file).read_text()
        self._sha = hashlib.sha1(self._text.encode(), usedforsecurity=False).hexdigest()
        self._asked: list[_Asked] = []
        self._answering: set[asyncio.Task[None]] = set()

    async def run(self, key: RedisKey, *arguments: Any) -> Any:
        """Its answer for one key."""
        (answer,) = await self.run_all([(key, arguments)])
        return answer

    async def run_all(self, calls: Iterable[ScriptCall]) -> list[Any]:
        """Its answers, of all these calls at once."""
        loop = asyncio.get_running_loop()
        if not self._asked:
            loop.call_soon(self._begin)
        asked = _Asked(list(calls), loop.create_future())
        self._asked.append(asked)
        return await asked.answers

    def _begin(self) -> None:
        """Send what was asked. Who asks of several nodes waits for these alone."""
        asked, self._asked = self._asked, []
        together: dict[str | int, list[_Asked]] = {}
        for at, one in enumerate(asked):
            together.setdefault(self._node(one.calls[0][0]) if len(one.calls) == 1 else at, []).append(one)
        for some in together.values():
            answering = asyncio.get_running_loop().create_task(self._answer(some))
            self._answering.add(answering)
            answering.add_done_callback(self._answering.discard)

    def _node(self, key: RedisKey) -> str:
        """The name of the node that has a key; "" where that is not known yet."""
        nodes = self._cluster.nodes_manager.slots_cache.get(self._cluster.keyslot(key))
        return str(nodes[0].name) if nodes else ""

    async def _answer(self, asked: Sequence[_Asked]) -> None:
        try:
            answers = iter(await self._answers([call for one in asked for call in one.calls]))
        except Exception as error:
            for one in asked:
                one.fail(error)
            return
        for one in asked:
            some = list(islice(answers, len(one.calls)))
            failed = next((answer for answer in some if isinstance(answer, Exception)), None)
            if failed is not None:
                one.fail(_ours(failed))
            elif not one.answers.done():
                one.answers.set_result(some)

    async def _answers(self, calls: Sequence[ScriptCall]) -> list[Any]:
        """The answer to each call; an error of the server is one."""
        answers = await self._sent(calls)
        untold = [at for at, answer in enumerate(answers) if isinstance(answer, NoScriptError)]
        if untold:
            await ask(self._cluster, "SCRIPT LOAD", self._text, target_nodes=RedisCluster.PRIMARIES)
            for at, answer in zip(untold, await self._sent([calls[at] for at in untold]), strict=True):
                answers[at] = answer
        return answers

    async def _sent(self, calls: Sequence[ScriptCall]) -> list[Any]:
        return await send(self._cluster, [("EVALSHA", self._sha, 1, key, *arguments) for key, arguments in calls])


class _Asked(NamedTuple):
    """Calls of one who waits for their answers."""

    calls: Sequence[ScriptCall]
    answers: asyncio.Future[list[Any]]

    def fail(self, error: Exception) -> None:
        if not self.answers.done():
            self.answers.set_exception(error)


async def ask(cluster: RedisCluster, *command: Any, **options: Any) -> Any:
    """The answer to one command."""
    try:
        return await cluster.execute_command(*command, **options)
    except _AWAY as error:
        raise _ours(error) from error


async def send(cluster: RedisCluster, commands: Iterable[Sequence[Any]]) -> list[Any]:
    """The answers to all these commands, sent at once; an error of the server is an answer."""
    pipeline = cluster.pipeline()
    for command in commands:
        pipeline.execute_command(*command)
    try:
        return await pipeline.execute(raise_on_error=False)
    except _AWAY as error:
        raise _ours(error) from error


async def ask_all(cluster: RedisCluster, commands: Iterable[Sequence[Any]]) -> list[Any]:
    """The answers to all these commands, sent at once; the first error is raised."""
    answers = await send(cluster, commands)
    for answer in answers:
        if isinstance(answer, Exception):
            raise _ours(answer) from answer
    return answers


def _ours(error: BaseException) -> Exception:
    if isinstance(error, OutOfMemoryError):
        return StoreFull("a Redis node has no memory left; raise its maxmemory, or lower `timelines_max`")
    return StoreUnavailable(f"Redis Cluster does not answer ({type(error).__name__}: {error}); it is tried again")
