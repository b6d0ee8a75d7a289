"""People are found by the beginning of their names: in order, once each, by what their profiles say now."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
from cast import ALICE, BOB, CAROL, FakeClock
from coroutines import Run, without_waits
from edges import all_pages
from msgspec.structs import replace
from reference_leases import own_leases
from scrambled_edges import ScrambledEdges
from services import Services

from kith.core.clock import Hlc
from kith.core.ids import NodeId
from kith.core.labels import HIDE
from kith.core.paging import Page, Window
from kith.graph.edge import Direction, State
from kith.graph.graphs import NAMES
from kith.graph.node_jobs import NodeOperation
from kith.graph.shapes import Listing
from kith.people import search
from kith.people.name_sorter import check_prefix
from kith.people.names import WORDS_MAX, index_writes, searchable_names
from kith.people.removal import account_jobs
from kith.people.search import PeopleSearch

WORDS = (
    "ann",
    "Anna",
    "anne-marie",
    "Ångström",
    "annabella lee",
    "Annabell",
    "Bea",
    "ANNABELLA LOU",
    "李小龙",
    "李小",
    "ß",
)


class Room:
    """People of a store, and the search for them."""

    def __init__(self, services: Services) -> None:
        self.services, self.search = services, PeopleSearch(services.graph, services.profiles)

    async def name(self, user: int, username: str = "", display_name: str = "") -> None:
        change = {"username": username, "display_name": display_name}
        await self.services.profiles.change(NodeId(user), lambda old: replace(old, **change))

    async def found(self, typed: str, limit: int = 3, viewer: Any = None, *, backward: bool = False) -> list[int]:
        """The users on all pages, by default as a visitor sees them."""
        if isinstance(self.services.edges, ScrambledEdges):
            self.services.edges.settle()
        prefix, privacy = check_prefix(typed), self.services.graph.privacy

        async def seen(page: Page) -> Page:
            return await privacy.without_blockers(viewer, page)

        async def fetch(window: Window) -> Page:
            return await self.search.page(prefix, window, seen)

        return [mark.id for mark in await all_pages(fetch, limit, backward=backward)]


@pytest.fixture(params=[True, False], ids=["transactions", "none"])
def room(request: pytest.FixtureRequest, run: Run, clock: FakeClock) -> Room:
    return Room(run(Services.in_memory(transactional=request.param, clock=clock)))


def naive(people: dict[int, tuple[str, str]], typed: str) -> list[tuple[str, int]]:
    """Everybody with a name of this prefix, each with the first such name, sorted."""
    prefix = check_prefix(typed)
    first = {
        user: min((name for _, name in searchable_names(*names) if name.startswith(prefix)), default=None)
        for user, names in people.items()
    }
    return sorted((name, user) for user, name in first.items() if name is not None)


def test_everybody_is_found_once_in_the_order_of_names_whatever_they_were_called_before(room: Room, run: Run) -> None:
    chosen = random.Random(5)

    async def check() -> None:
        people: dict[int, tuple[str, str]] = {}
        for _ in range(150):
            user = chosen.randrange(1, 40)
            username = chosen.choice(("", f"ann{user}", f"bea.{user}"))
            display_name = " ".join(chosen.choices(WORDS, k=chosen.choice((0, 1, 2, 4))))
            await room.name(user, username, display_name)
            people[user] = (username, display_name)
        for typed in ("a", "ann", "ANNABELL", "annabella l", "b", "å", "李", "李小龙", "SS", "lee", "zoe", "-"):
            expected = naive(people, typed)
            for limit, backward in ((1, False), (4, True), (100, False)):
                found = await room.found(typed, limit, backward=backward)
                assert sorted(found) == sorted(user for _, user in expected), typed
                shown = {user: name.encode()[: len(name[0].encode()) + 8] for name, user in expected}
                assert [shown[user] for user in found] == sorted(shown.values()), typed

    run(check())


def test_users_whom_the_viewer_must_not_see_are_not_found(room: Room, run: Run) -> None:
    async def check() -> None:
        services = room.services
        for user in (ALICE, BOB, CAROL):
            await room.name(user, display_name=f"Ann {user}")
        assert await room.found("ann", viewer=BOB) == [ALICE, BOB, CAROL]
        await services.people.block(ALICE, BOB)
        assert await room.found("ann", viewer=BOB) == [BOB, CAROL]
        await services.edges.change_node(CAROL, private=True)
        assert await room.found("ann", viewer=BOB) == [BOB, CAROL]
        assert await room.found("ann") == [ALICE, BOB]
        await services.edges.change_node(CAROL, private=False, labels=HIDE)
        assert await room.found("ann", viewer=BOB) == [BOB]
        await services.edges.change_node(CAROL, labels=0, state=State.ARCHIVED)
        assert await room.found("ann", viewer=BOB) == [BOB]

    run(check())


def test_a_user_who_comes_back_under_another_name_is_found_by_it(run: Run, clock: FakeClock) -> None:
    """Entries of the search are archived and restored with the user's edges."""

    async def check() -> None:
        services = await Services.in_memory(clock=clock)
        room = Room(services)
        await room.name(ALICE, display_name="Ann")
        await services.edges.change_node(ALICE, state=State.ARCHIVED)
        await room.name(ALICE, display_name="Bea")
        assert await room.found("bea") == []
        jobs = account_jobs(services.graph, own_leases())
        await jobs.start(NodeOperation.RESTORE, ALICE)
        await jobs.wait()
        assert await room.found("bea") == [ALICE]
        assert await room.found("ann") == []
        await services.profiles.forget(ALICE)
        assert await room.found("bea") == []

    with without_waits():
        run(check())


