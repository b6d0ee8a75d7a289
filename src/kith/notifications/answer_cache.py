"""Caches answers together with everything that was read for them: while that is unchanged, so is the answer.

Nothing is invalidated, so no invalidation can be missed: each request reads the same things again, and finds a block, a
deletion or a new notice as if nothing were cached. The cache saves the work that follows: decoding, deciding, sorting,
encoding.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from kith.core.gathering import gather
from kith.graph.questions import Answers, Questions
from kith.graph.store import EdgeStore
from kith.records.store import Record, RecordKind, RecordStore

ANSWERS_MAX = 1_000
"""Cached answers; a page of 50 takes some 60 KB. Beyond, the least recently used one is evicted."""
A = TypeVar("A")


class _Read(NamedTuple):
    """One read that an answer depends on, and what it found.

    `read(*args)`: repeats it. `compared_part`: the part of the result to compare, None: all of it. `result`: that part,
    as read for the answer.
    """

    read: Callable[..., Awaitable[Any]]
    args: tuple[Any, ...]
    compared_part: Callable[[Any], Any] | None
    result: Any

    async def is_unchanged(self) -> bool:
        """Whether it still reads the same."""
        result = await self.read(*self.args)
        return bool((result if self.compared_part is None else self.compared_part(result)) == self.result)


class RecordedReads:
    """What is read for one answer, step by step. What a step reads depends on what the steps before it found."""

    def __init__(self) -> None:
        self._steps: list[_Read] = []
        self.complete = True
        """Whether the answer depends on nothing but these reads."""

    async def of(self, read: Callable[..., Awaitable[A]], *args: Any) -> A:
        """The result of `read(*args)`, which is compared as a whole."""
        result = await read(*args)
        self._steps.append(_Read(read, args, None, result))
        return result

    async def records(self, store: RecordStore, kind: RecordKind, ids: Sequence[int]) -> list[Record | None]:
        """The record of each id; only the versions are compared."""
        if not ids:
            return []
        records = await store.get_many(kind, ids)
        versions = [0 if record is None else record.updated_at for record in records]
        self._steps.append(_Read(store.versions, (kind, ids), None, versions))
        return records

    async def answers(self, store: EdgeStore, questions: Questions) -> Answers:
        """The answers to questions."""
        answers = await store.answer(questions)
        self._steps.append(_Read(store.answer, (questions,), _plain, _plain(answers)))
        return answers

    async def are_unchanged(self, *, immediate: bool) -> bool:
        """Whether all of it is unchanged. Stores across a network are read concurrently."""
        if not immediate:
            return all(await gather(False, *(step.is_unchanged() for step in self._steps)))
        for step in self._steps:
            if not await step.is_unchanged():
                return False
        return True


class AnswerCache(Generic[A]):
    """The newest answer under each key, in memory. `immediate`: whether all stores that are read never wait."""

    def __init__(self, *, immediate: bool, answers_max: int = ANSWERS_MAX) -> None:
        self._immediate, self._answers_max = immediate, answers_max
        self._cached: dict[Hashable, tuple[RecordedReads, A]] = {}

    async def get(self, key: Hashable, make: Callable[[RecordedReads], Awaitable[A]]) -> A:
        """The answer that `make` gives now: the cached one, if all that it read is unchanged."""
        cached = self._cached.get(key)
        if cached is None or not await cached[0].are_unchanged(immediate=self._immediate):
            reads = RecordedReads()
            cached = reads, await make(reads)
        self._cached.pop(key, None)
        if cached[0].complete:
            self._cached[key] = cached
            if len(self._cached) > self._answers_max:
                del self._cached[next(iter(self._cached))]
        return cached[1]


def _plain(answers: Answers) -> tuple[object, ...]:
    """Answers in a form that can be compared."""
    members = [ids.tobytes() for ids in answers.members]
    return answers.states, answers.towards, members, answers.nodes, answers.counts, answers.pages
