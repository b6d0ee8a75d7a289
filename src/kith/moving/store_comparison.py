"""Proves that two stores hold the same, while one is written to and the other follows it.

Every row of either store is looked up in the other. Rows that differ are compared again, up to COMPARISONS_MAX times,
each time after the follower has caught up (`catch_up`). So a row that is being changed is not mistaken for a
difference. Lists and counts are checked by `graph.audit`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
import numpy as np

from kith.graph.edge import Edge, as_of
from kith.graph.shapes import Node
from kith.moving.store_writer import StoreSide
from kith.notifications.inbox import InboxRow
from kith.records.store import Claim, Record

ROWS = 1_000
DIFFERENT_MAX = 10_000
"""Differing rows that are compared again; with more, something is wrong that another comparison does not change."""
COMPARISONS_MAX = 5
"""How many times differing rows are compared again."""
_EXAMPLES = 5
K = TypeVar("K")
Rows = Mapping[Any, Any]


class ComparisonResult(msgspec.Struct):
    """The result for one kind of rows. `rows`: how many were compared, of both stores together.

    `changing`: rows that still differed, but were written to during the last comparison. They can only be compared
    once writing has stopped, with `differing`.
    """

    kind: str
    rows: int = 0
    differing: int = 0
    examples: list[str] = []
    changing: list[Any] = []


class RowKind:
    """One kind of rows: how to list the keys of a store, and how to look rows up by key."""

    name: str

    async def page_of_keys(self, side: StoreSide, after: bytes | None) -> tuple[Sequence[Any], bytes | None]:
        """A page of keys, and the cursor of the next page; None: there is none."""
        raise NotImplementedError

    async def look_up(self, side: StoreSide, keys: Sequence[Any]) -> Rows:
        """The rows under these keys; a missing key has no row."""
        raise NotImplementedError

    async def repair(self, source: StoreSide, target: StoreSide, keys: Sequence[Any]) -> Sequence[Any]:
        """Repair in `target` differences that the log does not record; returns the keys that still differ."""
        return keys


class _Edges(RowKind):
    name = "edges"

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms

    async def page_of_keys(self, side: StoreSide, after: bytes | None) -> tuple[Sequence[Any], bytes | None]:
        rows, next_after = await side.contents.edges(after, ROWS)
        return [(edge.graph, edge.source, edge.destination) for edge in rows], next_after

    async def look_up(self, side: StoreSide, keys: Sequence[Any]) -> Rows:
        edges: dict[Any, Edge] = {}
        now_ms = self._now_ms()
        for graph, pairs in _grouped((key[0], key[1:]) for key in keys).items():
            for pair, edge in zip(pairs, await side.edges.get_many(graph, pairs), strict=True):
                if edge is not None:
                    edges[graph, *pair] = as_of(edge, now_ms)
        return edges


class _Records(RowKind):
    name = "records"

    async def page_of_keys(self, side: StoreSide, after: bytes | None) -> tuple[Sequence[Any], bytes | None]:
        rows, next_after = await side.contents.records(after, ROWS)
        return [(record.kind, record.id) for record in rows], next_after

    async def look_up(self, side: StoreSide, keys: Sequence[Any]) -> Rows:
        records: dict[Any, Record] = {}
        for kind, ids in _grouped(keys).items():
            for id_, record in zip(ids, await side.records.get_many(kind, ids), strict=True):
                if record is not None:
                    records[kind, id_] = record
        return records


class _Nodes(RowKind):
    name = "accounts"

    async def page_of_keys(self, side: StoreSide, after: bytes | None) -> tuple[Sequence[Any], bytes | None]:
        rows, next_after = await side.contents.nodes(after, ROWS)
        return [row.id for row in rows], next_after

    async def look_up(self, side: StoreSide, keys: Sequence[Any]) -> Rows:
        nodes = zip(keys, await side.edges.nodes(keys), strict=True)
        return {key: node for key, node in nodes if node != Node()}


class _Claims(RowKind):
    name = "claims of keys"

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms

    async def page_of_keys(self, side: StoreSide, after: bytes | None) -> tuple[Sequence[Any], bytes | None]:
        rows, next_after = await side.contents.claims(after, ROWS)
        return [row.key for row in rows], next_after

    async def look_up(self, side: StoreSide, keys: Sequence[Any]) -> Rows:
        now_ms = self._now_ms()
        values = await side.records.claimed([Claim(key, b"", now_ms, 0) for key in keys])
        return {key: value for key, value in zip(keys, values, strict=True) if value is not None}


class _InboxRows(RowKind):
    name = "rows of inboxes"

    def __init__(self, *, repairs: bool) -> None:
        self._repairs = repairs

    async def page_of_keys(self, side: StoreSide, after: bytes | None) -> tuple[Sequence[Any], bytes | None]:
        rows, next_after = await side.contents.inbox_rows(after, ROWS)
        return rows, next_after

    async def look_up(self, side: StoreSide, keys: Sequence[Any]) -> Rows:
        rows: dict[Any, bool] = {}
        for notice, users in _grouped((row.notice, row.user) for row in keys).items():
            user_ids = np.array(sorted(users), np.int64)
            has_row = await side.inboxes.holding(notice, user_ids)
            rows |= {InboxRow(user, notice): True for user in user_ids[has_row].tolist()}
        return rows

    async def repair(self, source: StoreSide, target: StoreSide, keys: Sequence[Any]) -> Sequence[Any]:
        """Remove from `target` the rows that were removed from `source` since they were copied."""
        if not self._repairs:
            return keys
        source_rows = await self.look_up(source, keys)
        removed = [key for key in keys if key not in source_rows]
        for user, notices in _grouped(removed).items():
            await target.inboxes.remove(user, notices)
        return [key for key in keys if key in source_rows]


class _Notes(RowKind):
    name = "notes"

    async def page_of_keys(self, side: StoreSide, after: bytes | None) -> tuple[Sequence[Any], bytes | None]:
        return list(await side.contents.notes()), None

    async def look_up(self, side: StoreSide, keys: Sequence[Any]) -> Rows:
        notes = await side.contents.notes()
        return {key: notes[key] for key in keys if key in notes}


def kinds(now_ms: Callable[[], int], *, moving: bool = False) -> list[RowKind]:
    """The kinds of rows to compare.

    `moving`: without notes, which are copied at the switch. Inbox rows that were removed after they were copied, which
    the log does not record, are then removed from the other store too.
    """
    compared: list[RowKind] = [_Nodes(), _Edges(now_ms), _Records(), _Claims(now_ms), _InboxRows(repairs=moving)]
    return compared if moving else [*compared, _Notes()]


async def compare(
    kind: RowKind,
    source: StoreSide,
    target: StoreSide,
    catch_up: Callable[[], Awaitable[object]],
    progress: Callable[[int], None] = lambda _: None,
) -> ComparisonResult:
    """Compare the rows of a kind.

    `source` may be written to meanwhile. `catch_up`: lets `target` catch up with all that was written to `source` by
    then. `progress`: called with the number of rows compared so far.
    """
    result, suspects = ComparisonResult(kind.name), list[Any]()
    for side, other_side in ((source, target), (target, source)):
        after, is_first = None, True
        while is_first or after is not None:
            is_first = False
            keys, after = await kind.page_of_keys(side, after)
            if keys:
                suspects += await differing(kind, side, other_side, keys)
            result.rows += len(keys)
            progress(result.rows)
            if len(suspects) > DIFFERENT_MAX:
                break
    if len(suspects) <= DIFFERENT_MAX:
        unsettled, result.changing = await _recheck(kind, source, target, list(dict.fromkeys(suspects)), catch_up)
        suspects = list(await kind.repair(source, target, unsettled))
    result.differing = len(suspects)
    result.examples = [str(key) for key in suspects[:_EXAMPLES]]
    return result


async def differing(kind: RowKind, source: StoreSide, target: StoreSide, keys: Sequence[Any]) -> list[Any]:
    """The keys of rows that differ between the two stores now."""
    rows, twins = await kind.look_up(source, keys), await kind.look_up(target, keys)
    return [key for key in keys if rows.get(key) != twins.get(key)]


async def _recheck(
    kind: RowKind, source: StoreSide, target: StoreSide, suspects: list[Any], catch_up: Callable[[], Awaitable[object]]
) -> tuple[list[Any], list[Any]]:
    """Compare suspects again, up to COMPARISONS_MAX times.

    Returns two lists of keys that still differ: those that `source` did not change during the last comparison, and
    those that it did.
    """
    changing: list[Any] = []
    for _ in range(COMPARISONS_MAX):
        if not suspects:
            break
        rows_before = await kind.look_up(source, suspects)
        await catch_up()
        twins, rows_after = await kind.look_up(target, suspects), await kind.look_up(source, suspects)
        suspects = [key for key in suspects if twins.get(key) != rows_after.get(key)]
        changing = [key for key in suspects if rows_before.get(key) != rows_after.get(key)]
    return [key for key in suspects if key not in changing], changing


def _grouped(pairs: Iterable[tuple[K, Any]]) -> dict[K, list[Any]]:
    """Group the second items of pairs by the first."""
    groups: dict[K, list[Any]] = defaultdict(list)
    for key, value in pairs:
        groups[key].append(value)
    return groups
