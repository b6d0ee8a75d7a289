"""What every engine that keeps suggestions must do, in the words of `graph.suggestion_store.SuggestionStore`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cast import ALICE, BOB, CAROL, DANA, START_MS
from coroutines import Run
from engines import open_embedded
from reference_suggestions import ReferenceSuggestions
from world import ENGINES

from kith.engines.embedded.environment import Environment
from kith.engines.embedded.suggestions import EmbeddedSuggestions
from kith.suggestions.store import Kept, SuggestionStore

HOUR_MS = 3_600_000
SOON, LATER = START_MS + 1_000, START_MS + HOUR_MS


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[tuple[Environment, EmbeddedSuggestions]]:
    with open_embedded(tmp_path / "data") as (environment, store):
        yield environment, EmbeddedSuggestions(environment, store._commits)


@pytest.fixture(params=ENGINES)
def kept(request: pytest.FixtureRequest) -> SuggestionStore:
    """An empty store of each engine."""
    if request.param == "reference":
        return ReferenceSuggestions()
    return request.getfixturevalue("environment")[1]


def rows_of(environment: Environment) -> int:
    """Rows and ends together."""
    with environment.lmdb.begin() as txn:
        return int(txn.stat(environment.suggestions)["entries"])


def test_a_row_reads_as_it_was_put(run: Run, kept: SuggestionStore) -> None:
    rows = [Kept(ALICE, LATER, bytes(range(256)) * 70), Kept(DANA, SOON, b"")]
    run(kept.put_many(rows, START_MS))
    assert [run(kept.get(user)) for user in (ALICE, DANA, BOB)] == [*rows, None]


@pytest.mark.parametrize("until", [SOON, LATER, LATER + 1])
def test_the_last_row_put_stands_whether_it_lasts_shorter_or_longer(
    run: Run, kept: SuggestionStore, until: int
) -> None:
    run(kept.put_many([Kept(ALICE, LATER, b"first")], START_MS))
    run(kept.put_many([Kept(ALICE, until, b"second")], START_MS))
    assert run(kept.get(ALICE)) == Kept(ALICE, until, b"second")


def test_what_is_not_over_stays_while_others_come(run: Run, kept: SuggestionStore) -> None:
    run(kept.put_many([Kept(ALICE, LATER, b"alice")], START_MS))
    for user in range(10, 50):
        run(kept.put_many([Kept(user, LATER + user, b"x")], LATER - 1))
    assert run(kept.get(ALICE)) == Kept(ALICE, LATER, b"alice")


def test_a_row_put_again_outlives_its_first_time(run: Run, kept: SuggestionStore) -> None:
    run(kept.put_many([Kept(ALICE, SOON, b"short")], START_MS))
    run(kept.put_many([Kept(ALICE, LATER, b"long")], START_MS))
    run(kept.put_many([Kept(BOB, LATER, b"x"), Kept(CAROL, LATER, b"x")], SOON + 1))
    assert run(kept.get(ALICE)) == Kept(ALICE, LATER, b"long")


def test_the_embedded_store_holds_about_what_is_good(
    run: Run, environment: tuple[Environment, EmbeddedSuggestions]
) -> None:
    """However many users ask once, what is over goes as others come, and no row leaves an end behind."""
    opened, kept = environment
    for user in range(300):
        now = START_MS + user * 1_000
        run(kept.put_many([Kept(user, now + 10_000, b"x" * 100)], now))
        assert rows_of(opened) <= 2 * 12
    for _ in range(20):
        run(kept.put_many([Kept(ALICE, LATER, b"again")], START_MS))
    assert run(kept.get(299)) is not None
    assert rows_of(opened) <= 2 * 13
