"""Private accounts that become public: waiting requests become follows, over crashes, changes of mind and blocks."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from cast import ALICE, BOB, CAROL, FakeClock
from coroutines import Run, answer, without_waits
from reference_leases import own_leases
from services import Services

from kith.core.clock import wall_ms
from kith.core.errors import Forbidden, StoreUnavailable, UserNotFound
from kith.core.ids import NodeId
from kith.core.paging import Window
from kith.graph.edge import State
from kith.graph.graphs import FOLLOWS
from kith.graph.node_jobs import NodeOperation
from kith.people import privacy_switch
from kith.people.privacy_switch import PrivacySwitch
from kith.people.removal import account_jobs

FANS = [NodeId(user) for user in range(100, 107)]


@pytest.fixture
def room(run: Run, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> Services:
    """Alice is private, and FANS ask to follow her; a page of a job has two requests."""
    monkeypatch.setattr(privacy_switch, "_PAGE", 2)
    made: Services = run(Services.in_memory(clock=clock))
    run(made.edges.change_node(ALICE, private=True))
    for fan in FANS:
        clock.ms += 1
        assert run(made.people.follow(fan, ALICE)).requested
    return made


def lists(run: Run, room: Services) -> tuple[list[int], list[int]]:
    """Alice's followers, and the users who ask to follow her; the smallest id first."""
    pages = [run(read(ALICE, Window(20))) for read in (room.people.followers, room.people.requests)]
    followers, requests = (sorted(mark.id for mark in page.items) for page in pages)
    return followers, requests


async def open_account(opening: PrivacySwitch) -> None:
    await opening.set_private(ALICE, private=False, was_private=True, on_write=lambda _: None)


def test_requests_left_at_a_public_account_are_accepted_when_it_is_made_public_again(run: Run, room: Services) -> None:
    """They asked while one device made it private for a moment; another device had read before that it is public."""

    async def play() -> None:
        opening = PrivacySwitch(room.graph, room.people, own_leases())
        await room.edges.change_node(ALICE, private=False)
        await opening.set_private(ALICE, private=False, was_private=False, on_write=lambda _: None)
        await opening.wait()

    run(play())
    assert lists(run, room) == (FANS, [])


