"""Write tokens. A token advances the clock of the host that receives it, but only if its write is visible there.

The token of a later write covers the earlier writes too.
"""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from cast import START_MS, FakeClock
from coroutines import Run
from in_process import InProcessRequest
from reference_logs import joined, packed, unpacked

from kith.access.guard import Caller
from kith.api.call import Call, ClientTokens
from kith.api.consistency import Consistency
from kith.api.door import Door, RequestLimits
from kith.api.operations import operations_of, post
from kith.core.clock import HybridClock, hlc_of
from kith.core.errors import BadToken, Conflict
from kith.core.events import LogPosition
from kith.core.tokens import NO_MARK, WriteMark, WriteTokens


class Log:
    """A log that has reached position b"here"."""

    async def reached(self, position: LogPosition) -> bool:
        return position <= b"here"


@pytest.mark.parametrize("at", [b"here", b"later"])
def test_a_users_next_write_is_newer_than_their_write_on_a_host_whose_clock_is_ahead(at: bytes) -> None:
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


class Partitioned:
    """A log with partitions. The mark of a write names only the partition of its event."""

    joined = staticmethod(joined)

    async def reached(self, mark: LogPosition) -> bool:
        return True


class Writes:
    """A resource whose writes go to the named partition. A write to partition 0 changes nothing."""

    @post("/writes/{partition}", "Write")
    async def write(self, call: Call, partition: int) -> None:
        """Write the tenth event of the partition."""
        mark = WriteMark(packed({partition: 10}), partition) if partition else NO_MARK
        call.note_write(mark)


def test_a_client_that_keeps_only_the_newest_token_sees_all_its_writes(run: Run) -> None:
    tokens = WriteTokens(b"a secret of 32 bytes for a test.")
    consistency = Consistency(tokens, Partitioned(), lambda _: None)  # type: ignore[arg-type]
    guard = SimpleNamespace(caller=lambda *_: Caller(True, None, "key"), admit=lambda *_, **__: None)
    bounds = RequestLimits(body_bytes_max=1 << 20, timeout_s=5, upload_bytes_max=1 << 30, upload_timeout_s=5)
    rest: list[Any] = [guard, None, ClientTokens(None, consistency), bounds, lambda *_: None]  # type: ignore[arg-type]
    door = Door(operations_of(Writes()), *rest)

    def token_of(partition: int, *headers: tuple[str, str]) -> str | None:
        asked = InProcessRequest("POST", f"/api/v1/writes/{partition}", [*headers])
        run(door(asked))
        assert asked.answer is not None
        return dict(asked.answer[1]).get("kith-token")

    first = token_of(2)
    assert first is not None
    second = token_of(1, ("Kith-Token", first))
    assert second is not None
    mark = tokens.read(second)
    assert (unpacked(mark.at), mark.updated_at) == ({1: 10, 2: 10}, 2)
    assert token_of(0, ("Kith-Token", second)) is None
    third, fourth = token_of(3), token_of(4)
    both = token_of(1, ("Kith-Token", f"{third}.{fourth}"))  # of two concurrent writes
    assert both is not None
    assert unpacked(tokens.read(both).at) == {1: 10, 3: 10, 4: 10}


@pytest.mark.parametrize("lost", ["first", "second"])
def test_of_several_tokens_every_write_must_be_visible(lost: str) -> None:
    tokens = WriteTokens(b"a secret of 32 bytes for a test.")
    consistency = Consistency(tokens, Log(), lambda _: None)  # type: ignore[arg-type]
    both = [
        tokens.issue(WriteMark(LogPosition(b"later" if name == lost else b"here"), 1)) for name in ("first", "second")
    ]
    with pytest.raises(Conflict):
        asyncio.run(consistency.catch_up(".".join(both)))
    for bad in (".", f"{both[0]}.", f"{both[0]}.x", ".".join(both * 9)):
        with pytest.raises(BadToken):
            asyncio.run(consistency.catch_up(bad))
