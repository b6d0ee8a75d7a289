"""Pins at home: posts on boards that a reader follows, directly or through the owner, placed by the time of the pin.

A post appears once, at its newest pin on a board that the reader follows and may see, and whose owner is not muted.
Each request checks that again. Limit: the newest PINS_EACH pins of BOARDS_MAX boards, first the boards that the reader
follows directly, then those of the owners followed last.

The boards that may matter to a reader are cached for BOARDS_KEPT_MS. The entry is invalid once the log tells that one
of the reader's lists changed, or that a followed user made, moved or deleted a board; where the log cannot tell, once
the length of one of the lists changed. While nobody has a board, none of this is read.

Within one scroll a pin keeps its place, however many follow it, and a post whose pin was removed does not come twice.
For removed pins this holds for the newest PINS_EACH of each board.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import compress
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from kith.boards.board import Board
from kith.boards.boards import Boards
from kith.boards.visibility import may_see_board
from kith.core.clock import ms_of
from kith.core.gathering import gather
from kith.core.ids import EPOCH_MS, TIME_SHIFT, NodeId, made_at_ms
from kith.core.paging import Mark, Page, Window
from kith.graph.edge import Direction, State
from kith.graph.graphs import MUTES, PINS
from kith.graph.questions import Answers, Questions
from kith.graph.shapes import Ids, Listing
from kith.home.skeleton.skeleton import Skeleton, mark_of
from kith.people.privacy import Privacy
from kith.records.cache_tables import CachedValues, make_room
from kith.records.read_cache import ReadCache

BOARDS_MAX = 100
FOLLOWEES_SEARCHED_MAX = 200
"""The last followed users whose boards are searched."""
PINS_EACH = 20
BOARDS_KEPT_MS = 30_000
_READERS_MAX = 20_000
_OWNERS_CACHED_MAX = 50_000
"""Users for whom it is cached whether they have boards, 0.1 KB each."""
Pinned = Mapping[int, int]
"""By post, when it was pinned, in ms since the epoch."""
NO_PINS: Pinned = MappingProxyType({})


class HomePins(NamedTuple):
    """Pins that place posts at home. `removed_since`: pins that did so when the scroll began and were removed since."""

    pinned: Pinned = NO_PINS
    removed_since: Pinned = NO_PINS


_NO_HOME_PINS = HomePins()


class _CachedBoards(NamedTuple):
    """Boards that a reader may follow, each with its owner. `lengths`: of the reader's lists at that time.

    `followed`: the users whose boards were searched. `changes_seen`: the number of board changes seen before the
    search.
    """

    lengths: list[int]
    at_ms: int
    owners: dict[int, int]
    followed: Ids
    changes_seen: int


class PinnedPosts:
    """Reads the pins on boards that a reader follows."""

    def __init__(self, boards: Boards, read_cache: ReadCache, now_ms: Callable[[], int]) -> None:
        self._store, self._reconciler, self.now_ms = boards.store, boards.reconciler, now_ms
        self._immediate = boards.store.immediate and boards.reconciler.records.immediate
        self._privacy = Privacy(boards.graph)
        self._pins, self._mutes = boards.graph.graphs.number(PINS), boards.graph.graphs.number(MUTES)
        self._kept, self._readers_max = dict[int, _CachedBoards](), read_cache.room(_READERS_MAX)
        graphs = (boards.reconciler.follows, boards.reconciler.explicit, boards.reconciler.unfollowed)
        self._read_cache = read_cache
        self._unchanged: CachedValues[_CachedBoards] = read_cache.of_edges(graphs, _READERS_MAX)
        self._have_boards: CachedValues[bool] = read_cache.of_edges((boards.reconciler.boards,), _OWNERS_CACHED_MAX)
        self._board_changes = read_cache.changes(graphs=(boards.reconciler.boards,))
        self._no_boards_at: int | None = None

    async def of(self, reader: NodeId, refreshed: Awaitable[None], until: int | None = None) -> HomePins:
        """The pins of a reader's home; the rules check the posts later.

        `refreshed`: awaited before cached boards are used, so that they are as of this request. `until`: pins before it
        keep their place, though newer ones came. Takes one call; three in a row if the boards are not cached; one more
        if pins since `until` pushed others out of the newest, or may have been removed.
        """
        if self._immediate and await self._nobody_has_boards():
            return _NO_HOME_PINS
        kept, generation = self._kept.get(reader), self._read_cache.generation
        if kept is not None and 0 <= self.now_ms() - kept.at_ms < BOARDS_KEPT_MS:
            found, matches_cache = _NO_HOME_PINS, False
            if kept.owners or not self._read_cache.generation:
                found, matches_cache = await self._newest_pins(reader, kept, until)
            await refreshed
            if self._is_current(reader, kept, matches_cache=matches_cache):
                return found
        kept = await self._candidates(reader, refreshed)
        self._unchanged.keep(generation, {reader: kept})
        return (await self._newest_pins(reader, kept, until))[0] if kept.owners else _NO_HOME_PINS

    def _is_current(self, reader: NodeId, kept: _CachedBoards, *, matches_cache: bool) -> bool:
        """Whether cached boards are valid: the same users are followed, and they have the same boards.

        `matches_cache`: the lengths of the reader's lists and the owners of the boards did not change. It is the only
        test where the log cannot tell, and it misses a follow that replaced another one.
        """
        changes = self._board_changes
        if not self._read_cache.generation:
            return matches_cache
        if (kept.owners and not matches_cache) or self._unchanged.now.get(reader) is not kept:
            return False
        return changes.now == kept.changes_seen or changes.none_of(set(kept.followed.tolist()), kept.changes_seen)

    async def _nobody_has_boards(self) -> bool:
        """Whether nobody has a board, as of the last refresh."""
        seen = self._board_changes.now
        if self._no_boards_at != seen or not self._read_cache.generation:
            self._no_boards_at = None if await self._reconciler.any_board_exists() else seen
        return self._no_boards_at is not None

    def _lists_of(self, reader: NodeId) -> list[Listing]:
        """The reader's lists of followed users, followed boards and unfollowed boards."""
        reconciler = self._reconciler
        return [
            Listing(graph, reader, Direction.OUT)
            for graph in (reconciler.follows, reconciler.explicit, reconciler.unfollowed)
        ]

    async def _candidates(self, reader: NodeId, refreshed: Awaitable[None]) -> _CachedBoards:
        """Search the boards that the reader may follow, and cache them."""
        questions, now, changes_seen, lists = (
            Questions(),
            self.now_ms(),
            self._board_changes.now,
            self._lists_of(reader),
        )
        counts, explicit = questions.counts(lists), questions.page(lists[1], Window(BOARDS_MAX))
        answers, follows = await gather(
            self._immediate, self._store.answer(questions), self._store.ids(lists[0], FOLLOWEES_SEARCHED_MAX)
        )
        await refreshed
        ids = [mark.id for mark in answers.pages[explicit].items]
        boards, others = await gather(
            self._immediate, self._reconciler.read(ids), self._of_owners(follows.tolist(), BOARDS_MAX - len(ids))
        )
        owners = {board.id: board.owner for board in boards if board is not None} | others
        if len(self._kept) >= self._readers_max:
            make_room(self._kept, 1)
        kept = self._kept[reader] = _CachedBoards(answers.counts[counts], now, owners, follows, changes_seen)
        return kept

    async def _of_owners(self, owners: Sequence[int], limit: int) -> dict[int, int]:
        """The newest `limit` boards of the first `limit` owners who have any, each with its owner."""
        boards, kept, generation = self._reconciler.boards, self._have_boards.now, self._read_cache.generation
        if not (limit and owners):
            return {}
        if self._store.immediate:  # there a count costs less than a page, and an extra call nothing
            owners = (await self._owners_with_boards(owners))[:limit]
        else:
            owners = [owner for owner in owners if kept.get(owner, True)]
        questions = Questions()
        for owner in owners:
            questions.page(Listing(boards, owner, Direction.OUT), Window(limit))
        pages = (await self._store.answer(questions)).pages if owners else []
        self._have_boards.keep(generation, {owner: bool(page.items) for owner, page in zip(owners, pages, strict=True)})
        having = [(owner, page) for owner, page in zip(owners, pages, strict=True) if page.items][:limit]
        marks = [(mark, owner) for owner, page in having for mark in page.items]
        return {mark.id: owner for mark, owner in sorted(marks, reverse=True)[:limit]}

    async def _owners_with_boards(self, owners: Sequence[int]) -> list[int]:
        """The users who have boards."""
        kept, generation = self._have_boards.now, self._read_cache.generation
        known = list(map(kept.get, owners))
        if None in known:
            unknown = [owner for owner, has in zip(owners, known, strict=True) if has is None]
            (counts,) = await self._store.counts(
                [(self._reconciler.boards, Direction.OUT)], np.array(unknown, np.int64)
            )
            found = dict(zip(unknown, (counts > 0).tolist(), strict=True))
            self._have_boards.keep(generation, found)
            if not (True in known or counts.any()):
                return []
            known = [found[owner] if has is None else has for owner, has in zip(owners, known, strict=True)]
        return list(compress(owners, known)) if True in known else []

    async def _newest_pins(self, reader: NodeId, kept: _CachedBoards, until: int | None) -> tuple[HomePins, bool]:
        """The newest pins of the boards that the reader follows, and whether nothing differs from the cached entry."""
        questions, ids = Questions(), list(kept.owners)
        counts = questions.counts(self._lists_of(reader))
        if not ids:
            return _NO_HOME_PINS, (await self._store.answer(questions)).counts == kept.lengths
        removed = {} if until is None else self._ask_removed(questions, ids, until)
        pages_of = self._ask_newest(questions, reader, kept.owners)
        boards, answers = await gather(self._immediate, self._reconciler.read(ids), self._store.answer(questions))
        pages = pages_of(answers, boards)
        removed_pages = {board: answers.pages[at] for board, at in removed.items() if board in pages}
        earlier, removed_since = await gather(
            self._immediate, self._newest_before(until, pages), self._removed_since(until, removed_pages)
        )
        pinned = _dates(mark for page in (*pages.values(), *earlier) for mark in page.items)
        are_theirs = all(board is None or board.owner == kept.owners[board.id] for board in boards)
        return HomePins(pinned, removed_since), are_theirs and answers.counts[counts] == kept.lengths

    async def _newest_before(self, until: int | None, pages: Mapping[int, Page]) -> Sequence[Page]:
        """The newest pins before `until` of boards where later pins may have pushed some out of the newest."""
        if until is None:
            return ()
        questions = Questions()
        for board, page in pages.items():
            if len(page.items) == PINS_EACH and page.items[0].position >= until:
                questions.page(Listing(self._pins, board, Direction.OUT), Window(PINS_EACH, until=until))
        return (await self._store.answer(questions)).pages if questions.asked_pages else ()

    def _ask_removed(self, questions: Questions, boards: Sequence[int], until: int) -> dict[int, int]:
        """Ask for the newest removed pins before `until` of each board; returns the index of each page."""
        lists = {board: Listing(self._pins, board, Direction.OUT, State.REMOVED) for board in boards}
        return {board: questions.page(one, Window(PINS_EACH, until=until)) for board, one in lists.items()}

    async def _removed_since(self, until: int | None, removed: Mapping[int, Page]) -> Pinned:
        """The removed pins that were still on their board at `until`."""
        marks = [(board, mark) for board, page in removed.items() for mark in page.items]
        if until is None or not marks:
            return NO_PINS
        edges = await self._store.get_many(self._pins, [(board, mark.id) for board, mark in marks])
        were_there = [edge is not None and ms_of(edge.updated_at) >= until - 1 for edge in edges]
        return _dates(mark for (_, mark), was_there in zip(marks, were_there, strict=True) if was_there)

    def _ask_newest(
        self, questions: Questions, reader: NodeId, owners: Mapping[int, int]
    ) -> Callable[[Answers, Sequence[Board | None]], dict[int, Page]]:
        """Ask for the newest pins of the boards that the reader follows. `owners`: the cached owner of each board."""
        reconciler, people = self._reconciler, list(set(owners.values()))
        standings = self._privacy.ask_standings(questions, reader, people)
        muted = questions.members(Listing(self._mutes, reader, Direction.OUT), np.array(people, np.int64))
        explicit, unfollowed = [
            questions.towards(graph, reader, list(owners)) for graph in (reconciler.explicit, reconciler.unfollowed)
        ]
        first = len(questions.asked_pages)
        for board in owners:
            questions.page(Listing(self._pins, board, Direction.OUT), Window(PINS_EACH))

        def pages(answers: Answers, boards: Sequence[Board | None]) -> dict[int, Page]:
            found, muting = standings(answers), dict(zip(people, answers.members[muted].tolist(), strict=True))
            rows = zip(
                boards, answers.towards[explicit], answers.towards[unfollowed], answers.pages[first:], strict=True
            )
            return {
                board.id: page
                for board, by_itself, unfollowed, page in rows
                if board is not None
                and board.is_open
                and board.owner == owners[board.id]
                and (unfollowed is not State.NORMAL if found[board.owner].followed else by_itself is State.NORMAL)
                and may_see_board(board, reader, found[board.owner], member=False)
                and not muting[board.owner]
            }

        return pages


