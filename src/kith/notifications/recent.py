"""Recent mentions of accounts with very many followers, which followers who want them find on opening the inbox.

Nothing is written for a follower until then. A bounded list of the accounts that were mentioned lately is stored in
SHARDS records, so that mentions of different accounts seldom wait for each other. On opening the inbox, one query finds
which of these accounts the user follows, however many there are. The mentions found become rows, and stay.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from kith.core.clock import ms_of
from kith.core.ids import EPOCH_MS, TIME_SHIFT, NodeId, made_at_ms
from kith.graph.edge import Direction
from kith.graph.graph import Graph
from kith.graph.graphs import FOLLOWS
from kith.graph.questions import Questions
from kith.graph.shapes import Ids, Listing
from kith.notifications.notice import NoticeDraft
from kith.notifications.preferences import Preferences
from kith.records.rewriting import NOTHING_TO_DO, next_version, rewrite, with_newer_fields
from kith.records.store import AtVersion, Put, Record, RecordKind, RecordStore

RECENT_MS = 7 * 86_400_000
"""How long a mention can be found in this list. One that was found stays as long as other notices."""
SHARDS = 16
"""Records of the list."""
ACCOUNTS_MAX = 64
"""Accounts of a shard. Beyond, those whose last mention is oldest are dropped, and answers are marked partial."""
MENTIONS_MAX = 10
"""Newest mentions of an account that are stored."""
CACHED_MS = 1_000
"""How long the list is cached."""
FOLLOWERS_CACHED_MS = 300_000
"""How long a number of followers is cached."""
FOLLOWERS_CACHED_MAX = 100_000
"""Accounts whose number of followers is cached."""


class Shard(msgspec.Struct, frozen=True, array_like=True):
    """A part of the list. `mentions`: by account, oldest first. `left_out`: the newest dropped mention, or -1."""

    mentions: dict[int, list[int]] = {}
    left_out: int = -1

    def adding(self, mentions: Sequence[tuple[int, int]], now_ms: int) -> Shard:
        """The shard with these mentions added, as (account, notice), and expired ones removed."""
        ids_by_account = {account: list(ids) for account, ids in self.mentions.items()}
        for account, notice in mentions:
            ids_by_account[account] = sorted({*ids_by_account.get(account, ()), notice})
        left_out = [self.left_out]
        for account, ids in ids_by_account.items():
            left_out += ids[:-MENTIONS_MAX]
            ids_by_account[account] = [id_ for id_ in ids[-MENTIONS_MAX:] if made_at_ms(id_) > now_ms - RECENT_MS]
        newest = sorted((ids[-1], account) for account, ids in ids_by_account.items() if ids)
        left_out += [id_ for id_, _ in newest[:-ACCOUNTS_MAX]]
        return Shard({account: ids_by_account[account] for _, account in newest[-ACCOUNTS_MAX:]}, max(left_out))


class RecentOfFollowed(NamedTuple):
    """Mentions of accounts that a reader follows. `partial`: there were more than are stored."""

    notices: list[int]
    partial: bool


class _MentionList(NamedTuple):
    """The whole list as read at `read_ms`. `accounts` ascend."""

    read_ms: float
    accounts: Ids
    mentions: dict[int, list[int]]
    left_out: int


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Shard).decode
_NOTHING = _MentionList(-float("inf"), np.empty(0, np.int64), {}, -1)


class RecentMentions:
    """Stores and finds recent mentions. `followers_min`: followers from which an account's mentions are stored."""

    def __init__(
        self,
        records: RecordStore,
        graph: Graph,
        followers_min: int,
        now_ms: Callable[[], float] = lambda: time.monotonic() * 1000,
    ) -> None:
        self._records, self._graph, self._followers_min, self._now_ms = records, graph, followers_min, now_ms
        self._follows = graph.graphs.number(FOLLOWS)
        self._cached = _NOTHING
        self._followers: dict[int, tuple[float, int]] = {}

    async def note(self, notices: Sequence[tuple[NoticeDraft, int]]) -> None:
        """Store those of these notices that mention accounts with many followers. May be repeated."""
        mentions = [(draft.recipient, notice) for draft, notice in notices if draft.type == "mention" and notice]
        counts = await self._followers_of({account for account, _ in mentions})
        await self.keep([mention for mention in mentions if counts[mention[0]] >= self._followers_min])

    async def keep(self, mentions: Sequence[tuple[int, int]]) -> None:
        """Store mentions, as (account, notice), however many follow the accounts. May be repeated."""
        for shard in {account % SHARDS for account, _ in mentions}:
            await self._add(shard, [mention for mention in mentions if mention[0] % SHARDS == shard])

    async def followed(self, user: NodeId, preferences: Preferences) -> RecentOfFollowed:
        """Recent mentions of others that the user wants to be notified of: one query, however many accounts."""
        if preferences.mentions not in ("followed", "these"):
            return RecentOfFollowed([], partial=False)
        recent = await self._list()
        accounts = recent.accounts
        if preferences.mentions == "these":
            accounts = accounts[np.isin(accounts, np.array(preferences.accounts, np.int64))]
        if not len(accounts):
            return RecentOfFollowed([], partial=False)
        questions = Questions()
        following = questions.members(Listing(self._follows, user, Direction.OUT), accounts)
        followed = accounts[(await self._graph.store.answer(questions)).members[following]]
        since = ms_of(self._graph.clock.next()) - RECENT_MS - EPOCH_MS + 1 << TIME_SHIFT  # the least id that is recent
        ids = [id_ for account in followed.tolist() for id_ in recent.mentions[account] if id_ >= since]
        return RecentOfFollowed(ids, recent.left_out >= max(0, since))

    async def _followers_of(self, accounts: set[int]) -> dict[int, int]:
        """How many followers each account has, at most FOLLOWERS_CACHED_MS old."""
        now_ms, counts = self._now_ms(), dict[int, int]()
        for account in accounts:
            cached = self._followers.get(account)
            if cached is not None and now_ms - cached[0] < FOLLOWERS_CACHED_MS:
                counts[account] = cached[1]
        uncached = list(accounts - counts.keys())
        if uncached:
            lists = [Listing(self._follows, account, Direction.IN) for account in uncached]
            counts.update(zip(uncached, await self._graph.store.count_many(lists), strict=True))
        for account in uncached:
            self._followers[account] = (now_ms, counts[account])
            if len(self._followers) > FOLLOWERS_CACHED_MAX:
                del self._followers[next(iter(self._followers))]
        return counts

    async def _add(self, id_: int, mentions: Sequence[tuple[int, int]]) -> None:
        async def replace() -> tuple[Put, None]:
            (stored,) = await self._records.get_many(RecordKind.RECENT_MENTIONS, [id_])
            old = Shard() if stored is None else _decode(stored.data)
            new = old.adding(mentions, ms_of(self._graph.clock.next()))
            if new == old:
                return NOTHING_TO_DO, None
            record = Record(RecordKind.RECENT_MENTIONS, id_, next_version(self._graph.clock, stored), _encode(new))
            at_version = AtVersion(RecordKind.RECENT_MENTIONS, id_, 0 if stored is None else stored.updated_at)
            return await self._records.put([with_newer_fields(record, stored)], only_if=[at_version]), None

        await rewrite("the list of recent mentions", id_, replace)
        self._cached = _NOTHING

    async def _list(self) -> _MentionList:
        """The whole list, at most CACHED_MS old."""
        now_ms = self._now_ms()
        if now_ms - self._cached.read_ms >= CACHED_MS:
            records = await self._records.get_many(RecordKind.RECENT_MENTIONS, range(SHARDS))
            shards = [_decode(record.data) for record in records if record is not None]
            mentions = {account: ids for shard in shards for account, ids in shard.mentions.items()}
            left_out = max((shard.left_out for shard in shards), default=-1)
            self._cached = _MentionList(now_ms, np.array(sorted(mentions), np.int64), mentions, left_out)
        return self._cached
