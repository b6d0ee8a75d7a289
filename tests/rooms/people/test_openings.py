"""Private accounts that become public: who asked follows, over crashes, changes of mind and blocks."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from cast import ALICE, BOB, CAROL, FakeClock
from coroutines import Run, time_flies
from services import Services

from kith.core.errors import StoreUnavailable
from kith.core.ids import NodeId
from kith.core.paging import Window
from kith.people import opening
from kith.people.opening import Openings

FANS = [NodeId(user) for user in range(100, 107)]


@pytest.fixture
def room(run: Run, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> Services:
    """Alice is private, and FANS ask to follow her; a page of a job has two requests."""
    monkeypatch.setattr(opening, "_PAGE", 2)
    made: Services = run(Services.in_memory(clock=clock))
    run(made.edges.change_node(ALICE, private=True))
    for fan in FANS:
        clock.ms += 1
        assert run(made.people.follow(fan, ALICE)).requested
    return made


def lists(run: Run, room: Services) -> tuple[list[int], list[int]]:
    """Who follows Alice, and who asks to; the oldest id first."""
    pages = [run(read(ALICE, Window(20))) for read in (room.people.followers, room.people.requests)]
    followers, requests = (sorted(mark.id for mark in page.items) for page in pages)
    return followers, requests


async def open_account(room: Services, openings: Openings) -> None:
    note = await openings.prepare(ALICE)
    await room.edges.change_node(ALICE, private=False)
    openings.start(note, ALICE)


def test_what_a_crash_left_is_resumed_by_the_next_process(
    run: Run, room: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply, reached, pages = room.edges.apply, asyncio.Event(), []

    async def stalling(writes: Any) -> Any:
        pages.append(writes)
        if len(pages) == 2:
            reached.set()
            await asyncio.Event().wait()
        return await apply(writes)

    async def play() -> None:
        killed = Openings(room.graph, room.people)
        monkeypatch.setattr(room.edges, "apply", stalling)
        await open_account(room, killed)
        await reached.wait()
        await killed.close()
        followers = await room.people.followers(ALICE, Window(20))
        assert {mark.id for mark in followers.items} == set(FANS[-2:])
        following = Openings(room.graph, room.people)
        await following.resume()
        await following.wait()
        assert await room.edges.notes("opening/") == {}

    run(play())
    assert lists(run, room) == (FANS, [])


def test_a_crash_before_the_account_was_public_accepts_nobody(run: Run, room: Services) -> None:
    async def play() -> None:
        await Openings(room.graph, room.people).prepare(ALICE)
        following = Openings(room.graph, room.people)
        await following.resume()
        await following.wait()
        assert await room.edges.notes("opening/") == {}

    run(play())
    assert lists(run, room) == ([], FANS)


def test_a_change_of_mind_stops_it(run: Run, room: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    apply = room.edges.apply

    async def overtaken(writes: Any) -> Any:
        monkeypatch.setattr(room.edges, "apply", apply)
        await room.edges.change_node(ALICE, private=True)
        return await apply(writes)

    async def play() -> None:
        openings = Openings(room.graph, room.people)
        monkeypatch.setattr(room.edges, "apply", overtaken)
        await open_account(room, openings)
        await openings.wait()

    run(play())
    assert lists(run, room) == ([], FANS)


def test_a_store_that_refuses_is_asked_again(run: Run, room: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    apply, refusals = room.edges.apply, iter([True, True, False, True])

    async def refuse(writes: Any) -> Any:
        if next(refusals, False):
            raise StoreUnavailable("not now")
        return await apply(writes)

    async def play() -> None:
        openings = Openings(room.graph, room.people)
        monkeypatch.setattr(room.edges, "apply", refuse)
        with time_flies():
            await open_account(room, openings)
            await openings.wait()

    run(play())
    assert lists(run, room) == (FANS, [])


def test_a_request_that_an_opening_overtakes_is_a_follow(
    run: Run, room: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply, calls = room.edges.apply, []

    async def overtaken(writes: Any) -> Any:
        calls.append(writes)
        if len(calls) == 2:  # the follow was refused, the request is on its way
            await room.edges.change_node(ALICE, private=False)
        return await apply(writes)

    monkeypatch.setattr(room.edges, "apply", overtaken)
    written = run(room.people.follow(BOB, ALICE))
    assert (written.holds, written.requested) == (True, False)
    assert lists(run, room) == ([BOB], FANS)


def test_no_follow_of_an_opened_account_outlives_a_block_without_transactions(run: Run, clock: FakeClock) -> None:
    room: Services = run(Services.in_memory(transactional=False, clock=clock))
    run(room.edges.change_node(ALICE, private=True))
    for fan in (BOB, CAROL):
        run(room.people.follow(fan, ALICE))
    room.settle()
    run(room.edges.change_node(ALICE, private=False))
    run(room.people.block(ALICE, BOB))
    run(room.people.accept_all(ALICE, [BOB, CAROL]))
    room.settle()
    assert lists(run, room) == ([CAROL], [])
