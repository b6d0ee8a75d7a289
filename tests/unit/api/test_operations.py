"""The table of operations: rows that are refused at the start, and the cache of parsed queries."""

from __future__ import annotations

import pytest

from kith.api.call import Call
from kith.api.operations import get, operations_of
from kith.api.parameters import Cursor, Id, Limit


class Counted:
    """A resource whose stream has a quota. The door takes no quota for streams."""

    @get("/counted", "A stream", streams=True, quota="feed")
    async def counted(self, call: Call) -> None: ...


class Swapped:
    """A resource that takes the ids of its path in another order."""

    @get("/{one}/{other}", "Two")
    async def swapped(self, call: Call, other: Id, one: Id) -> None: ...


class Listed:
    """A resource with a list."""

    @get("/listed", "A list")
    async def listed(self, call: Call, limit: Limit = None, cursor: Cursor = None) -> None: ...


def test_parsed_queries_are_cached_unless_they_are_long() -> None:
    (listed,) = operations_of(Listed())
    assert listed.read_query("limit=2") is listed.read_query("limit=2")
    long = "limit=2&cursor=" + "c" * 60_000
    assert listed.read_query(long) == {"limit": 2, "cursor": "c" * 60_000}
    assert listed.read_query(long) is not listed.read_query(long)


@pytest.mark.parametrize("resource", [Counted(), Swapped()], ids=["a quota of a stream", "a path in another order"])
def test_a_row_that_the_door_cannot_honour_is_refused_at_the_start(resource: object) -> None:
    with pytest.raises(TypeError):
        operations_of(resource)
