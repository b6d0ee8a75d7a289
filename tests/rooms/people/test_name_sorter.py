"""Lists of people by name: the order, who matches a typed prefix, and the bound."""

from __future__ import annotations

import random

import pytest
from cast import ALICE, FakeClock
from coroutines import Run
from msgspec.structs import replace
from services import Services

from kith.core.errors import BadRequest
from kith.core.ids import NodeId
from kith.core.paging import Mark, Page, Window
from kith.people import name_sorter
from kith.people.name_sorter import NamePosition, NameSorter, check_prefix, fold_name, matches
from kith.people.profiles import Profile

NAMES = {
    10: ("zoe", "Ann Lee"), 11: ("ann", ""), 12: ("", "Ångström Anna"), 13: ("", "STRASSE"), 14: ("x13", "straße"),
    15: ("", ""), 16: ("anna", "Ann  Lee"), 17: ("", "ＡＮＮ wide"), 18: ("", "Őrs"), 19: ("", "اَنّا"),
}  # fmt: skip


async def everybody(people: Page) -> Page:
    """A reader who sees all people."""
    return people


async def named(services: Services) -> Page:
    """Let people of these names follow Alice; return the list of her followers."""
    for user, (username, display_name) in random.Random(1).sample(list(NAMES.items()), len(NAMES)):
        change = {"username": username, "display_name": display_name}
        await services.profiles.change(NodeId(user), lambda old, to=change: replace(old, **to))
        await services.people.follow(NodeId(user), ALICE)
    if settle := getattr(services.edges, "settle", None):
        settle()
    return await services.people.followers(ALICE, Window(name_sorter.SORTED_MAX))


@pytest.mark.parametrize("transactional", [True, False])
def test_people_are_sorted_by_folded_name_and_paged_once_each(run: Run, transactional: bool, clock: FakeClock) -> None:
    async def check() -> None:
        services = await Services.in_memory(transactional=transactional, clock=clock)
        people, lists = await named(services), NameSorter(services.profiles)
        whole = (await lists.page(people, "", None, 100, everybody)).page
        folded = [fold_name(NAMES[mark.id][1]) or NAMES[mark.id][0] for mark in whole.items]
        assert folded == [*sorted(folded[:-1]), ""], "a user without a name comes last"
        assert [mark.id for mark in whole.items][:4] == [11, 10, 16, 17], "spaces, case and width do not count"
        assert set(whole.items) == set(people.items)
        for limit in (1, 3, len(NAMES)):
            found: list[Mark] = []
            place: NamePosition | None = None
            for _ in NAMES:
                page = await lists.page(people, "", place, limit, everybody)
                found, place = [*found, *page.page.items], page.end
                if place is None:
                    break
            assert found == whole.items
        gone = Page([mark for mark in people.items if mark.id != 16], False, False)
        after = NamePosition("ann lee", 16)
        assert [mark.id for mark in (await lists.page(gone, "", after, 2, everybody)).page.items] == [17, 13]

    run(check())


@pytest.mark.parametrize("hidden", [{16}, {11, 10, 16}, {10, 12, 13, 14, 17, 18, 19}, set(NAMES)])
def test_pages_by_name_are_as_if_nobody_else_were_in_the_list(run: Run, clock: FakeClock, hidden: set[int]) -> None:
    async def check() -> None:
        services = await Services.in_memory(clock=clock)
        people, lists = await named(services), NameSorter(services.profiles)
        visible = Page([mark for mark in people.items if mark.id not in hidden], False, False)

        async def visible_only(page: Page) -> Page:
            return Page([mark for mark in page.items if mark.id not in hidden], False, False)

        for prefix in ("", "ann", "x13"):
            for limit in range(1, len(NAMES) + 2):
                place: NamePosition | None = None
                while True:
                    page = await lists.page(people, prefix, place, limit, visible_only)
                    assert page == await lists.page(visible, prefix, place, limit, everybody)
                    place = page.end
                    if place is None:
                        break

    run(check())


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("ANN", {10, 11, 12, 16, 17}),
        ("ann lee", {10, 16}),
        ("lee", {10, 16}),
        ("strasse", {13, 14}),
        ("STRAß", {13, 14}),
        ("ang", set()),
        ("ÅNG", {12}),
        ("a\u030angström", {12}),
        ("ő", {18}),
        ("z", {10}),
        ("nn", set()),
        ("اَ", {19}),
    ],
)
def test_a_prefix_finds_usernames_names_and_words_in_any_case(typed: str, found: set[int]) -> None:
    prefix = check_prefix(typed)
    profiles = {id_: Profile(username=name, display_name=display) for id_, (name, display) in NAMES.items()}
    assert {id_ for id_, profile in profiles.items() if matches(profile, prefix)} == found


@pytest.mark.parametrize("typed", ["", "  ", "x" * 101])
def test_a_prefix_that_no_name_can_have_is_refused(typed: str) -> None:
    with pytest.raises(BadRequest):
        check_prefix(typed)


def test_of_a_list_that_is_too_long_the_newest_are_searched_and_the_page_says_so(run: Run, clock: FakeClock) -> None:
    async def check() -> None:
        services = await Services.in_memory(clock=clock)
        await named(services)
        lists = NameSorter(services.profiles)
        newest = await services.people.followers(ALICE, Window(4))
        found = await lists.page(newest, "", None, 100, everybody)
        assert set(found.page.items) == set(newest.items)
        assert found.partial
        whole = await services.people.followers(ALICE, Window(10))
        assert not (await lists.page(whole, "", None, 1, everybody)).partial

    run(check())
