"""The auditor of timelines: compares each timeline with the outboxes it caches, and drops those that differ.

A timeline is wrong in two cases. It lacks a post, so the post is missing at home (`lacking`). Or it has a post of an
author whom its user does not follow (`strays`); the rules keep such posts out of home. A post that home reads from an
outbox beside the timeline is not missing: see `skeleton`. Ids of deleted posts stay in timelines and are not wrong.

A timeline that changes while it is compared may seem wrong, so the auditor looks twice and counts only what is wrong
both times.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from kith.core.errors import Conflict
from kith.core.gathering import gather
from kith.core.ids import NodeId
from kith.core.paging import Window
from kith.graph.edge import Direction
from kith.graph.graph import Graph
from kith.graph.graphs import AUTHORED
from kith.graph.questions import Questions
from kith.graph.shapes import Listing
from kith.home.fanout.state import FanoutSnapshot, FanoutState
from kith.home.skeleton.skeleton import end_of, mark_of
from kith.home.skeleton.sources import Sources
from kith.home.skeleton.unhandled import Unhandled, UnhandledEvents
from kith.home.timelines import TIMELINE_IDS_MAX, TimelineReader, TimelineStore
from kith.log.store import LogStore

_SETTLE_S = 2.0
_AT_ONCE = 16


class TimelineAudit(msgspec.Struct):
    """What the auditor found, in numbers of timelines.

    `late`: seemed wrong in the first look and right in the second. A timeline may count in both `lacking` and `strays`.
    """

    timelines: int = 0
    late: int = 0
    lacking: int = 0
    strays: int = 0
    wrong: int = 0
    repaired: int = 0
    examples: list[str] = []

    @property
    def right_share(self) -> float:
        """The share of timelines that are not wrong, from 0 to 1; 1.0 where there is none."""
        return 1.0 if self.timelines == 0 else 1 - self.wrong / self.timelines


class _Wrong(NamedTuple):
    """The posts that a timeline lacks, and those that it should not have."""

    lacked: frozenset[int]
    strays: frozenset[int]

    def still(self, later: _Wrong) -> _Wrong:
        """What is wrong in both looks."""
        return _Wrong(self.lacked & later.lacked, self.strays & later.strays)

    def examples(self, user: int) -> list[str]:
        """Up to two examples, as sentences."""
        lacked = [f"the timeline of user {user} lacks post {post}" for post in sorted(self.lacked)[:1]]
        return lacked + [
            f"that of user {user} has post {post}, of nobody they follow" for post in sorted(self.strays)[:1]
        ]

    def __bool__(self) -> bool:
        return bool(self.lacked or self.strays)


_RIGHT = _Wrong(frozenset(), frozenset())


class TimelineAuditor:
    """Audits the timelines of a store. `settle_s`: seconds between the first and the second look."""

    def __init__(
        self, graph: Graph, timelines: TimelineReader, fanout: FanoutState, log: LogStore, settle_s: float = _SETTLE_S
    ) -> None:
        self._store, self._authored = graph.store, graph.graphs.number(AUTHORED)
        self._sources, self._unhandled = Sources(graph), UnhandledEvents(log, graph.graphs)
        self._timelines, self._fanout, self._settle_s = timelines, fanout, settle_s

    async def audit(
        self,
        *,
        repair: TimelineStore | None = None,
        sample: float = 1.0,
        progress: Callable[[int], None] = lambda _: None,
    ) -> TimelineAudit | None:
        """Compare a `sample` (0 to 1) of the timelines. `repair`: the same store for writing; wrong ones are dropped.

        A dropped timeline is rebuilt when its user next reads home. Returns None if fan-out has no timelines for this
        store yet; homes are then made from outboxes. Raises Conflict if fan-out lags so far that homes do not use
        timelines. `progress` is called with the number of timelines compared so far.
        """
        found, chosen, suspects = TimelineAudit(), random.Random(), dict[int, _Wrong]()
        if (await self._fanout.snapshot()).name != await self._timelines.name():
            return None
        async for users in self._timelines.users():
            looked_at = users if sample >= 1 else [user for user in users if chosen.random() < sample]
            found.timelines += len(looked_at)
            suspects |= await self._wrong_of(looked_at)
            progress(found.timelines)
        if not suspects:
            return found
        await asyncio.sleep(self._settle_s)
        later = await self._wrong_of(list(suspects))
        wrong = {user: seen for user, one in later.items() if (seen := suspects[user].still(one))}
        found.late, found.wrong = len(suspects) - len(wrong), len(wrong)
        found.lacking = sum(bool(one.lacked) for one in wrong.values())
        found.strays = sum(bool(one.strays) for one in wrong.values())
        found.examples = [example for user, one in wrong.items() for example in one.examples(user)][:10]
        if repair is not None and wrong:
            found.repaired = await repair.drop(np.array(list(wrong), np.int64))
        return found

    async def _wrong_of(self, users: Sequence[int]) -> dict[int, _Wrong]:
        """What seems wrong, by user; users whose timeline is right are left out."""
        found: dict[int, _Wrong] = {}
        for at in range(0, len(users), _AT_ONCE):
            some = users[at : at + _AT_ONCE]
            snapshot = await self._fanout.snapshot()
            if snapshot.progress is None or not await self._unhandled.follow(snapshot.progress):
                raise Conflict("fan-out is far behind the log, and homes do without timelines; audit when it is not")
            unhandled = self._unhandled.now
            looks = await gather(False, *(self._look(NodeId(user), snapshot, unhandled) for user in some))
            found |= {user: wrong for user, wrong in zip(some, looks, strict=True) if wrong}
        return found

    async def _look(self, user: NodeId, fanout: FanoutSnapshot, unhandled: Unhandled) -> _Wrong:
        """What seems wrong with a user's timeline; nothing if home does not use it."""
        if unhandled.invalidates(user) or not fanout.keeps(user):
            return _RIGHT
        timeline = await self._timelines.read(user)
        if timeline is None:
            return _RIGHT
        # Home reads the outboxes of these authors beside the timeline: fan-out lags on them, or withholds their posts.
        beside = {*fanout.undelivered().tolist(), *unhandled.authors.tolist()}
        beside |= set(fanout.withheld.at_least(timeline.withheld_rate_min).tolist())
        authors = (await self._sources.authors(user)).tolist()
        marks = await self._sources.outboxes([one for one in authors if one not in beside], TIMELINE_IDS_MAX)
        end, last = end_of(timeline), marks[-1] if len(marks) == TIMELINE_IDS_MAX else None
        there, true = set(timeline.ids.tolist()), {mark.id for mark in marks}
        lacked = {mark.id for mark in marks if end is None or mark >= end} - there
        more = [post for post in there - true if last is None or mark_of(post) >= last]
        return _Wrong(frozenset(lacked), await self._strays(more, {*authors, *beside}))

    async def _strays(self, posts: Sequence[int], authors: Iterable[int]) -> frozenset[int]:
        """The posts that exist and are by none of these authors."""
        questions, known = Questions(), set(authors)
        pages = [questions.page(Listing(self._authored, post, Direction.IN), Window(1)) for post in posts]
        answers = await self._store.answer(questions) if posts else None
        return frozenset(
            post
            for post, page in zip(posts, pages, strict=True)
            if answers is not None and any(mark.id not in known for mark in answers.pages[page].items)
        )
