"""A job that computes suggestions for all users: two passes over the nodes of the graph.

The first pass counts the users who follow somebody, and finds the most followed accounts. The second ranks user by
user, and keeps the results chunk by chunk, with a checkpoint after each. A killed job resumes after its last
checkpoint; repeating a chunk writes the same again. Memory holds one chunk of results and one walk, whatever the size
of the graph.
"""

from __future__ import annotations

from typing import Protocol

import msgspec
import numpy as np

from kith.core.ids import NodeId
from kith.graph.shapes import Degrees
from kith.suggestions.store import RankingRow
from kith.suggestions.suggestions import Suggestions

POPULAR_MAX = 200
"""How many of the most followed accounts are kept."""
USERS_A_CHUNK = 500
_NODES_A_CHUNK = 5_000
_NOTE = "suggestions/job"


class BatchCheckpoint(msgspec.Struct, frozen=True):
    """How far a job is, as saved after every chunk."""

    users: int  # who follow somebody, as counted by the first pass
    done: int
    after: bytes | None  # where the nodes begin that are left, see `Scans.degrees`
    started_ms: int


class BatchObserver(Protocol):
    """Is told how far a job is (progress bars)."""

    def counted(self, users: int) -> None:
        """The first pass has counted this many users until now."""
        ...

    def ranked(self, done: int, users: int) -> None:
        """`done` of about `users` users are ranked, those of an interrupted run included."""
        ...


class BatchResult(msgspec.Struct, frozen=True):
    """How many users this run ranked, and how many an interrupted run had ranked before."""

    ranked: int
    before: int


async def suggest_everyone(
    suggestions: Suggestions, *, first: int, fresh_ms: int, report: BatchObserver
) -> BatchResult:
    """Rank all users, and keep the `first` suggestions of each for `fresh_ms`.

    Resumes an interrupted run, unless that began more than `fresh_ms` ago. Errors: StoreFull, StoreUnavailable; what
    was done stays, and the next run resumes there.
    """
    store = suggestions.graph.store
    at = await _unfinished(suggestions, fresh_ms) or await _begun(suggestions, report)
    before = at.done
    more = True
    while more:
        nodes, after = await store.degrees(suggestions.follows, at.after, USERS_A_CHUNK)
        users = [NodeId(node.node) for node in nodes if node.out]
        if users:
            rows = [await _row(suggestions, user, first, fresh_ms) for user in users]
            await suggestions.store.put_many(rows, suggestions.now_ms())
        at, more = msgspec.structs.replace(at, done=at.done + len(users), after=after), after is not None
        if more:
            await store.put_note(_NOTE, msgspec.json.encode(at))
        if nodes:
            report.ranked(at.done, max(at.users, at.done))
    await store.put_note(_NOTE, None)
    return BatchResult(at.done - before, before)


async def _unfinished(suggestions: Suggestions, fresh_ms: int) -> BatchCheckpoint | None:
    raw = await suggestions.graph.store.get_note(_NOTE)
    at = None if raw is None else msgspec.json.decode(raw, type=BatchCheckpoint)
    return at if at is not None and 0 <= suggestions.now_ms() - at.started_ms < fresh_ms else None


async def _begun(suggestions: Suggestions, report: BatchObserver) -> BatchCheckpoint:
    """The first pass: count the users, and keep the most followed accounts."""
    users, after, more = 0, None, True
    top: list[Degrees] = []
    while more:
        nodes, after = await suggestions.graph.store.degrees(suggestions.follows, after, _NODES_A_CHUNK)
        users, more = users + sum(node.out > 0 for node in nodes), after is not None
        top += [node for node in nodes if node.into]
        top = sorted(top, key=lambda node: (node.into, node.node), reverse=True)[:POPULAR_MAX]
        report.counted(users)
    ids, followers = [node.node for node in top], [node.into for node in top]
    await suggestions.keep_popular(np.array(ids, np.int64), np.array(followers, np.int64))
    at = BatchCheckpoint(users, 0, None, suggestions.now_ms())
    await suggestions.graph.store.put_note(_NOTE, msgspec.json.encode(at))
    return at


async def _row(suggestions: Suggestions, user: NodeId, first: int, fresh_ms: int) -> RankingRow:
    _, data = await suggestions.rank(user, await suggestions.followees(user), first)
    return RankingRow(user, suggestions.now_ms() + fresh_ms, data)
