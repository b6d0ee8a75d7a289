"""/console/spread/...: how far a post has spread: to the timelines of followers and, for its mentions, to inboxes.

Server keys only. See `console`.
"""

from __future__ import annotations

import math
from typing import Literal

import msgspec

from kith.api.answers import Time
from kith.api.call import Call
from kith.api.operations import get
from kith.api.parameters import Id
from kith.api.presenter import time_of
from kith.core.clock import wall_ms
from kith.core.errors import NotFound
from kith.core.ids import made_at_ms
from kith.graph.edge import Direction, State
from kith.graph.graph import Graph
from kith.graph.graphs import FOLLOWS
from kith.graph.shapes import Listing
from kith.home.fanout import consumer as fanout
from kith.home.fanout.state import FanoutSnapshot, FanoutState
from kith.log.runner import lag_of
from kith.log.store import LogStore
from kith.notifications import intake, mention_consumer
from kith.notifications.tracing import TracedMention, trace_mentions
from kith.notifications.walks import Walks
from kith.posts.post import Post, read_post
from kith.records.store import RecordKind, RecordStore

_READ_BY = (fanout.NAME, intake.NAME, mention_consumer.NAME)
"""The consumers that spread a post, fan-out first."""


class ConsumerOfPost(msgspec.Struct, frozen=True):
    """Whether a consumer of the log has read the post: reached, waits, or never ran."""

    name: str
    state: Literal["reached", "waits", "never ran"]


class TierOfMention(msgspec.Struct, frozen=True, rename="camel"):
    """Progress of one tier of a mention: `done` of about `chunks` chunks of followers, both 0 once it ended. `told`:
    new inbox rows. `left` and `dead`: chunks whose followers find the mention when they open their inbox.
    """

    tier: str
    state: Literal["under way", "ended"]
    done: int
    chunks: int
    told: int
    suppressed: int
    tries: int = 0
    left: int = 0
    dead: int = 0


class MentionOfPost(msgspec.Struct, frozen=True):
    """A mention in the post. `notice`: the notification of the mentioned account; null if it has none, or none yet."""

    account: str
    notice: str | None
    tiers: list[TierOfMention]


class SpreadAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """`delivery`: the state of fan-out to timelines. `withheld_rate`: fan-out skips readers who come less often than
    this rate; their home merges the author's outbox when it is read. 0: fan-out skips no reader.
    """

    post: str
    author: str
    made_at: Time
    deleted: bool
    visibility: str
    followers: int
    consumers: list[ConsumerOfPost]
    delivery: Literal["waits", "under way", "failed", "ended"]
    failures: int
    withheld_rate: int
    mentions: list[MentionOfPost]


class SpreadResource:
    """How far posts have spread."""

    def __init__(self, graph: Graph, records: RecordStore, log: LogStore, fanout: FanoutState, walks: Walks) -> None:
        self._graph, self._records, self._log, self._fanout, self._walks = graph, records, log, fanout, walks

    @get("/console/spread/{post_id}", "How far a post has spread", absolute=True, callers="server", documented=False)
    async def spread(self, call: Call, post_id: Id) -> SpreadAnswer:
        """The state of its fan-out, and of its mentions tier by tier."""
        (record,) = await self._records.get_many(RecordKind.POST, [post_id])
        if record is None:
            raise NotFound("there is no such post")
        post = read_post(record)
        consumers = [await self._consumer(name, post) for name in _READ_BY]
        snapshot = await self._fanout.snapshot()
        delivery, failures = _delivery(post, snapshot, consumers[0].state == "reached")
        listing = Listing(self._graph.graphs.number(FOLLOWS), post.author, Direction.IN, State.NORMAL)
        (followers,) = await self._graph.store.count_many([listing])
        mentions = await trace_mentions(post, self._records, self._walks, self._graph.clock)
        return SpreadAnswer(
            str(post.id), str(post.author), time_of(post.created_at), post.deleted, str(post.visibility), followers,
            consumers, delivery, failures, snapshot.withheld.rate_of(post.author), list(map(_mention, mentions)),
        )  # fmt: skip

    async def _consumer(self, name: str, post: Post) -> ConsumerOfPost:
        progress = await self._log.progress(name)
        if progress is None:
            return ConsumerOfPost(name, "never ran")
        lag, now_ms = lag_of(progress.behind, wall_ms()), wall_ms()
        age_s = (now_ms - made_at_ms(post.id)) / 1_000
        waits = lag.events > 0 and (not math.isfinite(lag.oldest_s) or lag.oldest_s >= age_s)
        return ConsumerOfPost(name, "waits" if waits else "reached")


def _delivery(
    post: Post, snapshot: FanoutSnapshot, reached: bool
) -> tuple[Literal["waits", "under way", "failed", "ended"], int]:
    """The state of the delivery, and how often a part of it failed."""
    for delivery in snapshot.deliveries:
        if delivery.post == post.id:
            return "under way", delivery.failures
    if any(event.destination == post.id for event in snapshot.failures):
        return "failed", 1
    return ("ended" if reached else "waits"), 0


def _mention(traced: TracedMention) -> MentionOfPost:
    tiers = [
        TierOfMention(
            tier.tier.name.lower(), "under way", tier.done, tier.chunks, tier.told, tier.suppressed, tier.tries
        )
        for tier in traced.under_way
    ]
    tiers += [
        TierOfMention(tier.tier.name.lower(), "ended", 0, 0, tier.told, tier.suppressed, left=tier.left, dead=tier.dead)
        for tier in traced.ended
    ]
    return MentionOfPost(str(traced.account), None if traced.notice is None else str(traced.notice), tiers)
