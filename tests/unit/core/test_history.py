"""Which sequence numbers of which history a store still has after restores."""

from __future__ import annotations

import pytest

from kith.core.errors import Conflict
from kith.core.history import FIRST, History
from kith.core.tokens import WriteMark, WriteTokens

SECRET = bytes(32)


def test_a_store_that_was_never_restored_has_all_of_its_only_history() -> None:
    assert History().name == FIRST
    assert History().holds(FIRST, 2**63)
    assert not History().holds(5, 1)


def test_what_came_after_a_backup_is_not_what_came_after_its_restore() -> None:
    once = History().restored(10)
    twice, other = once.restored(25), once.restored(5)  # of backups made after, and before, events 11 to 20
    assert len({FIRST, once.name, twice.name, other.name}) == 4
    for history, name, last in (
        (once, FIRST, 10), (once, once.name, 2**63), (twice, FIRST, 10), (twice, once.name, 25),
        (twice, twice.name, 2**63), (other, FIRST, 5), (other, once.name, 5), (other, twice.name, -1), (once, 7, -1),
    ):  # fmt: skip
        assert history.holds(name, last) == (last >= 0)
        assert not history.holds(name, last + 1) or last == 2**63


def test_a_token_of_a_lost_write_is_refused_however_many_came_since() -> None:
    before, after = WriteTokens(SECRET), WriteTokens(SECRET, History().restored(10))
    assert after.read(before.issue(WriteMark(10, 7))) == WriteMark(10, 7)
    with pytest.raises(Conflict, match="restored from a backup"):
        after.read(before.issue(WriteMark(11, 8)))
    assert after.read(after.issue(WriteMark(11, 9))) == WriteMark(11, 9)
    with pytest.raises(Conflict):
        before.read(after.issue(WriteMark(1, 1)))
