"""Cached answers: an answer is reused only while everything read for it is unchanged."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np
import pytest
from coroutines import Run
from numpy.typing import NDArray

from kith.core.clock import Hlc
from kith.graph.edge import State
from kith.graph.questions import Answers, Questions
from kith.graph.shapes import Node
from kith.notifications.answer_cache import AnswerCache, RecordedReads
from kith.records.store import Record, RecordKind

KEY = "alice"


class Stores:
    """The data that an answer is made from. `made`: how often it was made.

    `reading`: reads in progress. `most`: the most of them at one time.
    """

    def __init__(self) -> None:
        self.rows, self.version = [3, 2, 1], 1
        self.states: list[State | None] = [State.NORMAL]
        self.towards: list[list[State | None]] = [[State.NORMAL]]
        self.members: list[NDArray[np.bool_]] = [np.array([True, False])]
        self.nodes, self.complete = [Node()], True
        self.made = self.reading = self.most = 0

    async def page(self, limit: int) -> list[int]:
        self.reading += 1
        self.most = max(self.most, self.reading)
        await asyncio.sleep(0)
        self.reading -= 1
        return self.rows[:limit]

    async def get_many(self, kind: RecordKind, ids: Sequence[int]) -> list[Record | None]:
        return [Record(kind, id_, Hlc(self.version), b"") if id_ else None for id_ in ids]

    async def versions(self, kind: RecordKind, ids: Sequence[int]) -> list[int]:
        return [self.version if id_ else 0 for id_ in ids]

    async def answer(self, questions: Questions) -> Answers:
        return Answers(self.states, self.towards, self.members, self.nodes, [], [])

    async def make(self, reads: RecordedReads) -> int:
        await reads.of(self.page, 10)
        await reads.of(self.page, 1)
        await reads.records(self, RecordKind.POST, [0, 7])  # type: ignore[arg-type]
        await reads.answers(self, Questions())  # type: ignore[arg-type]
        reads.complete = self.complete
        self.made += 1
        return self.made


@pytest.mark.parametrize("immediate", [True, False])
def test_an_answer_is_made_again_once_anything_read_for_it_changes(run: Run, *, immediate: bool) -> None:
    async def scene() -> None:
        stores, kept = Stores(), AnswerCache[int](immediate=immediate)
        made = [await kept.get(KEY, stores.make) for _ in range(3)]
        assert made == [1, 1, 1]
        for name, value in (
            ("rows", [4, 3, 2, 1]),
            ("version", 2),
            ("states", [None]),
            ("towards", [[None]]),
            ("members", [np.array([True, True])]),
            ("nodes", [Node(private=True)]),
        ):
            setattr(stores, name, value)
            made = [await kept.get(KEY, stores.make) for _ in range(2)]
            assert made == [stores.made, stores.made]
        assert stores.made == 7

    run(scene())


def test_a_remote_store_is_checked_with_concurrent_reads(run: Run) -> None:
    async def scene() -> None:
        stores, kept = Stores(), AnswerCache[int](immediate=False)
        await kept.get(KEY, stores.make)
        assert stores.most == 1
        await kept.get(KEY, stores.make)
        assert stores.most == 2

    run(scene())


def test_an_answer_that_depends_on_more_than_its_reads_is_made_each_time(run: Run) -> None:
    async def scene() -> None:
        stores, kept = Stores(), AnswerCache[int](immediate=True)
        stores.complete = False
        assert [await kept.get(KEY, stores.make) for _ in range(2)] == [1, 2]

    run(scene())


def test_the_number_of_cached_answers_is_bounded(run: Run) -> None:
    async def scene() -> None:
        stores, kept = Stores(), AnswerCache[int](immediate=True, answers_max=2)
        for key in ("first", "second", "first", "third"):
            await kept.get(key, stores.make)
        assert [await kept.get(key, stores.make) for key in ("first", "third", "second")] == [1, 3, 4]

    run(scene())
