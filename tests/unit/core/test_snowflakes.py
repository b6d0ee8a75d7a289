"""Snowflake ids grow, never repeat, and sort by time, whatever the clock does."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from cast import START_MS, FakeClock
from hypothesis import given
from hypothesis import strategies as st

from kith.core.ids import EPOCH_MS, ID_MAX, NODES_MAX, Snowflakes, made_at_ms


@given(ticks=st.lists(st.integers(-5_000, 5_000), max_size=300), node=st.integers(0, NODES_MAX - 1))
def test_ids_grow_strictly_while_the_clock_stands_or_goes_back(ticks: list[int], node: int) -> None:
    clock = FakeClock()
    snowflakes = Snowflakes(node, clock)
    made = [snowflakes.next()]
    for tick in ticks:
        clock.ms += tick
        made.append(snowflakes.next())
    assert made == sorted(set(made))


def test_an_id_tells_its_time_and_fits_until_2092(clock: FakeClock) -> None:
    assert made_at_ms(Snowflakes(3, clock).next()) == START_MS
    clock.ms = EPOCH_MS + 2**41 - 1  # the last millisecond that fits
    last = Snowflakes(NODES_MAX - 1, clock).next()
    assert made_at_ms(last) == clock.ms
    assert last <= ID_MAX
    clock.ms = EPOCH_MS
    assert Snowflakes(0, clock).next() == 0


def test_ids_beyond_a_full_millisecond_use_the_next_and_keep_the_order(clock: FakeClock) -> None:
    snowflakes = Snowflakes(1, clock)
    made = [snowflakes.next(), *snowflakes.next_many(9_000), *(snowflakes.next() for _ in range(999))]
    assert made == sorted(set(made))
    assert len(made) == 10_000
    assert made_at_ms(made[-1]) == START_MS + 10_000 // 4_096


def test_two_nodes_never_make_the_same_id(clock: FakeClock) -> None:
    one, other = Snowflakes(0, clock), Snowflakes(1, clock)
    assert not {one.next() for _ in range(5_000)} & {other.next() for _ in range(5_000)}


def test_threads_never_get_the_same_id(clock: FakeClock) -> None:
    snowflakes = Snowflakes(0, clock)
    with ThreadPoolExecutor(4) as threads:
        made = list(threads.map(lambda _: snowflakes.next(), range(4_000)))
    assert len(set(made)) == len(made)


def test_after_a_restart_no_millisecond_is_used_again(clock: FakeClock) -> None:
    before = [Snowflakes(0, clock).next() for _ in range(3)]
    clock.ms -= 60_000
    after = Snowflakes(0, clock)
    after.restore(START_MS)
    assert after.next() > max(before)
    assert made_at_ms(after.next()) == START_MS + 1


@pytest.mark.parametrize("node", [-1, NODES_MAX], ids="node {}".format)
def test_a_node_number_beyond_its_bits_is_refused(clock: FakeClock, node: int) -> None:
    with pytest.raises(ValueError, match="node"):
        Snowflakes(node, clock)