def test_what_remains_of_a_name_that_was_given_up_does_not_spell_it(run: Run, clock: FakeClock) -> None:
    async def check() -> None:
        services = await Services.in_memory(clock=clock)
        room = Room(services)
        names = services.graph.graphs.number(NAMES)
        await room.name(ALICE, "ann.lee", "Ann of the Lees")
        before = await services.edges.page(Listing(names, ALICE, Direction.IN), Window(10))
        jobs = account_jobs(services.graph, own_leases(), forget=services.profiles.forget)
        await jobs.start(NodeOperation.REMOVE, ALICE)
        await jobs.wait()
        after = await services.edges.page(Listing(names, ALICE, Direction.IN, State.REMOVED), Window(10))
        assert {mark.id for mark in after.items} == {mark.id for mark in before.items}
        assert len(after.items) == 1 + WORDS_MAX
        assert {mark.position for mark in after.items} == {0}

    with without_waits():
        run(check())


def test_a_page_checks_a_bounded_number_and_says_that_there_is_more(
    run: Run, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even where none of them may be seen; the next page continues there."""
    monkeypatch.setattr(search, "ENTRIES_SCANNED_MAX", 5)
    read: list[int] = []

    async def check() -> None:
        services = await Services.in_memory(clock=clock)
        room = Room(services)
        for user in range(1, 31):
            await room.name(user, display_name="Annabella Lee")
            await services.edges.change_node(user, private=user != 15)
        plain = services.profiles.get_many

        async def counted(users: Sequence[int]) -> Any:
            read.append(len(users))
            return await plain(users)

        monkeypatch.setattr(services.profiles, "get_many", counted)
        page = await room.search.page(
            "ann", Window(2), lambda page: services.graph.privacy.without_blockers(None, page)
        )
        assert page.more_after
        assert sum(read) <= 3 * search.ENTRIES_SCANNED_MAX
        assert await room.found("ann", 2) == [15]

    run(check())


def test_a_change_of_something_else_writes_no_entry_where_profile_and_entries_are_one_write() -> None:
    names, more = ("ann", "Ann Lee"), ("ann", "Ann Leeds")
    assert index_writes(7, NodeId(ALICE), names, names, Hlc(5), atomic=True) == []
    assert len(index_writes(7, NodeId(ALICE), names, names, Hlc(5), atomic=False)) == len(
        list(searchable_names(*names))
    )
    assert index_writes(7, NodeId(ALICE), names, more, Hlc(5), atomic=True)
