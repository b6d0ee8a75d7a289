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

KEPT_MAX = 1_000
"""Cached answers; a page of 50 takes some 60 KB. Beyond, the least recently used one is evicted."""
A = TypeVar("A")


class _Step(NamedTuple):
    """One read that an answer depends on, and what it found.

    `read(*asked)`: repeats it. `kept_of`: the part of the result to compare, None: all of it. `found`: that part, as
    read for the answer.
    """

    read: Callable[..., Awaitable[Any]]
    asked: tuple[Any, ...]
    kept_of: Callable[[Any], Any] | None
    found: Any

    async def again(self) -> bool:
        """Whether it still reads the same."""
        found = await self.read(*self.asked)
        return bool((found if self.kept_of is None else self.kept_of(found)) == self.found)


class Reads:
    """What is read for one answer, step by step. What a step reads depends on what the steps before it found."""

    def __init__(self) -> None:
        self._steps: list[_Step] = []
        self.complete = True
        """Whether the answer depends on nothing but these reads."""

    async def of(self, read: Callable[..., Awaitable[A]], *asked: Any) -> A:
        """The result of `read(*asked)`, which is compared as a whole."""
        found = await read(*asked)
        self._steps.append(_Step(read, asked, None, found))
        return found

    async def records(self, store: RecordStore, kind: RecordKind, ids: Sequence[int]) -> list[Record | None]:
        """The record of each id; only the versions are compared."""
        if not ids:
            return []
        records = await store.get_many(kind, ids)
        versions = [0 if record is None else record.updated_at for record in records]
        self._steps.append(_Step(store.versions, (kind, ids), None, versions))
        return records

    async def answers(self, store: EdgeStore, questions: Questions) -> Answers:
        """The answers to questions."""
        answers = await store.answer(questions)
        self._steps.append(_Step(store.answer, (questions,), _plain, _plain(answers)))
        return answers

    async def same(self, *, immediate: bool) -> bool:
        """Whether all of it is unchanged. Stores across a network are read concurrently."""
        if not immediate:
            return all(await gather(False, *(step.again() for step in self._steps)))
        for step in self._steps:
            if not await step.again():
                return False
        return True


class KeptAnswers(Generic[A]):
    """The newest answer under each key, in memory. `immediate`: whether all stores that are read never wait."""

    def __init__(self, *, immediate: bool, kept_max: int = KEPT_MAX) -> None:
        self._immediate, self._kept_max = immediate, kept_max
        self._kept: dict[Hashable, tuple[Reads, A]] = {}

    async def get(self, key: Hashable, make: Callable[[Reads], Awaitable[A]]) -> A:
        """The answer that `make` gives now: the cached one, if all that it read is unchanged."""
        kept = self._kept.get(key)
        if kept is None or not await kept[0].same(immediate=self._immediate):
            reads = Reads()
            kept = reads, await make(reads)
        self._kept.pop(key, None)
        if kept[0].complete:
            self._kept[key] = kept
            if len(self._kept) > self._kept_max:
                del self._kept[next(iter(self._kept))]
        return kept[1]


def _plain(answers: Answers) -> tuple[object, ...]:
    """Answers in a form that can be compared."""
    members = [one.tobytes() for one in answers.members]
    return answers.states, answers.towards, members, answers.nodes, answers.counts, answers.pages
