"""Proves that two stores hold the same, while one is written to and the other follows.

Every row of either is looked for in the other. What differs is looked at again once the follower has come to what was
written by then (`level`), a few times, so that what changes just then is not mistaken for what differs. Lists and
counts are the business of `graph.audit`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
import numpy as np

from kith.graph.edge import Edge, as_of
from kith.graph.shapes import Node
from kith.moving.writing import StoreSide
from kith.notifications.inbox import InboxRow
from kith.records.store import Claim, Record

ROWS = 1_000
DIFFERENT_MAX = 10_000
"""Rows that are looked at again; where more differ, something is wrong that another look does not mend."""
LOOKS = 5
_EXAMPLES = 5
K = TypeVar("K")
Rows = Mapping[Any, Any]


class Compared(msgspec.Struct):
    """What was found of one kind of rows. `rows`: of both stores. `changing`: those that were written to at every look,
    so that nothing can be told of them until nobody writes any more; see `differing`.
    """

    kind: str
    rows: int = 0
    differing: int = 0
    examples: list[str] = []
    changing: list[Any] = []


class RowKind:
    """One kind of rows: how those of a store are listed, and how some are looked up, each by a key."""

    name: str

    async def some_keys(self, side: StoreSide, after: bytes | None) -> tuple[Sequence[Any], bytes | None]:
        """The keys of some rows, and where the next begin."""
        raise NotImplementedError

    async def look_up(self, side: StoreSide, keys: Sequence[Any]) -> Rows:
        """What is stored under these keys; one that is missing has no row."""
        raise NotImplementedError

    async def mend(self, one: StoreSide, other: StoreSide, keys: Sequence[Any]) -> Sequence[Any]:
        """Mend in `other` what no log tells; the keys of rows that differ still."""
        return keys


class _Edges(RowKind):
    name = "edges"

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms

    async def some_keys(self, side: StoreSide, after: bytes | None) -> tuple[Sequence[Any], bytes | None]:
        rows, then = await side.contents.edges(after, ROWS)
        return [(edge.graph, edge.source, edge.destination) for edge in rows], then

    async def look_up(self, side: StoreSide, keys: Sequence[Any]) -> Rows:
        found: dict[Any, Edge] = {}
        now_ms = self._now_ms()
        for graph, pairs in _grouped((key[0], key[1:]) for key in keys).items():
            for pair, edge in zip(pairs, await side.edges.get_many(graph, pairs), strict=True):
                if edge is not None:
                    found[graph, *pair] = as_of(edge, now_ms)
        return found


class _Records(RowKind):
    name = "records"

    async def some_keys(self, side: StoreSide, after: bytes | None) -> tuple[Sequence[Any], bytes | None]:
        rows, then = await side.contents.records(after, ROWS)
        return [(record.kind, record.id) for record in rows], then

    async def look_up(self, side: StoreSide, keys: Sequence[Any]) -> Rows:
        found: dict[Any, Record] = {}
        for kind, ids in _grouped(keys).items():
            for id_, record in zip(ids, await side.records.get_many(kind, ids), strict=True):
                if record is not None:
                    found[kind, id_] = record
        return found


class _Nodes(RowKind):
    name = "accounts"

    async def some_keys(self, side: StoreSide, after: bytes | None) -> tuple[Sequence[Any], bytes | None]:
        rows, then = await side.contents.nodes(after, ROWS)
        return [row.id for row in rows], then

    async def look_up(self, side: StoreSide, keys: Sequence[Any]) -> Rows:
        nodes = zip(keys, await side.edges.nodes(keys), strict=True)
        return {key: node for key, node in nodes if node != Node()}


class _Claims(RowKind):
    name = "claims of keys"

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms

    async def some_keys(self, side: StoreSide, after: bytes | None) -> tuple[Sequence[Any], bytes | None]:
        rows, then = await side.contents.claims(after, ROWS)
        return [row.key for row in rows], then

    async def look_up(self, side: StoreSide, keys: Sequence[Any]) -> Rows:
        now_ms = self._now_ms()
        values = await side.records.claimed([Claim(key, b"", now_ms, 0) for key in keys])
        return {key: value for key, value in zip(keys, values, strict=True) if value is not None}


class _InboxRows(RowKind):
    name = "rows of inboxes"

    def __init__(self, *, mends: bool) -> None:
        self._mends = mends

    async def some_keys(self, side: StoreSide, after: bytes | None) -> tuple[Sequence[Any], bytes | None]:
        rows, then = await side.contents.inbox_rows(after, ROWS)
        return rows, then

    async def look_up(self, side: StoreSide, keys: Sequence[Any]) -> Rows:
        found: dict[Any, bool] = {}
        for notice, users in _grouped((row.notice, row.user) for row in keys).items():
            asked = np.array(sorted(users), np.int64)
            holding = await side.inboxes.holding(notice, asked)
            found |= {InboxRow(user, notice): True for user in asked[holding].tolist()}
        return found

    async def mend(self, one: StoreSide, other: StoreSide, keys: Sequence[Any]) -> Sequence[Any]:
        """Remove the rows that were removed since they were copied."""
        if not self._mends:
            return keys
        there = await self.look_up(one, keys)
        removed = [key for key in keys if key not in there]
        for user, notices in _grouped(removed).items():
            await other.inboxes.remove(user, notices)
        return [key for key in keys if key in there]


class _Notes(RowKind):
    name = "notes"

    async def some_keys(self, side: StoreSide, after: bytes | None) -> tuple[Sequence[Any], bytes | None]:
        return list(await side.contents.notes()), None

    async def look_up(self, side: StoreSide, keys: Sequence[Any]) -> Rows:
        notes = await side.contents.notes()
        return {key: notes[key] for key in keys if key in notes}


def kinds(now_ms: Callable[[], int], *, moving: bool = False) -> list[RowKind]:
    """What is compared. `moving`: all but notes, which come with the switch; and rows of inboxes that were removed
    since they were copied, which no log tells, are removed from the other store too.
    """
    found: list[RowKind] = [_Nodes(), _Edges(now_ms), _Records(), _Claims(now_ms), _InboxRows(mends=moving)]
    return found if moving else [*found, _Notes()]


async def compare(
    kind: RowKind,
    one: StoreSide,
    other: StoreSide,
    level: Callable[[], Awaitable[object]],
    progress: Callable[[int], None] = lambda _: None,
) -> Compared:
    """Compare the rows of a kind. `one` may be written to; `level`: let `other` come to what was written to it by now.

    `progress`: told of the rows looked at so far.
    """
    found, suspects = Compared(kind.name), list[Any]()
    for side, twin in ((one, other), (other, one)):
        after, is_first = None, True
        while is_first or after is not None:
            is_first = False
            keys, after = await kind.some_keys(side, after)
            if keys:
                suspects += await differing(kind, side, twin, keys)
            found.rows += len(keys)
            progress(found.rows)
            if len(suspects) > DIFFERENT_MAX:
                break
    if len(suspects) <= DIFFERENT_MAX:
        again, found.changing = await _looked_at_again(kind, one, other, list(dict.fromkeys(suspects)), level)
        suspects = list(await kind.mend(one, other, again))
    found.differing = len(suspects)
    found.examples = [str(key) for key in suspects[:_EXAMPLES]]
    return found


async def differing(kind: RowKind, one: StoreSide, other: StoreSide, keys: Sequence[Any]) -> list[Any]:
    """Those of some rows that differ, as they are now."""
    rows, twins = await kind.look_up(one, keys), await kind.look_up(other, keys)
    return [key for key in keys if rows.get(key) != twins.get(key)]


async def _looked_at_again(
    kind: RowKind, one: StoreSide, other: StoreSide, suspects: list[Any], level: Callable[[], Awaitable[object]]
) -> tuple[list[Any], list[Any]]:
    """Those of some rows that differ, though the first store did not change them meanwhile; and those that it changed
    at every look.
    """
    changing: list[Any] = []
    for _ in range(LOOKS):
        if not suspects:
            break
        before = await kind.look_up(one, suspects)
        await level()
        twins, after = await kind.look_up(other, suspects), await kind.look_up(one, suspects)
        suspects = [key for key in suspects if twins.get(key) != after.get(key)]
        changing = [key for key in suspects if before.get(key) != after.get(key)]
    return [key for key in suspects if key not in changing], changing


def _grouped(pairs: Iterable[tuple[K, Any]]) -> dict[K, list[Any]]:
    """The second of each pair, by the first."""
    found: dict[K, list[Any]] = defaultdict(list)
    for key, value in pairs:
        found[key].append(value)
    return found
