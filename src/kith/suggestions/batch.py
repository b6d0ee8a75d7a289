"""A job that computes suggestions for all users: two passes over the nodes of the graph.

The first pass counts the users who follow somebody, and finds the most followed accounts. The second pass ranks user by
user, and stores the results chunk by chunk, with a checkpoint after each. A killed job resumes after its last
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
"""The most followed accounts that are stored."""
USERS_A_CHUNK = 500
"""Nodes of a chunk of the second pass."""
_NODES_A_CHUNK = 5_000  # of the first pass
_NOTE = "suggestions/job"


class BatchCheckpoint(msgspec.Struct, frozen=True):
    """The progress of a job, saved after every chunk."""

    users: int  # users who follow somebody, as counted by the first pass
    done: int
    after: bytes | None  # where the remaining nodes begin; see `Scans.degrees`
    started_ms: int


class BatchObserver(Protocol):
    """Receives the progress of a job (for progress bars)."""

    def counted(self, users: int) -> None:
        """The first pass has counted this many users so far."""
        ...

    def ranked(self, done: int, users: int) -> None:
        """`done` of about `users` users are ranked, including those of an interrupted run."""
        ...


class BatchResult(msgspec.Struct, frozen=True):
    """The number of users whom this run ranked, and of those whom an interrupted run had ranked before."""

    ranked: int
    ranked_before: int


async def suggest_everyone(
    suggestions: Suggestions, *, first: int, fresh_ms: int, report: BatchObserver
) -> BatchResult:
    """Rank all users, and store the `first` suggestions of each for `fresh_ms`.

    Resumes an interrupted run, unless that began more than `fresh_ms` ago. Errors: StoreFull, StoreUnavailable;
    finished chunks stay, and the next run resumes after them.
    """
    store = suggestions.graph.store
    checkpoint = await _saved_checkpoint(suggestions, fresh_ms) or await _first_pass(suggestions, report)
    before = checkpoint.done
    more = True
    while more:
        nodes, after = await store.degrees(suggestions.follows, checkpoint.after, USERS_A_CHUNK)
        users = [NodeId(node.node) for node in nodes if node.out]
        if users:
            rows = [await _row(suggestions, user, first, fresh_ms) for user in users]
            await suggestions.store.put_many(rows, suggestions.now_ms())
        checkpoint, more = (
            msgspec.structs.replace(checkpoint, done=checkpoint.done + len(users), after=after),
            after is not None,
        )
        if more:
            await store.put_note(_NOTE, msgspec.json.encode(checkpoint))
        if nodes:
            report.ranked(checkpoint.done, max(checkpoint.users, checkpoint.done))
    await store.put_note(_NOTE, None)
    return BatchResult(checkpoint.done - before, before)


async def _saved_checkpoint(suggestions: Suggestions, fresh_ms: int) -> BatchCheckpoint | None:
    raw = await suggestions.graph.store.get_note(_NOTE)
    checkpoint = None if raw is None else msgspec.json.decode(raw, type=BatchCheckpoint)
    return (
        checkpoint if checkpoint is not None and 0 <= suggestions.now_ms() - checkpoint.started_ms < fresh_ms else None
    )


async def _first_pass(suggestions: Suggestions, report: BatchObserver) -> BatchCheckpoint:
    """The first pass: count the users, and store the most followed accounts."""
    users, after, more = 0, None, True
    top: list[Degrees] = []
    while more:
        nodes, after = await suggestions.graph.store.degrees(suggestions.follows, after, _NODES_A_CHUNK)
        users, more = users + sum(node.out > 0 for node in nodes), after is not None
        top += [node for node in nodes if node.into]
        top = sorted(top, key=lambda node: (node.into, node.node), reverse=True)[:POPULAR_MAX]
        report.counted(users)
    ids, followers = [node.node for node in top], [node.into for node in top]
    await suggestions.store_popular(np.array(ids, np.int64), np.array(followers, np.int64))
    checkpoint = BatchCheckpoint(users, 0, None, suggestions.now_ms())
    await suggestions.graph.store.put_note(_NOTE, msgspec.json.encode(checkpoint))
    return checkpoint


async def _row(suggestions: Suggestions, user: NodeId, first: int, fresh_ms: int) -> RankingRow:
    _, data = await suggestions.rank(user, await suggestions.followees(user), first)
    return RankingRow(user, suggestions.now_ms() + fresh_ms, data)
