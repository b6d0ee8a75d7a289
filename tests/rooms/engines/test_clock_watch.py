"""A clock that goes wrong while a process runs is noticed at the next write."""

from __future__ import annotations

import itertools
import re

import pytest
from coroutines import Run

from kith.core.clock import wall_ms
from kith.core.errors import StoreMismatch, StoreUnavailable
from kith.engines.cassandra.clock_watch import COMPARE_EVERY_S, JUMP_MS, ClockWatch
from kith.engines.cassandra.metadata import Metadata


class Machine:
    """A wall clock that can be set, a monotonic one, and Cassandra's, which may be unavailable."""

    def __init__(self, *, reads_on: bool = True) -> None:
        self.now_s, self.ahead_ms, self.away, self.asked, self.replaced = 100.0, 0, False, 0, 0
        self.watch = ClockWatch(
            self.compare, self.replace, reads_on=reads_on, now_ms=self.now_ms, clock_s=lambda: self.now_s
        )

    def now_ms(self) -> int:
        return int(self.now_s * 1_000) + self.ahead_ms

    async def compare(self) -> None:
        self.asked += 1
        if self.away:
            raise StoreUnavailable("away")
        if abs(self.ahead_ms) > 30_000:
            raise StoreMismatch("the clock is off")

    def replace(self) -> None:
        self.replaced += 1

    def refusal(self) -> str:
        with pytest.raises(StoreUnavailable) as error:
            self.watch.check()
        return error.value.message


@pytest.mark.parametrize("ahead_ms", [600_000, -600_000])
def test_a_wrong_clock_dates_no_write_and_the_process_is_replaced_once_it_is_right(run: Run, ahead_ms: int) -> None:
    machine = Machine()

    async def scene() -> None:
        machine.watch.check()
        machine.ahead_ms = ahead_ms
        assert "was set just now" in machine.refusal(), "before any node was queried"
        await machine.watch.compare_if_due()
        assert machine.refusal() == machine.watch.wrong == "the clock is off"
        machine.now_s += 1
        await machine.watch.compare_if_due()
        assert (machine.asked, machine.replaced) == (2, 0), "nodes are queried often while the clock is wrong"
        machine.ahead_ms = 0
        assert machine.refusal()
        await machine.watch.compare_if_due()
        assert machine.replaced == 1
        assert machine.refusal(), "timestamps made before may lie in the future"

    run(scene())


def test_a_worker_ends_as_soon_as_its_clock_is_known_to_be_wrong(run: Run) -> None:
    machine = Machine(reads_on=False)

    async def scene() -> None:
        machine.ahead_ms = 600_000
        await machine.watch.compare_if_due()
        assert machine.replaced == 1
        assert machine.refusal() == "the clock is off"

    run(scene())


def test_timestamps_made_while_no_node_could_be_queried_are_not_trusted_afterwards(run: Run) -> None:
    """The version that it made was refused, and the next one would be greater."""
    machine = Machine()

    async def scene() -> None:
        machine.away, machine.ahead_ms = True, 600_000
        assert machine.refusal()
        await machine.watch.compare_if_due()
        machine.away, machine.ahead_ms = False, 0
        await machine.watch.compare_if_due()
        assert machine.replaced == 1
        assert "restart it" in machine.refusal()

    run(scene())


def test_a_jump_during_which_nothing_was_dated_is_forgotten(run: Run) -> None:
    machine = Machine()

    async def scene() -> None:
        machine.away, machine.ahead_ms = True, 600_000
        await machine.watch.compare_if_due()
        machine.away, machine.ahead_ms = False, 0
        await machine.watch.compare_if_due()
        machine.watch.check()
        assert machine.replaced == 0

    run(scene())


class Nodes:
    """A session over nodes that answer in turn, each with a clock `apart_s` from this machine's."""

    def __init__(self, *apart_s: float) -> None:
        self._nodes = itertools.cycle([(f"node {number}", offset_s) for number, offset_s in enumerate(apart_s)])

    async def node_time(self) -> tuple[str, int]:
        node, apart_s = next(self._nodes)
        return node, wall_ms() + int(apart_s * 1_000)


@pytest.mark.parametrize(
    ("apart_s", "is_right"),
    [
        ([0], True), ([-45], False), ([0, -45, 0], True), ([-600, -601, 0], False), ([0, -45], True),
        ([20, 25, -20], True), ([0, 0, 0, 0, -45], True),
    ],
)  # fmt: skip
def test_most_nodes_say_whether_a_clock_is_right(run: Run, apart_s: list[float], is_right: bool) -> None:
    checked = Metadata(Nodes(*apart_s)).check_clock()  # type: ignore[arg-type]
    if is_right:
        run(checked)
    else:
        with pytest.raises(StoreMismatch, match=re.escape(f"{-apart_s[0]:+.0f} s off")):
            run(checked)


def test_a_clock_that_was_set_right_is_used_again_once_the_nodes_agree(run: Run) -> None:
    machine = Machine()

    async def scene() -> None:
        machine.ahead_ms = JUMP_MS + 1
        machine.away = True
        await machine.watch.compare_if_due()
        assert "was set just now" in machine.refusal()
        machine.away = False
        await machine.watch.compare_if_due()
        machine.watch.check()
        assert machine.replaced == 0
        machine.ahead_ms += JUMP_MS
        machine.watch.check()

    run(scene())


def test_a_clock_that_drifts_is_noticed_when_the_nodes_are_queried(run: Run) -> None:
    machine = Machine()

    async def scene() -> None:
        while not machine.watch.wrong:
            machine.watch.check()
            machine.now_s += COMPARE_EVERY_S - 1
            machine.ahead_ms += JUMP_MS // 2
            await machine.watch.compare_if_due()
            machine.now_s += 1
            await machine.watch.compare_if_due()
        assert machine.ahead_ms == 30_000 + JUMP_MS // 2
        assert machine.asked == machine.ahead_ms * 2 // JUMP_MS

    run(scene())