def test_an_opening_that_a_crash_stopped_is_resumed_by_the_next_process(
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
        killed = PrivacySwitch(room.graph, room.people, own_leases())
        monkeypatch.setattr(room.edges, "apply", stalling)
        await open_account(killed)
        await reached.wait()
        await killed.close()
        followers = await room.people.followers(ALICE, Window(20))
        assert {mark.id for mark in followers.items} == set(FANS[-2:])
        following = PrivacySwitch(room.graph, room.people, own_leases())
        await following.resume()
        await following.wait()
        assert await room.edges.notes("opening/") == {}

    run(play())
    assert lists(run, room) == (FANS, [])


def test_a_crash_before_the_account_was_public_accepts_nobody(
    run: Run, room: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def stop(*_: Any, **__: Any) -> None:
        raise StoreUnavailable("the process ends here")

    async def play() -> None:
        with monkeypatch.context() as patched:
            patched.setattr(room.edges, "change_node", stop)
            with pytest.raises(StoreUnavailable):
                await open_account(PrivacySwitch(room.graph, room.people, own_leases()))
        (note,) = await room.edges.notes("opening/")
        following = PrivacySwitch(room.graph, room.people, own_leases())
        await following.resume()
        await following.wait()
        assert list(await room.edges.notes("opening/")) == [note], "the account may be about to become public"
        room.clock.ms += 60_000
        await following.resume()
        await following.wait()
        assert await room.edges.notes("opening/") == {}

    run(play())
    assert lists(run, room) == ([], FANS)


@pytest.mark.parametrize("leaver", [ALICE, FANS[3]], ids=["the account", "a fan"])
@pytest.mark.parametrize("opened", ["before it left", "while it is away"])
def test_an_account_that_leaves_while_one_opens_has_its_requests_accepted_once_it_is_back(
    run: Run, room: Services, monkeypatch: pytest.MonkeyPatch, leaver: NodeId, opened: str
) -> None:
    opening = PrivacySwitch(room.graph, room.people, own_leases())
    jobs = account_jobs(room.graph, own_leases(), restored=opening.account_restored)

    async def operate(operation: NodeOperation) -> None:
        await jobs.start(operation, leaver)
        await jobs.wait()

    async def play() -> None:
        if opened == "before it left":
            apply = room.edges.apply

            async def overtaken(writes: Any) -> Any:
                monkeypatch.setattr(room.edges, "apply", apply)
                await operate(NodeOperation.ARCHIVE)
                return await apply(writes)

            monkeypatch.setattr(room.edges, "apply", overtaken)
            await open_account(opening)
        else:
            await operate(NodeOperation.ARCHIVE)
            await open_account(opening)
        await opening.wait()
        assert await room.edges.notes("opening/") == {}
        await operate(NodeOperation.RESTORE)

    run(play())
    assert lists(run, room) == (FANS, [])


def test_an_account_that_comes_back_private_accepts_nobody(run: Run, room: Services) -> None:
    opening = PrivacySwitch(room.graph, room.people, own_leases())
    jobs = account_jobs(room.graph, own_leases(), restored=opening.account_restored)

    async def play() -> None:
        for user in (ALICE, FANS[0]):
            for operation in (NodeOperation.ARCHIVE, NodeOperation.RESTORE):
                await jobs.start(operation, user)
                await jobs.wait()

    run(play())
    assert lists(run, room) == ([], FANS)


def test_an_account_that_becomes_private_again_meanwhile_accepts_no_more(
    run: Run, room: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply = room.edges.apply

    async def overtaken(writes: Any) -> Any:
        monkeypatch.setattr(room.edges, "apply", apply)
        await room.edges.change_node(ALICE, private=True)
        return await apply(writes)

    async def play() -> None:
        opening = PrivacySwitch(room.graph, room.people, own_leases())
        monkeypatch.setattr(room.edges, "apply", overtaken)
        await open_account(opening)
        await opening.wait()

    run(play())
    assert lists(run, room) == ([], FANS)


def test_a_store_that_refuses_is_retried(run: Run, room: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    apply, refusals = room.edges.apply, iter([True, True, False, True])

    async def refuse(writes: Any) -> Any:
        if next(refusals, False):
            raise StoreUnavailable("not now")
        return await apply(writes)

    async def play() -> None:
        opening = PrivacySwitch(room.graph, room.people, own_leases())
        monkeypatch.setattr(room.edges, "apply", refuse)
        with without_waits():
            await open_account(opening)
            await opening.wait()

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


@pytest.mark.parametrize("later_ms", [600_000, 0])
def test_a_follow_of_a_private_account_needs_a_new_request_to_expire_later(
    run: Run, room: Services, later_ms: int
) -> None:
    """Every follow of it needs consent, also a longer one by a follower; the same again needs no request."""
    now_ms, fan = wall_ms(), FANS[0]
    first_ms, then_ms = now_ms + 60_000, later_ms and now_ms + later_ms
    run(room.people.follow(BOB, ALICE, first_ms))
    run(room.people.accept(ALICE, BOB))
    again = run(room.people.follow(BOB, ALICE, first_ms))
    assert (again.holds, again.changed, again.requested) == (True, False, False)
    assert run(room.people.follow(BOB, ALICE, then_ms)).requested
    assert run(room.people.accept(ALICE, BOB)).holds
    (edge,) = run(room.edges.get_many(room.graph.graphs.number(FOLLOWS), [(BOB, ALICE)]))
    assert edge.expires_ms == then_ms
    assert fan in lists(run, room)[1]


@pytest.mark.parametrize("last_ms", [600_000, 0])
def test_the_last_request_for_another_expiry_counts(run: Run, room: Services, last_ms: int) -> None:
    now_ms = wall_ms()
    last_ms = last_ms and now_ms + last_ms
    run(room.people.follow(BOB, ALICE, now_ms + 60_000))
    run(room.people.accept(ALICE, BOB))
    for expires_ms in (now_ms + 120_000, last_ms):
        written = run(room.people.follow(BOB, ALICE, expires_ms))
        assert (written.changed, written.requested) == (True, True)
    run(room.people.accept(ALICE, BOB))
    (edge,) = run(room.edges.get_many(room.graph.graphs.number(FOLLOWS), [(BOB, ALICE)]))
    assert edge.expires_ms == last_ms


def test_a_follow_that_expires_while_it_is_made_permanent_leaves_a_request(
    run: Run, room: Services, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    room.edges.events.now_ms = clock
    run(room.people.follow(BOB, ALICE, clock.ms + 60_000))
    run(room.people.accept(ALICE, BOB))
    get_many = room.edges.get_many

    async def read_later(*arguments: Any) -> Any:
        clock.ms += 60_000
        return await get_many(*arguments)

    monkeypatch.setattr(room.edges, "get_many", read_later)
    written = run(room.people.follow(BOB, ALICE))
    assert (written.holds, written.changed, written.requested) == (False, True, True)
    assert BOB in lists(run, room)[1]


@pytest.mark.parametrize(
    ("leaver", "error"), [(FANS[0], UserNotFound), (ALICE, Forbidden)], ids=["the fan", "the account"]
)
def test_a_request_between_accounts_of_which_one_just_left_cannot_be_accepted(
    run: Run, room: Services, leaver: NodeId, error: type[Exception]
) -> None:
    """Its edges are archived a moment later."""
    run(room.edges.change_node(leaver, state=State.ARCHIVED))
    assert run(answer(room.people.accept(ALICE, FANS[0]))) is error
    assert FANS[0] in lists(run, room)[1]


@pytest.mark.parametrize("returning", [False, True], ids=["opened", "restored"])
def test_requests_that_the_list_shows_late_are_accepted(run: Run, clock: FakeClock, returning: bool) -> None:
    async def left_waiting(seed: int) -> int:
        room = await Services.in_memory(transactional=False, seed=seed, clock=clock)
        opening = PrivacySwitch(room.graph, room.people, own_leases())
        await room.edges.change_node(ALICE, private=True)
        await room.people.follow(BOB, ALICE)
        if returning:
            await room.edges.change_node(ALICE, private=False)
            await opening.account_restored(ALICE)
        else:
            await open_account(opening)
            await opening.wait()
        room.settle()
        return len((await room.people.requests(ALICE, Window(1))).items)

    assert [seed for seed in range(20) if run(left_waiting(seed))] == []
