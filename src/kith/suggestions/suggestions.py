"""Serves suggestions: ranked once, cached for a while, and checked on every read.

The ranking of a walk (see `discovery`) is cached in a store that all processes and the batch job share. It is bound to
the followees that it was made from, so a follow or unfollow by the user invalidates it at once.

Every read decides who may be shown. Never shown are the user; accounts that the user follows, requested to follow,
muted or hid; accounts with a block in either direction; inactive accounts; and accounts that a label holds back. Faces
are checked, too, and the mutual count is reduced by those that are gone. Other changes, among other people, show with
the next ranking.

A user whose walk finds nobody gets the most followed accounts, as counted by the last batch job. Before the first job
there are none, and the answer says so.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import struct
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import numpy as np

from kith.core.clock import wall_ms
from kith.core.errors import Overloaded, SelfEdge, Unavailable
from kith.core.gathering import gather
from kith.core.ids import NodeId
from kith.core.labels import HIDE, LIMIT
from kith.core.paging import Mark, Page, Window
from kith.graph.edge import FORBIDDING_STATES, Direction, Outcome, State
from kith.graph.graph import Graph
from kith.graph.graphs import BLOCKS, FOLLOW_REQUESTS, FOLLOWS, MUTES, SUGGESTION_HIDES
from kith.graph.questions import Answers, Questions
from kith.graph.shapes import Ids, Listing, Side
from kith.people.accounts import check_not_removed
from kith.people.relations import RelationWritten
from kith.suggestions.discovery import (
    ScoredCandidates,
    WalkLimits,
    followees_fingerprint,
    lists_of,
    pack,
    score,
    unpack,
    without_faces,
)
from kith.suggestions.store import RankingRow, SuggestionStore

EXCLUDED_MAX = 10_000
"""Accounts of each excluding list (followed, requested, blocked, muted, hidden, blocking) that a ranking leaves out,
the newest. Reads leave out the others.
"""
COMPUTING_MAX, WAITING_MAX = 2, 100
"""Rankings that a process computes at a time, and rankings that may wait. Beyond that: Overloaded."""
RANKING_CACHED_MS = 15 * 60_000  # time for which a ranking is cached (article 000)
POPULAR_NOTE = "suggestions/popular"
_IN_LOOP_MAX = 20_000
"""Up to this many ids, a walk is scored in the event loop. A longer one is scored in a thread, to block no request."""
_HEAD = struct.Struct("<8sQB")  # fingerprint of the followees, computed at ms, whether it has all candidates
_POPULAR_HEAD = struct.Struct("<Q")  # counted at ms
_CHUNK_MIN = 64

SuggestionSource = Literal["network", "popular", "none"]


class Suggestion(NamedTuple):
    """An account to follow; how many of the user's followees follow it, and up to FACES of these, newest first."""

    id: int
    mutual_count: int
    mutuals: list[int]


class SuggestionPage(NamedTuple):
    """A page of suggestions. `source`: where they come from. `computed_at_ms`: when they were ranked."""

    items: list[Suggestion]
    page: Page
    source: SuggestionSource
    computed_at_ms: int | None


class _RankingPage(NamedTuple):
    """A part of a ranking, without accounts that may not be shown. `ended`: the ranking ends here."""

    items: list[Suggestion]
    page: Page
    ended: bool = False


class Followees(NamedTuple):
    """The newest followees of a user, and a fingerprint that changes when they do."""

    ids: Ids
    fingerprint: bytes


class CachedRanking(NamedTuple):
    """A user's cached ranking. `complete`: it has all candidates of the walk."""

    ranked: ScoredCandidates
    computed_at_ms: int
    complete: bool


