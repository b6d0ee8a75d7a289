"""A username belongs to one user, in every spelling, under concurrent requests and wherever a process stops."""

from __future__ import annotations

import random
from typing import Any

import pytest
from cast import ALICE, BOB, CAROL, FakeClock
from coroutines import Run, answer
from reference_edges import ReferenceEdges
from reference_records import records_over
from scrambled_edges import ScrambledEdges
from services import no_images

from kith.core.clock import HybridClock
from kith.core.errors import Conflict, InvalidContent, UsernameTaken
from kith.core.ids import NodeId
from kith.graph.graphs import BUILT_IN, NAMES
from kith.people import usernames
from kith.people.profiles import Profile, Profiles
from kith.people.usernames import check_username

PEOPLE = (ALICE, BOB, CAROL)


class Names:
    """Takes and looks up names in the profiles of one store."""

    def __init__(self, run: Run, edges: ReferenceEdges, clock: FakeClock) -> None:
        self.store = records_over(edges)
        self.profiles = Profiles(self.store, HybridClock(clock), no_images, BUILT_IN.index(NAMES) + 1)
        self._run = run

    def take(self, user: NodeId, name: str) -> Any:
        """Take a name; return the error, if there is one."""
        answered = self._run(answer(self.profiles.change(user, lambda old: Profile(old.display_name, username=name))))
        return answered if isinstance(answered, type) else None

    def holder(self, name: str) -> NodeId | None:
        found = self._run(self.profiles.named(name))
        assert found is None or isinstance(found, int)
        return None if found is None else NodeId(found)


@pytest.fixture(params=["transactions", "none"])
def names(request: pytest.FixtureRequest, run: Run, clock: FakeClock) -> Names:
    return Names(run, ReferenceEdges() if request.param == "transactions" else ScrambledEdges(seed=1), clock)


@pytest.mark.parametrize("name", ["a", "Ann", "ann_b.c", "_a_", "50cent", "x" * 30, "A1"])
def test_a_good_username_is_taken(name: str) -> None:
    check_username(name)


@pytest.mark.parametrize(
    "name", ["x" * 31, "12345", "_", "a b", "ann-b", ".ann", "ann.", "..", "änn", "ann\n", "аnn", "a/b", "ann\u200b"]
)
def test_a_bad_username_is_refused_with_the_rule(name: str) -> None:
    with pytest.raises(InvalidContent, match="1 to 30 of a-z"):
        check_username(name)


def test_a_name_is_one_users_in_every_spelling(names: Names) -> None:
    assert names.take(ALICE, "Ann") is None
    for spelling in ("Ann", "ann", "ANN"):
        assert names.holder(spelling) == ALICE
        assert names.take(BOB, spelling) is UsernameTaken
    assert names.take(ALICE, "aNN") is None, "its holder may change the spelling"
    assert names.take(BOB, "Ben") is None
    assert names.take(BOB, "ann") is UsernameTaken
    assert (names.holder("ben"), names.holder("ann"), names.holder("cy")) == (BOB, ALICE, None)
    assert names.holder("\udcff") is None


def test_a_name_that_is_changed_or_given_up_is_free_at_once(names: Names) -> None:
    names.take(ALICE, "Ann")
    assert names.take(ALICE, "Anna") is None
    assert names.take(BOB, "ann") is None
    assert names.take(ALICE, "") is None
    assert names.take(CAROL, "anna") is None
    assert (names.holder("ann"), names.holder("anna")) == (BOB, CAROL)


def test_of_two_users_who_take_a_name_at_once_one_gets_it(names: Names, monkeypatch: pytest.MonkeyPatch) -> None:
    put = names.store.put

    async def overtaken(*args: Any, **conditions: Any) -> Any:
        monkeypatch.setattr(names.store, "put", put)
        await names.profiles.change(BOB, lambda _: Profile(username="ANN"))
        return await put(*args, **conditions)

    monkeypatch.setattr(names.store, "put", overtaken)
    assert names.take(ALICE, "Ann") is UsernameTaken
    assert names.holder("ann") == BOB
    assert names.take(ALICE, "Alice") is None


def test_a_profile_changed_at_once_by_two_processes_keeps_one_name_and_frees_the_other(
    names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = names.store.put

    async def overtaken(*args: Any, **conditions: Any) -> Any:
        monkeypatch.setattr(names.store, "put", put)
        await names.profiles.change(ALICE, lambda _: Profile(username="first"))
        return await put(*args, **conditions)

    monkeypatch.setattr(names.store, "put", overtaken)
    assert names.take(ALICE, "second") is None
    assert (names.holder("first"), names.holder("second")) == (None, ALICE)
    assert names.take(BOB, "first") is None


def test_a_name_whose_taker_stopped_half_way_is_free(names: Names, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without transactions the name may be written and the profile not."""
    put = names.store.put

    async def stopped(records: Any, *_: Any, **__: Any) -> Any:
        await put(records[:1])
        raise Conflict("stopped here")

    monkeypatch.setattr(names.store, "put", stopped)
    assert names.take(ALICE, "Ann") is Conflict
    monkeypatch.setattr(names.store, "put", put)
    assert names.holder("ann") is None
    assert names.take(BOB, "ann") is None
    assert names.take(ALICE, "ann") is UsernameTaken
    assert names.holder("ann") == BOB


@pytest.mark.parametrize("hashes", [1, 3], ids="{} hashes".format)
@pytest.mark.parametrize("seed", range(6), ids="seed-{}".format)
def test_names_that_share_a_hash_stay_apart(
    run: Run, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, seed: int, hashes: int
) -> None:
    """Any history of taken and released names, against a dictionary; with so few hashes that all names collide."""
    monkeypatch.setattr(usernames, "_id", lambda folded: sum(folded.encode()) % hashes)
    names, chosen = Names(run, ReferenceEdges(), clock), random.Random(seed)
    held: dict[int, str] = {}
    for _ in range(120):
        user, name = chosen.choice(PEOPLE), chosen.choice(["", "a", "b", "c", "A", "B", "d"])
        taken = bool(name) and any(other != user and said.lower() == name.lower() for other, said in held.items())
        assert names.take(user, name) is (UsernameTaken if taken else None)
        if not taken:
            held[user] = name
        for asked in "abcd":
            expected = [other for other, said in held.items() if said.lower() == asked]
            assert [names.holder(asked)] == (expected or [None])
