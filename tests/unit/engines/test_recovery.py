"""How a store with a journal is opened: as it is, or from the journal's base."""

from __future__ import annotations

import pytest

from kith.engines.embedded.journal import Base
from kith.engines.embedded.recovery import Recovery, choose_recovery

AS_IS, FROM_BASE = Recovery.AS_IS, Recovery.FROM_BASE


def base(txn: int, *, relaxed: bool = False) -> Base:
    return Base(txn, 0, 1, relaxed, b"meta")


@pytest.mark.parametrize(
    ("beside", "chain_end", "store_txn", "lacks_entries", "opening"),
    [
        pytest.param(None, 0, 7, False, AS_IS, id="no journal"),
        pytest.param(base(7), 7, 7, False, AS_IS, id="closed"),
        pytest.param(base(7, relaxed=True), 7, 7, False, AS_IS, id="closed, relaxed"),
        pytest.param(base(7), 7, 7, True, AS_IS, id="a transaction without entry was never committed"),
        pytest.param(base(7), 9, 9, False, FROM_BASE, id="killed after two commits"),
        pytest.param(base(7), 9, 8, False, FROM_BASE, id="killed between entry and commit"),
        pytest.param(base(7), 9, 7, False, FROM_BASE, id="no newer meta page reached the disk"),
        pytest.param(base(7), 7, 8, True, FROM_BASE, id="a commit without entry"),
        pytest.param(base(7), 8, 12, True, FROM_BASE, id="entries after a commit without entry"),
        pytest.param(base(7), 9, 12, False, AS_IS, id="written by a Kith without journal"),
        pytest.param(base(7, relaxed=True), 7, 8, False, FROM_BASE, id="relaxed: the entry did not reach the disk"),
        pytest.param(base(7, relaxed=True), 9, 12, False, FROM_BASE, id="relaxed: some entries did not"),
        pytest.param(base(7), 9, 1, False, AS_IS, id="replaced by a backup"),
        pytest.param(base(7, relaxed=True), 9, 1, True, AS_IS, id="relaxed: replaced by a backup"),
    ],
)
def test_a_store_is_opened_from_its_base_unless_it_is_surely_complete(
    beside: Base | None, chain_end: int, store_txn: int, lacks_entries: bool, opening: Recovery
) -> None:
    assert choose_recovery(beside, chain_end, store_txn, lacks_entries=lacks_entries) is opening
