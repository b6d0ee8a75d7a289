"""A clock that goes wrong while a process runs is noticed with the next write."""

from __future__ import annotations

import pytest
from coroutines import Run

from kith.core.errors import StoreMismatch, StoreUnavailable
from kith.engines.cassandra.clock_watch import ASKED_S, JUMP_MS, ClockWatch


class Machine:
    """A wall clock that can be set, a monotonic one, and Cassandra's, which may be away."""

    def __init__(self) -> None:
        self.now_s, self.ahead_ms, self.away, self.asked, self.replaced = 100.0, 0, False, 0, 0
        self.watch = ClockWatch(self.compare, self.replace, lambda: int(self.now_s * 1_000) + self.ahead_ms, self.clock)

    def clock(self) -> float:
        return self.now_s

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
def test_a_clock_that_is_set_wrong_dates_no_write_and_the_process_is_replaced_once_it_is_right(
    run: Run, ahead_ms: int
) -> None:
    machine = Machine()

    async def scene() -> None:
        machine.watch.check()
        machine.ahead_ms = ahead_ms
        assert "was set just now" in machine.refusal(), "before anybody was asked"
        await machine.watch.look()
        assert machine.refusal() == machine.watch.wrong == "the clock is off"
        machine.now_s += 1
        await machine.watch.look()
        assert (machine.asked, machine.replaced) == (2, 0), "it is asked often while it is wrong"
        machine.ahead_ms = 0
        assert machine.refusal()
        await machine.watch.look()
        assert machine.replaced == 1
        assert machine.refusal(), "what was made before may be of a time to come"

    run(scene())


def test_a_clock_that_was_set_right_goes_on_once_the_nodes_say_so(run: Run) -> None:
    machine = Machine()

    async def scene() -> None:
        machine.ahead_ms = JUMP_MS + 1
        machine.away = True
        await machine.watch.look()
        assert "was set just now" in machine.refusal()
        machine.away = False
        await machine.watch.look()
        machine.watch.check()
        assert machine.replaced == 0
        machine.ahead_ms += JUMP_MS
        machine.watch.check()

    run(scene())


def test_a_clock_that_drifts_is_noticed_when_the_nodes_are_asked(run: Run) -> None:
    machine = Machine()

    async def scene() -> None:
        while not machine.watch.wrong:
            machine.watch.check()
            machine.now_s += ASKED_S - 1
            machine.ahead_ms += JUMP_MS // 2
            await machine.watch.look()
            machine.now_s += 1
            await machine.watch.look()
        assert machine.ahead_ms == 30_000 + JUMP_MS // 2
        assert machine.asked == machine.ahead_ms * 2 // JUMP_MS

    run(scene())
