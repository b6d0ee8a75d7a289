"""What every SuggestionStore must do, as `suggestions.store.SuggestionStore` promises."""

from __future__ import annotations

import pytest
from cast import ALICE, BOB, CAROL, DANA, START_MS
from coroutines import Run
from store_types import Stores

from kith.suggestions.store import RankingRow, SuggestionStore

PORT = "stores"
HOUR_MS = 3_600_000
SOON, LATER = START_MS + 1_000, START_MS + HOUR_MS


@pytest.fixture
def kept(stores: Stores) -> SuggestionStore:
    """An empty store."""
    return stores.suggestions


def test_a_row_reads_as_it_was_put(run: Run, kept: SuggestionStore) -> None:
    rows = [RankingRow(ALICE, LATER, bytes(range(256)) * 70), RankingRow(DANA, SOON, b"")]
    run(kept.put_many(rows, START_MS))
    assert [run(kept.get(user)) for user in (ALICE, DANA, BOB)] == [*rows, None]


@pytest.mark.parametrize("until", [SOON, LATER, LATER + 1])
def test_the_last_row_put_wins_whether_it_expires_earlier_or_later(run: Run, kept: SuggestionStore, until: int) -> None:
    run(kept.put_many([RankingRow(ALICE, LATER, b"first")], START_MS))
    run(kept.put_many([RankingRow(ALICE, until, b"second")], START_MS))
    assert run(kept.get(ALICE)) == RankingRow(ALICE, until, b"second")


def test_a_row_that_has_not_expired_stays_while_others_are_put(run: Run, kept: SuggestionStore) -> None:
    run(kept.put_many([RankingRow(ALICE, LATER, b"alice")], START_MS))
    for user in range(10, 50):
        run(kept.put_many([RankingRow(user, LATER + user, b"x")], LATER - 1))
    assert run(kept.get(ALICE)) == RankingRow(ALICE, LATER, b"alice")


def test_a_row_put_again_is_kept_beyond_its_first_expiry(run: Run, kept: SuggestionStore) -> None:
    run(kept.put_many([RankingRow(ALICE, SOON, b"short")], START_MS))
    run(kept.put_many([RankingRow(ALICE, LATER, b"long")], START_MS))
    run(kept.put_many([RankingRow(BOB, LATER, b"x"), RankingRow(CAROL, LATER, b"x")], SOON + 1))
    assert run(kept.get(ALICE)) == RankingRow(ALICE, LATER, b"long")
