"""A token moves the clock of the host that it comes to, and only if the write that it stands for is there."""

from __future__ import annotations

import asyncio

import pytest
from cast import START_MS, FakeClock

from kith.api.consistency import Consistency
from kith.core.clock import HybridClock, hlc_of
from kith.core.errors import Conflict
from kith.core.events import LogPosition
from kith.core.tokens import WriteMark, WriteTokens


class Log:
    """A log that has come to b"here"."""

    async def reached(self, position: LogPosition) -> bool:
        return position <= b"here"


@pytest.mark.parametrize("at", [b"here", b"later"])
def test_what_a_user_writes_next_is_newer_than_what_they_wrote_on_a_host_that_is_ahead(at: bytes) -> None:
    clock, tokens = HybridClock(FakeClock()), WriteTokens(b"a secret of 32 bytes for a test.")
    consistency = Consistency(tokens, Log(), clock.observe)  # type: ignore[arg-type]
    ahead = hlc_of(START_MS + 5_000)
    token = tokens.issue(WriteMark(LogPosition(at), ahead))
    if at == b"here":
        asyncio.run(consistency.catch_up(token))
        assert clock.next() > ahead
    else:
        with pytest.raises(Conflict):
            asyncio.run(consistency.catch_up(token))
        assert clock.next() < ahead
