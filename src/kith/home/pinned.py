"""Pins at home: posts on the boards that a reader follows, by themselves or through their owner, dated by the pin.

A post comes once, at its newest pin on a board that the reader follows, may see, and whose owner they did not mute:
that is asked in each request. Looked at are the newest PINS_EACH of BOARDS_MAX boards: first the boards that the reader
follows by themselves, then those of the owners followed last. Of whom they follow it is kept for KEPT_MS who has
boards, unless the length of one of the reader's lists changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from kith.boards.board import Board
from kith.boards.boards import Boards, may_see
from kith.core.ids import EPOCH_MS, TIME_SHIFT, NodeId, made_at_ms
from kith.core.paging import Mark, Window
from kith.graph.edge import Direction, State
from kith.graph.graphs import MUTES, PINS
from kith.graph.questions import Questions
from kith.graph.shapes import Listing
from kith.home.ranker import NO_PINS
from kith.home.skeleton import Skeleton, mark_of
from kith.people.privacy import Privacy

BOARDS_MAX = 100
OWNERS_MAX = 200
"""Of so many of those whom a reader follows, the newest, boards are looked for."""
PINS_EACH = 20
KEPT_MS = 30_000
_READERS_MAX = 20_000
Pinned = Mapping[int, int]
"""When posts were pinned, in ms since the epoch, by post."""


class PinnedPosts:
    """Reads what is pinned on the boards that a reader follows."""

    def __init__(self, boards: Boards, now_ms: Callable[[], int]) -> None:
        self._store, self._settling, self._now_ms = boards.store, boards.settling, now_ms
        self._privacy = Privacy(boards.graph)
        self._pins, self._mutes = boards.graph.graphs.number(PINS), boards.graph.graphs.number(MUTES)
        self._kept: dict[int, tuple[list[int], int, list[int]]] = {}

    async def of(self, reader: NodeId) -> Pinned:
        """The posts that come to a reader's home by boards, whoever may see the posts themselves."""
        ids = await self._candidates(reader)
        if not ids:
            return NO_PINS
        boards = [board for board in await self._settling.read(ids) if board is not None and board.is_open]
        pages = await self._newest(reader, boards)
        pinned: dict[int, int] = {}
        for mark in (mark for page in pages for mark in page):
            at_ms = max(mark.position, made_at_ms(mark.id), pinned.get(mark.id, 0))
            pinned[mark.id] = at_ms
        return pinned or NO_PINS

    async def _candidates(self, reader: NodeId) -> list[int]:
        """Boards that the reader may follow."""
        settling, questions, now = self._settling, Questions(), self._now_ms()
        lists = [Listing(graph, reader, Direction.OUT) for graph in (settling.follows, settling.own, settling.against)]
        counts = questions.counts(lists)
        lengths = (await self._store.answer(questions)).counts[counts]
        if not lengths[0] and not lengths[1]:
            return []
        kept = self._kept.get(reader)
        if kept is not None and kept[0] == lengths and 0 <= now - kept[1] < KEPT_MS:
            return kept[2]
        questions = Questions()
        own = questions.page(lists[1], Window(BOARDS_MAX))
        follows = questions.page(lists[0], Window(OWNERS_MAX))
        answers = await self._store.answer(questions)
        ids = [mark.id for mark in answers.pages[own].items]
        ids += await self._of_owners([mark.id for mark in answers.pages[follows].items], BOARDS_MAX - len(ids))
        if len(self._kept) >= _READERS_MAX:
            self._kept.clear()
        self._kept[reader] = (lengths, now, ids)
        return ids

    async def _of_owners(self, owners: Sequence[int], limit: int) -> list[int]:
        """The newest boards of those owners that have any."""
        boards, ids = self._settling.boards, np.array(owners, np.int64)
        (counts,) = await self._store.counts([(boards, Direction.OUT)], ids)
        questions = Questions()
        for owner in ids[counts > 0][:limit].tolist():
            questions.page(Listing(boards, owner, Direction.OUT), Window(limit))
        pages = (await self._store.answer(questions)).pages if len(questions) else []
        return [mark.id for mark in sorted((mark for page in pages for mark in page.items), reverse=True)[:limit]]

    async def _newest(self, reader: NodeId, boards: Sequence[Board]) -> Iterable[Sequence[Mark]]:
        """The newest pins of those of the boards that the reader follows."""
        questions, settling = Questions(), self._settling
        owners = list({board.owner for board in boards})
        standings = self._privacy.ask_standings(questions, reader, owners)
        muted = questions.members(Listing(self._mutes, reader, Direction.OUT), np.array(owners, np.int64))
        own = questions.states([(settling.own, reader, board.id) for board in boards])
        against = questions.states([(settling.against, reader, board.id) for board in boards])
        for board in boards:
            questions.page(Listing(self._pins, board.id, Direction.OUT), Window(PINS_EACH))
        answers = await self._store.answer(questions)
        found, silent = standings(answers), dict(zip(owners, answers.members[muted].tolist(), strict=True))
        said = zip(boards, answers.states[own], answers.states[against], answers.pages, strict=True)
        return [
            page.items
            for board, by_itself, unfollowed, page in said
            if (unfollowed is not State.NORMAL if found[board.owner].followed else by_itself is State.NORMAL)
            and may_see(board, reader, found[board.owner], member=False)
            and not silent[board.owner]
        ]


def with_pins(skeleton: Skeleton, pinned: Pinned, after: Mark | None) -> Skeleton:
    """A skeleton of what there is beyond `after`, with what was pinned there. What is pinned stands where it was pinned
    last, and nowhere else.
    """
    end = skeleton.end
    pins = [Mark(at_ms, id_) for id_, at_ms in pinned.items()]
    pins = [mark for mark in pins if (after is None or mark < after) and (end is None or mark >= end)]
    marks = [mark_of(id_) for id_ in skeleton.ids.tolist() if id_ not in pinned]
    ids = np.array([mark.id for mark in sorted(marks + pins, reverse=True)], np.int64)
    return Skeleton(ids, end, pinned)


def place_among_posts(after: Mark | None) -> Mark | None:
    """Where the posts begin that come after a place, which may be that of a pin: in outboxes, which know no pins."""
    if after is None or after.position <= made_at_ms(after.id):
        return after
    return Mark(after.position, (after.position - EPOCH_MS) << TIME_SHIFT)