def _dates(pins: Iterable[Mark]) -> Pinned:
    """The newest pin of each post; never before the post was created."""
    dates = dict[int, int]()
    for position, id_ in pins:
        dates[id_] = max(position, dates[id_] if id_ in dates else made_at_ms(id_))
    return dates or NO_PINS


def with_pins(skeleton: Skeleton, found: HomePins, after: Mark | None) -> Skeleton:
    """The skeleton beyond `after`, merged with pinned posts. A pinned post stands only at its newest pin. If that pin
    was removed during this scroll after the post was shown, the post is not shown again.
    """
    end, pinned = skeleton.end, found.pinned
    if not (pinned or found.removed_since):
        return skeleton
    came = {id_ for id_, at_ms in found.removed_since.items() if after is not None and Mark(at_ms, id_) >= after}
    pins = [Mark(at_ms, id_) for id_, at_ms in pinned.items() if id_ not in came]
    pins = [mark for mark in pins if (after is None or mark < after) and (end is None or mark >= end)]
    marks = [mark_of(id_) for id_ in skeleton.ids.tolist() if not (id_ in pinned or id_ in came)]
    ids = np.array([mark.id for mark in sorted(marks + pins, reverse=True)], np.int64)
    return Skeleton(ids, end, pinned)


def place_among_posts(after: Mark | None) -> Mark | None:
    """The place in outboxes, which have no pins, for a place at home, which may be that of a pin."""
    if after is None or after.position <= made_at_ms(after.id):
        return after
    return Mark(after.position, (after.position - EPOCH_MS) << TIME_SHIFT)
