"""A script that a Redis Cluster runs in one step on the keys of one hash tag, and plain commands beside it.

Errors of the client become ours here: StoreFull, StoreUnavailable.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from importlib import resources
from typing import Any, TypeAlias

from redis.asyncio.cluster import RedisCluster
from redis.exceptions import NoScriptError, OutOfMemoryError, RedisClusterException, RedisError

from kith.core.errors import StoreFull, StoreUnavailable

Key: TypeAlias = str | bytes
Call: TypeAlias = tuple[Key, Sequence[Any]]
"""A key, which says the node, and the arguments."""
_AWAY = (RedisError, RedisClusterException, OSError)


class Script:
    """The script in a `file` beside this one. A node that does not know it yet is told it."""

    def __init__(self, cluster: RedisCluster, file: str) -> None:
        self._cluster = cluster
        self._text = resources.files(__package__).joinpath(file).read_text()
        self._sha = hashlib.sha1(self._text.encode(), usedforsecurity=False).hexdigest()

    async def run(self, key: Key, *arguments: Any) -> Any:
        """Its answer for one key."""
        (answer,) = await self.run_all([(key, arguments)])
        return answer

    async def run_all(self, calls: Iterable[Call]) -> list[Any]:
        """Its answers, of all these calls at once."""
        left = dict(enumerate(calls))
        answers: list[Any] = [None] * len(left)
        for told in (False, True):
            if not left:
                break
            commands = [("EVALSHA", self._sha, 1, key, *arguments) for key, arguments in left.values()]
            for at, answer in zip([*left], await send(self._cluster, commands), strict=True):
                if isinstance(answer, NoScriptError) and not told:
                    continue
                if isinstance(answer, Exception):
                    raise _ours(answer) from answer
                answers[at] = answer
                del left[at]
            if left:
                await ask(self._cluster, "SCRIPT LOAD", self._text, target_nodes=RedisCluster.PRIMARIES)
        return answers


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
