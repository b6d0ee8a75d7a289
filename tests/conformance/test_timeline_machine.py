"""A TimelineStore and its readers show the same as the naive store after any sequence of calls."""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import ExitStack
from pathlib import Path

import pytest
from blocking_timelines import BlockingTimelines
from cast import ALICE, BOB, CAROL, DANA, FakeClock
from engines import Engine
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from reference_timelines import ReferenceTimelines
from timeline_helpers import floor, ids, push_all, shown, withheld_rate_min

from kith.core.ids import ID_MAX
from kith.home.timelines import TimelineReader, TimelineStore

PORT = "timelines"
EVERYONE = (0, ALICE, BOB, CAROL, DANA, 2**53 + 1, ID_MAX)
users = st.sampled_from(EVERYONE)
posts = st.integers(0, 40)


class Machine(RuleBasedStateMachine):
    """An engine, a reader of it in another process, and the naive store get the same calls and must show the same."""

    engine: Engine

    @initialize(slots=st.integers(1, 5))
    def begin(self, slots: int) -> None:
        self.clock, self.slots = FakeClock(), slots
        self.folder, self._open = tempfile.TemporaryDirectory(), ExitStack()
        self.runner = self._open.enter_context(asyncio.Runner())
        self.naive = BlockingTimelines(ReferenceTimelines(slots, self.clock))
        self.store = self.opened()
        readers = self.engine.timeline_reader
        self.reader = self.blocking(readers(Path(self.folder.name), self.clock)) if readers else None
        self.builds: dict[int, list[tuple[int, int]]] = {}  # by user: epochs in the engine, the naive store

    def blocking(self, store: TimelineReader | TimelineStore) -> BlockingTimelines:
        return BlockingTimelines(store, self.runner.run)  # type: ignore[arg-type]

    def opened(self) -> BlockingTimelines:
        assert self.engine.timelines
        self._stores = self._open.enter_context(ExitStack())
        return self.blocking(
            self._stores.enter_context(
                self.engine.timelines(Path(self.folder.name), slots=self.slots, now_ms=self.clock)
            )
        )

    @rule(post=posts, chosen=st.sets(users))
    def push(self, post: int, chosen: set[int]) -> None:
        assert self.store.push(post, ids(*chosen)) == self.naive.push(post, ids(*chosen))

    @rule(user=users, first=posts, count=st.integers(1, 40) | st.integers(480, 1100))
    def push_one_after_another(self, user: int, first: int, count: int) -> None:
        for store in (self.store, self.naive):
            push_all(store, range(first, first + count), user)

    @rule(user=users, chosen=st.lists(posts) | st.integers(490, 510).map(range))
    def put(self, user: int, chosen: list[int]) -> None:
        self.clock.ms += 1
        for store in (self.store, self.naive):
            store.put(user, ids(*chosen))

    @rule(user=users)
    def drop(self, user: int) -> None:
        assert self.store.drop(user) == self.naive.drop(user)

    @rule(user=users, by_reader=st.booleans())
    def touch(self, user: int, by_reader: bool) -> None:
        self.clock.ms += 1
        for store in (self.reader if by_reader and self.reader else self.store, self.naive):
            store.touch(user)

    @rule(rate=st.sampled_from([1, 8, 64]), chosen=st.sets(users))
    def withhold(self, rate: int, chosen: set[int]) -> None:
        for store in (self.store, self.naive):
            store.withhold(rate, ids(*chosen))

    @rule(user=users)
    def begin_a_build(self, user: int) -> None:
        self.builds.setdefault(user, []).append((self.store.begin(user), self.naive.begin(user)))

    @precondition(lambda self: any(self.builds.values()))
    @rule(data=st.data(), chosen=st.lists(posts) | st.integers(460, 510).map(range))
    def end_a_build(self, data: st.DataObject, chosen: list[int]) -> None:
        self.clock.ms += 1
        user = data.draw(st.sampled_from([user for user, epochs in self.builds.items() if epochs]))
        epochs = self.builds[user].pop(data.draw(st.integers(0, len(self.builds[user]) - 1)))
        ended = {
            store.end(user, ids(*chosen), epoch) for store, epoch in zip((self.store, self.naive), epochs, strict=True)
        }
        assert len(ended) == 1

    @rule()
    def clear(self) -> None:
        for store in (self.store, self.naive):
            store.clear()

    @rule(age_ms=st.integers(0, 8))
    def evict(self, age_ms: int) -> None:
        assert self.store.evict(self.clock.ms - age_ms) == self.naive.evict(self.clock.ms - age_ms)

    @precondition(lambda self: self.engine.keeps)
    @rule()
    def reopen(self) -> None:
        self._stores.close()
        self.store = self.opened()
        self.builds.clear()
        for user in EVERYONE:  # ends the builds of the naive store
            self.naive.begin(user)

    @invariant()
    def all_show_the_same(self) -> None:
        for store in (self.store, self.reader) if self.reader else (self.store,):
            assert store.count() == self.naive.count()
            for user in EVERYONE:
                assert shown(store, user) == shown(self.naive, user)
                assert floor(store, user) == floor(self.naive, user)
                assert withheld_rate_min(store, user) == withheld_rate_min(self.naive, user)

    @invariant()
    def all_report_the_same_habits(self) -> None:
        engine_habits, naive = self.store.habits(ids(*EVERYONE)), self.naive.habits(ids(*EVERYONE))
        assert engine_habits.withheld_rate_min.tolist() == naive.withheld_rate_min.tolist()
        assert engine_habits.reads == pytest.approx(naive.reads)

    def teardown(self) -> None:
        self._open.close()
        self.folder.cleanup()


def test_an_engine_and_its_readers_show_the_same_as_the_reference(compared: Engine) -> None:
    class OfEngine(Machine):
        engine = compared

    run_state_machine_as_test(OfEngine, settings=settings(max_examples=25, stateful_step_count=40))