class Suggestions:
    """Ranks, caches and serves suggestions. `cached_ms`: time for which a ranking made on a read is cached."""

    def __init__(
        self,
        graph: Graph,
        store: SuggestionStore,
        *,
        walk_limits: WalkLimits | None = None,
        cached_ms: int = RANKING_CACHED_MS,
        now_ms: Callable[[], int] = wall_ms,
    ) -> None:
        self.graph, self.store, self.now_ms = graph, store, now_ms
        self._walk_limits, self._cached_ms = walk_limits or WalkLimits(), cached_ms
        number = graph.graphs.number
        self.follows, self._blocks, self._hides = number(FOLLOWS), number(BLOCKS), number(SUGGESTION_HIDES)
        own = (self.follows, number(FOLLOW_REQUESTS), self._blocks, number(MUTES), self._hides)
        self._excluding_lists = [*((graph, Direction.OUT) for graph in own), (self._blocks, Direction.IN)]
        self._computing: dict[tuple[int, bytes], asyncio.Task[CachedRanking]] = {}
        self._slots = asyncio.Semaphore(COMPUTING_MAX)

    # --- reading ---------------------------------------------------------------------------------------

    async def page(self, user: NodeId, window: Window) -> SuggestionPage:
        """A page of a user's suggestions, best first. Errors: Overloaded."""
        followees, row = await gather(self.graph.store.immediate, self.followees(user), self.store.get(user))
        ranking = self._cached_ranking(row, followees) or await self._ranking(user, followees)
        part = await self._part(user, ranking.ranked, followees.ids, window)
        if part.ended and not ranking.complete:
            ranking = await self._ranking(user, followees)
            part = await self._part(user, ranking.ranked, followees.ids, window)
        if len(ranking.ranked.ids):
            return SuggestionPage(part.items, part.page, "network", ranking.computed_at_ms)
        counted_at_ms, popular = await self._popular()
        part = await self._part(user, popular, followees.ids, window)
        return SuggestionPage(part.items, part.page, "popular" if counted_at_ms else "none", counted_at_ms)

    async def followees(self, user: NodeId) -> Followees:
        """The newest followees of a user, with their fingerprint."""
        listing = Listing(self.follows, user, Direction.OUT)
        store = self.graph.store
        reading = store.ids(listing, self._walk_limits.followees), store.count_many([listing])
        ids, (count,) = await gather(store.immediate, *reading)
        return Followees(ids, followees_fingerprint(ids, count))

    async def _part(self, user: NodeId, ranked: ScoredCandidates, followees: Ids, window: Window) -> _RankingPage:
        """The part of a ranking that `window` asks for, without accounts that may not be shown."""
        start, end = _places(ranked, window)
        backward = window.before is not None
        places = np.arange(start, end)[:: -1 if backward else 1]
        rows: list[tuple[Mark, Suggestion]] = []
        step = max(_CHUNK_MIN, 2 * window.limit)
        for offset in range(0, len(places), step):
            rows += await self._allowed(user, ranked, places[offset : offset + step], followees)
            if len(rows) > window.limit:
                break
        more, rows = len(rows) > window.limit, rows[: window.limit][:: -1 if backward else 1]
        marks, items = [mark for mark, _ in rows], [suggestion for _, suggestion in rows]
        if backward:
            return _RankingPage(items, Page(marks, end < len(ranked.ids), more))
        return _RankingPage(items, Page(marks, more, start > 0), ended=not more)

    async def _allowed(
        self, user: NodeId, ranked: ScoredCandidates, places: Ids, followees: Ids
    ) -> list[tuple[Mark, Suggestion]]:
        """The candidates at `places` that may be shown now, each with those of its faces that may be named."""
        ids, scores = ranked.ids[places].tolist(), ranked.scores[places].tolist()
        rows = [[int(followees[face]) for face in row if face >= 0] for row in ranked.faces[places].tolist()]
        faces = sorted({face for row in rows for face in row})
        follows = [(self.follows, face, id_) for id_, row in zip(ids, rows, strict=True) for face in row]
        questions = Questions()
        nodes, barred = questions.nodes(ids), _ask_listed(questions, user, self._excluding_lists, ids)
        may_be_named, followed = self._ask_named(questions, user, faces), questions.states(follows)
        answers = await self.graph.store.answer(questions)
        unnamed = {face for face, ok in zip(faces, may_be_named(answers), strict=True) if not ok}
        states = dict(zip(follows, answers.states[followed], strict=True))
        allowed = []
        for id_, score_, row, node, bar in zip(ids, scores, rows, answers.nodes[nodes], barred(answers), strict=True):
            shown_faces = [
                face for face in row if face not in unnamed and states[self.follows, face, id_] == State.NORMAL
            ]
            mutual_count = score_ - (len(row) - len(shown_faces)) if row else 0
            unfindable = not row and node.private  # without a mutual followee, a private account is not suggested
            held_back = node.state != State.NORMAL or node.labels & (HIDE | LIMIT)
            if not (bar or id_ == user or unfindable or held_back or (row and not mutual_count)):
                allowed.append((Mark(score_, id_), Suggestion(id_, mutual_count, shown_faces)))
        return allowed

    def _ask_named(
        self, questions: Questions, user: NodeId, followees: Sequence[int]
    ) -> Callable[[Answers], list[bool]]:
        """Ask for each followee whether they may be named: active, not hidden by the app, and no block between."""
        nodes = questions.nodes(followees)
        blocked = _ask_listed(questions, user, [(self._blocks, direction) for direction in Direction], followees)

        def named(answers: Answers) -> list[bool]:
            return [
                node.state == State.NORMAL and not (node.labels & HIDE or bar)
                for node, bar in zip(answers.nodes[nodes], blocked(answers), strict=True)
            ]

        return named

    async def _popular(self) -> tuple[int | None, ScoredCandidates]:
        raw = await self.graph.store.get_note(POPULAR_NOTE)
        if raw is None:
            return None, without_faces(np.empty(0, np.int64), np.empty(0, np.int64))
        ids, followers = np.frombuffer(raw, "<i8", offset=_POPULAR_HEAD.size).reshape(2, -1)
        return _POPULAR_HEAD.unpack_from(raw)[0], without_faces(ids, followers)

    async def store_popular(self, ids: Ids, followers: Ids) -> None:
        """Store the most followed accounts, best first, with their numbers of followers."""
        rows = np.stack([ids, followers]).astype("<i8").tobytes()
        await self.graph.store.put_note(POPULAR_NOTE, _POPULAR_HEAD.pack(self.now_ms()) + rows)

    # --- ranking ---------------------------------------------------------------------------------------

    async def rank(self, user: NodeId, followees: Followees, first: int | None = None) -> tuple[CachedRanking, bytes]:
        """Rank a user's candidates now; returns the ranking, cut to its `first` candidates, and its bytes to store."""
        store, questions = self.graph.store, Questions()
        may_be_named = self._ask_named(questions, user, followees.ids.tolist())
        named_rows = np.flatnonzero(may_be_named(await store.answer(questions)))
        walking = lists_of(store, self.follows, followees.ids[named_rows].tolist(), self._walk_limits)
        lists, (followed, *others) = await gather(store.immediate, walking, self._excluded_ids(user))
        excluded, held_back = np.append(followed, np.int64(user)), np.concatenate(others)
        arguments = lists, named_rows, excluded, held_back, self._walk_limits.candidates
        ranked = score(*arguments) if len(lists.ids) <= _IN_LOOP_MAX else await asyncio.to_thread(score, *arguments)
        complete = first is None or len(ranked.ids) <= first
        ranking = CachedRanking(ranked.first(len(ranked.ids) if first is None else first), self.now_ms(), complete)
        return ranking, _HEAD.pack(followees.fingerprint, ranking.computed_at_ms, complete) + pack(ranking.ranked)

    async def _excluded_ids(self, user: NodeId) -> tuple[Ids, ...]:
        """Up to EXCLUDED_MAX ids of each list that excludes candidates, first those whom the user follows."""
        listings = [Listing(graph, user, direction) for graph, direction in self._excluding_lists]
        store = self.graph.store
        return await gather(store.immediate, *(store.ids(listing, EXCLUDED_MAX) for listing in listings))

    async def close(self) -> None:
        """Wait for the rankings that are being computed."""
        await asyncio.gather(*self._computing.values(), return_exceptions=True)

    def _cached_ranking(self, row: RankingRow | None, followees: Followees) -> CachedRanking | None:
        """The cached ranking in a row, if it has not expired and the user's followees are the same; otherwise None."""
        if row is None or row.until_ms <= self.now_ms():
            return None
        fingerprint, computed_at_ms, complete = _HEAD.unpack_from(row.data)
        if fingerprint != followees.fingerprint or computed_at_ms > self.now_ms():  # the latter: the clock was set back
            return None
        return CachedRanking(unpack(row.data[_HEAD.size :]), computed_at_ms, bool(complete))

    async def _ranking(self, user: NodeId, followees: Followees) -> CachedRanking:
        """A new ranking. Concurrent requests for the same ranking share it."""
        key = (int(user), followees.fingerprint)
        task = self._computing.get(key)
        if task is None:
            if len(self._computing) >= COMPUTING_MAX + WAITING_MAX:
                raise Overloaded(f"{len(self._computing)} rankings are being computed; repeat later")
            task = self._computing[key] = asyncio.create_task(self._rank_and_store(user, followees))
            task.add_done_callback(lambda done: (self._computing.pop(key), done.cancelled() or done.exception()))
        return await asyncio.shield(task)  # if one request is cancelled, the others still get the ranking

    async def _rank_and_store(self, user: NodeId, followees: Followees) -> CachedRanking:
        async with self._slots:
            ranking, data = await self.rank(user, followees)
        with contextlib.suppress(Unavailable):  # if it cannot be cached, the answer is still good
            now_ms = self.now_ms()
            await self.store.put_many([RankingRow(user, now_ms + self._cached_ms, data)], now_ms)
        return ranking

    # --- hiding ----------------------------------------------------------------------------------------

    async def hide(self, actor: NodeId, target: NodeId) -> RelationWritten:
        """Never suggest `target` to `actor` again. Nobody else is notified.

        Errors: SelfEdge; Forbidden if `actor` was removed, UserNotFound if `target` was.
        """
        if actor == target:
            raise SelfEdge("one is never suggested to oneself; name another user", id=str(actor))
        await check_not_removed(self.graph.store, actor, target)
        changes, mark = await self.graph.write([self.graph.add_write(self._hides, actor, target)])
        return RelationWritten(True, changes[0].outcome is Outcome.APPLIED, mark)

    async def unhide(self, actor: NodeId, target: NodeId) -> RelationWritten:
        """Undo `hide`."""
        changes, mark = await self.graph.write([self.graph.remove_write(self._hides, actor, target)])
        return RelationWritten(False, changes[0].outcome is Outcome.APPLIED, mark)


def _ask_listed(
    questions: Questions, user: NodeId, sides: Sequence[Side], ids: Sequence[int]
) -> Callable[[Answers], list[bool]]:
    """Ask for each of `ids` whether it is in one of these lists of `user`. Archived edges (of a deactivated account)
    count, too.
    """
    searched = np.array(ids, np.int64)
    places = [
        questions.members(Listing(graph, user, direction, state), searched)
        for (graph, direction), state in itertools.product(sides, FORBIDDING_STATES)
    ]

    def listed(answers: Answers) -> list[bool]:
        in_any: list[bool] = np.any([answers.members[row] for row in places], axis=0).tolist()
        return in_any

    return listed


def _places(ranked: ScoredCandidates, window: Window) -> tuple[int, int]:
    """The range of indexes that the window asks for: behind `after`, or before `before`."""
    mark = window.after or window.before
    if mark is None:
        return 0, len(ranked.ids)
    above = (ranked.scores > mark.position) | ((ranked.scores == mark.position) & (ranked.ids > mark.id))
    if window.before is not None:
        return 0, int(above.sum())
    at_mark = (ranked.scores == mark.position) & (ranked.ids == mark.id)
    return int(above.sum() + at_mark.sum()), len(ranked.ids)
