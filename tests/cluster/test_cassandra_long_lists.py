"""Long lists on a real Cassandra are divided while they are written and read.

The engine `DIVIDED` runs the suite of edges with divided lists.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from cassandra_stores import KEYSPACE, PART_MAX, Opened, offset_of_now, opened_in, shared
from cast import DANA
from edges import FOLLOWERS_OF_DANA, G, all_pages, edge_of, marks_of, writes_of

from kith.core.errors import StoreUnavailable
from kith.core.paging import Mark, Window
from kith.engines.cassandra import edge_scans, row_batch
from kith.engines.cassandra.commands import Owners
from kith.engines.cassandra.divider import Divider
from kith.engines.cassandra.edge_commands import ListEntry
from kith.engines.cassandra.parts import ListParts, parts_row, read_parts
from kith.engines.cassandra.rows import RowChange, listed, of_node
from kith.graph.audit import audit
from kith.graph.edge import State
from kith.graph.shapes import Listing

FOLLOWERS = range(100, 160)
ENTRIES = "SELECT other FROM list_entries WHERE graph = ? AND node = ? AND direction = ? AND state = ? AND part = ?"


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    with patch.object(row_batch, "PART_MAX", 1), opened_in(tmp_path) as (stores, thread):
        thread.call(stores.edges.declare(["follows"]))
        yield stores


def call(coroutine: Coroutine[Any, Any, Any]) -> Any:
    return shared().thread.call(coroutine)


async def parts_of_dana() -> ListParts:
    (row,) = await shared().rows.get([parts_row(FOLLOWERS_OF_DANA)])
    return read_parts(row)


async def check(opened: Opened, positions: dict[int, int]) -> None:
    """Check Dana's followers, read in every way, and that no part exceeds its bound."""
    expected = sorted((Mark(position, id_) for id_, position in positions.items()), reverse=True)
    edges, parts = opened.edges, await parts_of_dana()
    for limit, backward in ((1000, False), (7, False), (7, True)):
        entries_read = await all_pages(lambda window: edges.page(FOLLOWERS_OF_DANA, window), limit, backward=backward)
        assert entries_read == expected
    middle = expected[len(expected) // 2]
    assert (await edges.page(FOLLOWERS_OF_DANA, Window(5, after=middle))).items == [m for m in expected if m < middle][
        :5
    ]
    assert (await edges.ids(FOLLOWERS_OF_DANA, 30)).tolist() == [mark.id for mark in expected][:30]
    assert await edges.count_many([FOLLOWERS_OF_DANA]) == [len(expected)]
    entries = [await shared().rows.session.rows(ENTRIES, *listed(FOLLOWERS_OF_DANA), begin) for begin in parts.begins]
    assert sum(map(len, entries)) == len(expected)
    for begin, rows in zip(parts.begins, entries, strict=True):
        positions_held = {positions[other_end] for (other_end,) in rows}
        assert {parts.of(position) for position in positions_held} <= {begin}
        assert len(rows) <= PART_MAX or len(positions_held) == 1


def test_lists_are_divided_while_they_are_written_and_read(opened: Opened) -> None:
    seed = random.randrange(2**32)
    print("seed", seed)
    chance = random.Random(seed)
    positions: dict[int, int] = {}
    versions, reading = itertools.count(1), asyncio.Lock()

    async def written() -> None:
        for _ in range(12):
            edges = []
            version = next(versions)
            for id_ in chance.sample(FOLLOWERS, 20):
                state = chance.choice([State.NORMAL, State.NORMAL, State.NORMAL, State.REMOVED])
                edge = edge_of(id_, DANA, chance.randint(0, 30), state, version)
                positions.pop(id_, None)
                if state is State.NORMAL:
                    positions[id_] = edge.position
                edges.append(edge)
            await opened.edges.apply(writes_of(*edges))
            async with reading:
                assert len(await marks_of(opened.edges, FOLLOWERS_OF_DANA)) == len(positions)

    async def reads_end(_: Divider) -> None:
        async with reading:
            pass

    async def divided(writing: asyncio.Task[None]) -> None:
        while not writing.done():
            await opened.divider.divide_long()
            await asyncio.sleep(0)

    async def scene() -> None:
        for _ in range(3):
            writing = asyncio.ensure_future(written())
            await divided(writing)
            await writing
            await opened.divider.divide(FOLLOWERS_OF_DANA)
            await check(opened, positions)
        assert (await audit(opened.edges, "follows", G, recheck_delays_s=(0,))).clean
        assert len((await parts_of_dana()).begins) > 3

    with patch.object(Divider, "_wait_for_earlier_reads", reads_end):
        call(scene())


@pytest.mark.parametrize("shared_position", [0, 25, 50])
def test_a_list_whose_larger_part_has_one_position_is_divided(opened: Opened, shared_position: int) -> None:
    async def scene() -> None:
        positions = {id_: shared_position if id_ < 140 else id_ - 135 for id_ in FOLLOWERS}
        await opened.edges.apply(writes_of(*(edge_of(id_, DANA, position) for id_, position in positions.items())))
        assert await opened.divider.divide_long() >= 1
        await check(opened, positions)

    with patch.object(Divider, "_wait_for_earlier_reads", return_value=None):
        call(scene())


def test_a_list_far_longer_than_a_part_is_divided_in_short_steps(opened: Opened) -> None:
    """In its timeout, Cassandra can neither count millions of rows nor read past as many tombstones of moved rows."""
    entries_moved, enter = list[int](), Divider._move_entries
    rows, rows_read = shared().rows.session.rows, list[int]()

    async def moving(divider: Divider, entries: Sequence[ListEntry]) -> None:
        entries_moved.append(len(entries))
        await enter(divider, entries)

    async def reading(statement: str, *values: Any) -> list[Any]:
        result = await rows(statement, *values)
        counted = sum(length for (length,) in result) if "COUNT" in statement else len(result)
        rows_read.append(counted if "list_entries" in statement else 0)
        return result

    async def scene() -> None:
        positions = {id_: id_ for id_ in range(100, 100 + 20 * PART_MAX)}
        await opened.edges.apply(writes_of(*(edge_of(id_, DANA, position) for id_, position in positions.items())))
        with (
            patch.object(Divider, "_move_entries", moving),
            patch.object(shared().rows.session, "rows", reading),
        ):
            assert await opened.divider.divide_long() >= 20
        assert max(entries_moved) <= PART_MAX
        assert max(rows_read) <= PART_MAX + 1
        await check(opened, positions)

    with patch.object(Divider, "_wait_for_earlier_reads", return_value=None):
        call(scene())


def test_only_the_parts_of_a_list_that_grew_are_looked_at(opened: Opened) -> None:
    rows, parts_read = shared().rows.session.rows, set[int]()

    async def reading(statement: str, *values: Any) -> list[Any]:
        if "FROM list_entries" in statement and values[1] == DANA:
            parts_read.add(values[4])
        return await rows(statement, *values)

    async def scene() -> None:
        positions = {id_: id_ for id_ in range(100, 100 + 10 * PART_MAX)}
        await opened.edges.apply(writes_of(*(edge_of(id_, DANA, position) for id_, position in positions.items())))
        await opened.divider.divide_long()
        before = await parts_of_dana()
        grown = before.begins[4]
        added = dict.fromkeys(range(1000, 1001 + PART_MAX), grown)
        await opened.edges.apply(writes_of(*(edge_of(id_, DANA, position) for id_, position in added.items())))
        with patch.object(shared().rows.session, "rows", reading):
            await opened.divider.divide_long()
        assert parts_read - set(before.begins) == set((await parts_of_dana()).begins) - set(before.begins)
        assert parts_read & set(before.begins) == {grown}
        await check(opened, positions | added)

    with patch.object(Divider, "_wait_for_earlier_reads", return_value=None):
        call(scene())


def test_a_list_that_cannot_be_divided_now_delays_no_other(opened: Opened) -> None:
    divide, divided_nodes = Divider.divide, set[int]()

    async def failing(divider: Divider, listing: Listing, part: int | None = None) -> int:
        if listing.node == DANA:
            raise StoreUnavailable("it has too many marks of deleted entries")
        divided_nodes.add(listing.node)
        return await divide(divider, listing, part)

    async def scene() -> None:
        await opened.edges.apply(writes_of(*(edge_of(id_, DANA, id_) for id_ in FOLLOWERS)))
        with patch.object(Divider, "divide", failing), pytest.raises(StoreUnavailable):
            await opened.divider.divide_long()
        assert divided_nodes == set(FOLLOWERS)
        noted = await shared().rows.session.rows("SELECT node FROM long_parts")
        assert {node for (node,) in noted} == {DANA}

    call(scene())


def test_lists_noted_by_owners_of_an_older_version_are_divided_too(opened: Opened) -> None:
    async def scene() -> None:
        positions = {id_: id_ for id_ in FOLLOWERS}
        await opened.edges.apply(writes_of(*(edge_of(id_, DANA, position) for id_, position in positions.items())))
        session = shared().rows.session
        noted = await session.rows("SELECT partition, graph, node, direction, state FROM long_parts")
        await session.define(f"TRUNCATE {KEYSPACE}.long_parts")
        keys = {(partition, *listing) for partition, *listing in noted}
        await shared().rows.write([RowChange("long_lists", key, (), offset_of_now()) for key in keys])
        opened.take_over()
        assert await opened.divider.divide_long() > 1
        assert await session.rows("SELECT node FROM long_lists") == []
        await check(opened, positions)

    with patch.object(Divider, "_wait_for_earlier_reads", return_value=None):
        call(scene())


def test_a_part_of_one_position_is_counted_a_page_at_a_time(opened: Opened) -> None:
    """Cassandra cannot count millions of rows within its timeout."""
    rows, statements = shared().rows.session.rows, list[str]()

    async def reading(statement: str, *values: Any) -> list[Any]:
        statements.append(statement)
        return await rows(statement, *values)

    async def scene() -> None:
        await opened.edges.apply(writes_of(*(edge_of(id_, DANA, 5) for id_ in FOLLOWERS)))
        wrong_count = RowChange("counts", (DANA, *counted, opened.partitions.of_node(100)), (7, 0), offset_of_now())
        await shared().rows.write([wrong_count])
        opened.take_over()
        with (
            patch.object(shared().rows.session, "rows", reading),
            patch.object(edge_scans, "_PAGE_ROWS", 7),
            patch.object(edge_scans, "_COMPARISON_PAUSE_S", 0),
        ):
            reported = await opened.edges.check_counts(G, repair=True)
        assert [(listing, length) for listing, _, length in reported] == [(FOLLOWERS_OF_DANA, len(FOLLOWERS))]
        assert not [statement for statement in statements if "COUNT(*) FROM list_entries" in statement]
        assert await opened.edges.count_many([FOLLOWERS_OF_DANA]) == [len(FOLLOWERS)]

    counted = listed(FOLLOWERS_OF_DANA)[:1] + listed(FOLLOWERS_OF_DANA)[2:]
    call(scene())


@pytest.mark.parametrize("stops_in", [(Owners, "drain_batches"), (Divider, "_move")])
def test_an_interrupted_division_is_finished(opened: Opened, stops_in: tuple[type, str]) -> None:
    async def stop(*_: object) -> None:
        raise StoreUnavailable("stopped")

    async def scene() -> None:
        positions = {id_: id_ % 50 for id_ in FOLLOWERS}
        await opened.edges.apply(writes_of(*(edge_of(id_, DANA, position) for id_, position in positions.items())))
        with patch.object(*stops_in, stop), pytest.raises(StoreUnavailable):
            await opened.divider.divide(FOLLOWERS_OF_DANA)
        moving = await parts_of_dana()
        assert moving.moving == moving.begins[1]
        late_position = moving.begins[1] + 1
        await opened.edges.apply(
            writes_of(edge_of(100, DANA, late_position, version=1), edge_of(7, DANA, late_position))
        )
        positions |= {100: late_position, 7: late_position}
        expected = sorted((Mark(position, id_) for id_, position in positions.items()), reverse=True)
        assert await marks_of(opened.edges, FOLLOWERS_OF_DANA) == expected
        assert (await audit(opened.edges, "follows", G, recheck_delays_s=(0,))).clean
        assert await opened.divider.divide_long() > 1
        await check(opened, positions)
        assert await shared().rows.session.rows("SELECT node FROM long_parts") == []

    call(scene())


def test_a_divided_list_is_recounted_while_followers_arrive(opened: Opened) -> None:
    async def follow(followers: range) -> None:
        for id_ in followers:
            await opened.edges.apply(writes_of(edge_of(id_, DANA, id_ % 40)))

    async def scene() -> None:
        await follow(FOLLOWERS)
        await opened.divider.divide(FOLLOWERS_OF_DANA)
        wrong_counts = [
            RowChange("counts", (*of_node(FOLLOWERS_OF_DANA), partition), (partition, 0), offset_of_now())
            for partition in (0, 2)
        ]
        await shared().rows.write(wrong_counts)
        opened.take_over()  # new owners, with empty caches
        opened.edges._recounter._stretch = 5
        following = asyncio.ensure_future(follow(range(1000, 1100)))
        assert not (await audit(opened.edges, "follows", G, repair=True, recheck_delays_s=(0,))).clean
        await following
        assert await opened.edges.count_many([FOLLOWERS_OF_DANA]) == [len(FOLLOWERS) + 100]
        assert (await audit(opened.edges, "follows", G, recheck_delays_s=(0,))).clean

    with patch.object(Divider, "_wait_for_earlier_reads", return_value=None):
        call(scene())


def test_a_list_written_while_it_is_counted_is_not_reported_as_wrong(opened: Opened) -> None:
    async def follow() -> None:
        for id_ in range(1000, 1400):
            await opened.edges.apply(writes_of(edge_of(id_, DANA, id_)))

    async def scene() -> None:
        following = asyncio.ensure_future(follow())
        while not following.done():
            assert await opened.edges.check_counts(G, repair=False) == []
        await following

    call(scene())
