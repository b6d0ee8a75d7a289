"""Pins whose board is merged or deleted meanwhile, or whose post is deleted: none is lost, and none is left over."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import pytest
from cast import ALICE, BOB
from coroutines import Run
from engines import SettledEdges
from reference_edges import ReferenceEdges
from reference_records import RowRecords
from services import Services
from store_wrappers import ProcessDied

from kith.boards import consumer
from kith.core.paging import Window
from kith.graph.edge import Direction, EdgeChange, EdgeWrite
from kith.graph.graphs import PINS
from kith.graph.shapes import Listing

PINNED = 12


class Consumer:
    """Each round handles the events since the last one, and a page of each noted change."""

    def __init__(self, services: Services) -> None:
        self._services, self._at = services, 0

    async def round(self) -> None:
        events = self._services.edges.events.all
        some, self._at = events[self._at :], len(events)
        await self._services.boards_consumer.handle(some)
        await self._services.boards_consumer.work_backlog()

    async def drain(self) -> None:
        """Run rounds until no event and no note is left."""
        while self._at < len(self._services.edges.events.all) or await self._services.edges.notes("boards/"):
            await self.round()


@pytest.fixture(params=["transactions", "no-transactions"])
def kith(request: pytest.FixtureRequest, run: Run, monkeypatch: pytest.MonkeyPatch) -> Services:
    monkeypatch.setattr(consumer, "_PAGE", 2)
    if request.param == "transactions":
        return run(Services.over(ReferenceEdges()))  # type: ignore[no-any-return]
    edges = SettledEdges(seed=1)
    return run(Services.over(edges, RowRecords(edges)))  # type: ignore[no-any-return]


async def boards(kith: Services, count: int) -> list[int]:
    return [(await kith.boards.create(ALICE, f"board {at}")).board.id for at in range(count)]


@pytest.mark.parametrize("rounds", [0, 1, 2, 5])
def test_boards_that_are_merged_one_after_the_other_keep_all_pins(run: Run, kith: Services, rounds: int) -> None:
    """More pins than one request moves: the second board is emptied before the rest of the first one's pins arrive."""

    async def scene() -> list[int]:
        first, second, third = made = await boards(kith, 3)
        for post in [await kith.write(BOB) for _ in range(PINNED)]:
            await kith.pins.add(ALICE, first, post.id)
        consumer = Consumer(kith)
        await kith.boards.merge(ALICE, first, second)
        for _ in range(rounds):
            await consumer.round()
        await kith.boards.merge(ALICE, second, third)
        await consumer.drain()
        return await kith.pins.counts(made)

    assert run(scene()) == [0, 0, PINNED]


@pytest.mark.parametrize("meanwhile", ["the post is deleted", "the board is deleted", "the board is merged"])
def test_a_board_or_post_may_go_between_the_lookup_and_the_write_of_a_pin(
    run: Run, kith: Services, monkeypatch: pytest.MonkeyPatch, meanwhile: str
) -> None:
    async def scene() -> list[int]:
        board, other = made = await boards(kith, 2)
        post, consumer, apply = await kith.write(BOB), Consumer(kith), kith.edges.apply

        async def overtaken(writes: Sequence[EdgeWrite]) -> list[EdgeChange]:
            monkeypatch.setattr(kith.edges, "apply", apply)
            match meanwhile:
                case "the post is deleted":
                    await kith.posts.delete(BOB, post.id)
                case "the board is deleted":
                    await kith.boards.delete(ALICE, board)
                case _:
                    await kith.boards.merge(ALICE, board, other)
            await consumer.drain()
            return await apply(writes)

        monkeypatch.setattr(kith.edges, "apply", overtaken)
        await kith.pins.add(ALICE, board, post.id)
        await consumer.drain()
        return await kith.pins.counts(made)

    assert run(scene()) == [0, int(meanwhile == "the board is merged")]


def test_a_merged_board_brings_pins_that_were_once_taken_off_the_other(run: Run, kith: Services) -> None:
    async def scene() -> list[int]:
        soups, stews = made = await boards(kith, 2)
        post, consumer = await kith.write(BOB), Consumer(kith)
        await kith.pins.add(ALICE, soups, post.id)
        await kith.pins.add(ALICE, stews, post.id)
        await kith.pins.remove(ALICE, stews, post.id)
        await kith.boards.merge(ALICE, soups, stews)
        await consumer.drain()
        return await kith.pins.counts(made)

    assert run(scene()) == [0, 1]


def test_a_pin_taken_off_after_a_merge_stays_off_though_the_merge_is_repeated(
    run: Run, kith: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene() -> list[int]:
        soups, stews = made = await boards(kith, 2)
        post, consumer, apply = await kith.write(BOB), Consumer(kith), kith.edges.apply
        await kith.pins.add(ALICE, soups, post.id)

        async def stops_before_the_removal(writes: Sequence[EdgeWrite]) -> list[EdgeChange]:
            if (kith.graph.graphs.number(PINS), soups) in {(write.edge.graph, write.edge.source) for write in writes}:
                raise ProcessDied
            return await apply(writes)

        with monkeypatch.context() as stopping, suppress(ProcessDied):
            stopping.setattr(kith.edges, "apply", stops_before_the_removal)
            await kith.boards.merge(ALICE, soups, stews)
        await kith.pins.remove(ALICE, stews, post.id)
        await consumer.drain()
        return await kith.pins.counts(made)

    assert run(scene()) == [0, 0]


@pytest.mark.parametrize("later", ["soups", "stews"])
def test_a_post_pinned_on_both_of_two_merged_boards_stands_at_its_later_pin(
    run: Run, kith: Services, later: str
) -> None:
    """Home dates a post by its newest pin, so it does not come twice in a scroll."""

    async def scene() -> tuple[int, int]:
        soups, stews = await boards(kith, 2)
        post, consumer = await kith.write(BOB), Consumer(kith)
        for board in (stews, soups) if later == "soups" else (soups, stews):
            kith.clock.ms += 5
            await kith.pins.add(ALICE, board, post.id)
        pinned_ms = kith.clock.ms
        kith.clock.ms += 5
        await kith.boards.merge(ALICE, soups, stews)
        await consumer.drain()
        listing = Listing(kith.graph.graphs.number(PINS), stews, Direction.OUT)
        (mark,) = (await kith.edges.page(listing, Window(5))).items
        return mark.position, pinned_ms

    position, pinned_ms = run(scene())
    assert position == pinned_ms
