"""The thread that writes inboxes goes on, whatever lies beside the week that it writes."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path

import pytest

from kith.core.errors import KithError
from kith.engines.embedded import inbox_store
from kith.engines.embedded.inbox_store import EmbeddedInboxes
from kith.notifications.inbox import PERIOD_MS, InboxRow, base_of

WITHIN_S = 10.0
NOTICE = base_of(3_000) + 5


def test_a_damaged_week_costs_its_own_rows_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All weeks are looked at now and then, for slots of readers that were killed."""
    monkeypatch.setattr(inbox_store, "_READERS_CHECKED_COMMITS", 1)

    async def scene() -> None:
        inboxes = EmbeddedInboxes(tmp_path / "inboxes", bytes_max=1 << 30)
        assert await inboxes.add([InboxRow(1, NOTICE)]) == [True]
        (tmp_path / "inboxes" / "2990.mdb").write_bytes(b"x" * 8_192)
        for user in range(2, 5):
            assert await asyncio.wait_for(inboxes.add([InboxRow(user, NOTICE)]), WITHIN_S) == [True]
        with pytest.raises(KithError):
            await asyncio.wait_for(inboxes.add([InboxRow(1, base_of(2_990) + 5)]), WITHIN_S)
        assert await asyncio.wait_for(inboxes.add([InboxRow(9, NOTICE)]), WITHIN_S) == [True]
        inboxes.close()

    asyncio.run(scene())


def test_a_week_that_was_deleted_and_made_again_is_opened_anew(tmp_path: Path) -> None:
    """By other processes, while this one had it open and did not look."""

    async def scene() -> None:
        with closing(EmbeddedInboxes(tmp_path / "inboxes", bytes_max=1 << 30)) as inboxes:
            await inboxes.add([InboxRow(1, NOTICE)])
            with closing(EmbeddedInboxes(tmp_path / "inboxes", bytes_max=1 << 30)) as others:
                await others.expire(3_001 * PERIOD_MS)
                await others.add([InboxRow(2, NOTICE)])
            assert await inboxes.page(2, limit=10) == [NOTICE]

    asyncio.run(scene())
