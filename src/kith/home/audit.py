"""The auditor of timelines: compares each with the outboxes that it is a cache of, and drops those that differ.

A timeline is wrong if its home lacks a post because of it (`lacking`), or if it has one of an author who is not
followed (`strays`), which the rules keep out of homes. What homes look up beside a timeline is not missing: see
`skeleton`. Ids of deleted posts stay in timelines. One that changes while it is looked at may seem wrong; what counts
is what still is so a moment later.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from kith.core.errors import Conflict
from kith.core.ids import NodeId
from kith.core.paging import Window
from kith.core.together import together
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
    """What the auditor found of the timelines that homes are made from.

    `late`: seemed wrong, and were not a moment later. `lacking` and `strays` may be the same timeline.
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
    """Posts that a timeline lacks, and those that it should not have."""

    lacked: frozenset[int]
    strays: frozenset[int]

    def still(self, later: _Wrong) -> _Wrong:
        """What is wrong in a later look too."""
        return _Wrong(self.lacked & later.lacked, self.strays & later.strays)

    def told(self, user: int) -> list[str]:
        """Examples of it."""
        lacked = [f"the timeline of user {user} lacks post {post}" for post in sorted(self.lacked)[:1]]
        return lacked + [
            f"that of user {user} has post {post}, of nobody they follow" for post in sorted(self.strays)[:1]
        ]

    def __bool__(self) -> bool:
        return bool(self.lacked or self.strays)


_RIGHT = _Wrong(frozenset(), frozenset())


class TimelineAuditor:
    """Audits the timelines of a store. `settle_s`: how long until what seems wrong is looked at again."""

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
        """Compare a `sample` (0 to 1) of the timelines; with `repair`, the same timelines for writing, drop wrong ones.

        A dropped one is built again as its user comes. None where fan-out keeps none for this store yet: then homes are
        made from outboxes. Conflict where fan-out is so far behind that timelines are not relied on. `progress` is
        called with the number of timelines looked at so far.
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
        found.examples = [example for user, one in wrong.items() for example in one.told(user)][:10]
        if repair is not None and wrong:
            found.repaired = await repair.drop(np.array(list(wrong), np.int64))
        return found

    async def _wrong_of(self, users: Sequence[int]) -> dict[int, _Wrong]:
        """What seems wrong with the timelines of these users, of those where something does."""
        found: dict[int, _Wrong] = {}
        for at in range(0, len(users), _AT_ONCE):
            some = users[at : at + _AT_ONCE]
            snapshot = await self._fanout.snapshot()
            if snapshot.progress is None or not await self._unhandled.follow(snapshot.progress):
                raise Conflict("fan-out is far behind the log, and homes do without timelines; audit when it is not")
            unhandled = self._unhandled.now
            looks = await together(False, *(self._look(NodeId(user), snapshot, unhandled) for user in some))
            found |= {user: wrong for user, wrong in zip(some, looks, strict=True) if wrong}
        return found

    async def _look(self, user: NodeId, fanout: FanoutSnapshot, unhandled: Unhandled) -> _Wrong:
        """What seems wrong with a timeline; nothing where homes do without it."""
        if unhandled.spoils(user) or not fanout.keeps(user):
            return _RIGHT
        timeline = await self._timelines.read(user)
        if timeline is None:
            return _RIGHT
        # Whose posts homes look up beside the timeline: those that fan-out has not come to, or leaves out.
        beside = {*fanout.undelivered().tolist(), *unhandled.authors.tolist()}
        beside |= set(fanout.withheld.at_least(timeline.lacks_from).tolist())
        authors = (await self._sources.authors(user)).tolist()
        marks = await self._sources.outboxes([one for one in authors if one not in beside], TIMELINE_IDS_MAX)
        end, last = end_of(timeline), marks[-1] if len(marks) == TIMELINE_IDS_MAX else None
        there, true = set(timeline.ids.tolist()), {mark.id for mark in marks}
        lacked = {mark.id for mark in marks if end is None or mark >= end} - there
        more = [post for post in there - true if last is None or mark_of(post) >= last]
        return _Wrong(frozenset(lacked), await self._strays(more, {*authors, *beside}))

    async def _strays(self, posts: Sequence[int], authors: Iterable[int]) -> frozenset[int]:
        """Those of the posts that are there, and of none of these authors."""
        questions, known = Questions(), set(authors)
        pages = [questions.page(Listing(self._authored, post, Direction.IN), Window(1)) for post in posts]
        answers = await self._store.answer(questions) if posts else None
        return frozenset(
            post
            for post, page in zip(posts, pages, strict=True)
            if answers is not None and any(mark.id not in known for mark in answers.pages[page].items)
        )
