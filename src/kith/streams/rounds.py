"""Once a second: checks the posts that changed, and sends the result to the streams that watch them.

One check of a post serves all its changes of that second and all streams that watch it. Readers who may still see the
post are sent its content and numbers, as far as they changed. The others are sent `post_removed`. A round takes at most
PAIRS_MAX pairs. A post whose audience was changed is also sent to followers who do not watch it yet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from kith.core.events import NOWHERE, LogPosition
from kith.core.gathering import gather
from kith.posts.engagement import Engagement, PostCounts
from kith.posts.post import Post
from kith.streams.messages import PostRemoved, encode, engagement_update, new_post, post_updated, removal_reason
from kith.streams.missed import opened_since
from kith.streams.open_streams import OpenStreams
from kith.streams.positions import Step, StreamProgress
from kith.streams.readers import Readers
from kith.streams.stream import Stream
from kith.streams.unread_numbers import UnreadNumbers

ROUND_EVERY_S = 1.0
"""Shortest time between the starts of two rounds; longer if rounds would take more than ROUNDS_SHARE of all time."""
ROUNDS_SHARE = 0.2
PAIRS_MAX = 20_000
"""Pairs of a post and a stream checked in one round, except that one post always fits. Other posts wait for the next.
"""
USERS_MAX = 500
"""Users who are sent their unread number in one round."""
_STREAMS_A_TURN = 500
"""Streams scanned before other tasks run."""


class PostCheck(NamedTuple):
    """A post to check. `since`: its first change that was not sent; `numbers`, `content`: whether these changed.

    `edited_ms`: the time of its first edit that was not sent, since the epoch; 0: none.
    """

    since: Step
    numbers: bool = False
    content: bool = False
    edited_ms: int = 0


class PendingChecks:
    """Collects changed posts, so that each is checked once a round however often it changed."""

    def __init__(self) -> None:
        self._checks: dict[int, PostCheck] = {}

    def add(self, post: int, step: Step, *, numbers: bool = False, content: bool = False, edited_ms: int = 0) -> None:
        """Note a change of a post. Changes come in the order of the log."""
        before = self._checks.get(post, PostCheck(step))
        self._checks[post] = PostCheck(
            before.since, numbers or before.numbers, content or before.content, before.edited_ms or edited_ms
        )

    def take(self) -> dict[int, PostCheck]:
        """Remove and return everything noted, oldest first."""
        checks, self._checks = self._checks, {}
        return checks

    def put_back(self, checks: dict[int, PostCheck]) -> None:
        """Note again the posts that were not finished."""
        later, self._checks = self._checks, dict(checks)
        for post, check in later.items():
            self.add(post, check.since, numbers=check.numbers, content=check.content, edited_ms=check.edited_ms)

    def sent_up_to(self, noted_up_to: LogPosition) -> LogPosition:
        """The position up to which everything was sent, given that everything up to `noted_up_to` was noted."""
        first = min((check.since for check in self._checks.values()), key=lambda step: step.number, default=None)
        return noted_up_to if first is None else first.before


class Rounds:
    """The rounds of one process. They advance `StreamProgress.counts`."""

    def __init__(
        self,
        engagement: Engagement,
        numbers: UnreadNumbers,
        readers: Readers,
        streams: OpenStreams,
        progress: StreamProgress,
    ) -> None:
        self._engagement, self._numbers, self._readers = engagement, numbers, readers
        self._streams, self._progress = streams, progress
        self.begin(NOWHERE)

    def begin(self, position: LogPosition) -> None:
        """Begin at a position of the log, and forget what was noted before."""
        self._posts, self._progress.counts = PendingChecks(), position
        self._unread: dict[int, Step] = {}

    def note(self, post: int, step: Step, *, numbers: bool = False, content: bool = False, edited_ms: int = 0) -> None:
        """Have the next round check a post. `numbers`, `content`: which of these to send. `edited_ms`: of an edit."""
        self._posts.add(post, step, numbers=numbers, content=content, edited_ms=edited_ms)

    def note_unread(self, user: int, step: Step) -> None:
        """Have the next round send a user their unread number."""
        self._unread.setdefault(user, step)

    async def has_numbers(self, post: int) -> bool:
        """Whether a new post has numbers already. Their changes may have come before the post, when nobody watched."""
        (counts,) = await self._engagement.counts(None, [post])
        return counts.has_streamed_counts

    async def run(self) -> None:
        """Run one round. What an error leaves unfinished is left to the next round."""
        noted_up_to, checks = self._progress.posts, self._posts.take()
        try:
            watching = await self._watching(checks)
            edited = [post for post, check in checks.items() if check.edited_ms]
            posts = list(dict.fromkeys([*watching, *edited]))
            read, counts = await gather(
                self._readers.immediate, self._readers.read(edited), self._engagement.counts(None, posts)
            )
            opened = {post.id: post for post in read if post is not None and _is_opened(post, checks[post.id])}
            for post, counts_of_post in zip(posts, counts, strict=True):
                if post in watching:
                    await self._check_post(post, watching[post], checks[post], counts_of_post)
                if post in opened:
                    await self._send_new(opened[post], counts_of_post)
                del checks[post]
        except BaseException:
            self._posts.put_back(checks)
            raise
        await self._send_unread()
        if not self._unread:  # else `counts` lags, and a resume repeats numbers, which is harmless
            self._progress.counts = self._posts.sent_up_to(noted_up_to)

    async def _send_unread(self) -> None:
        """Send up to USERS_MAX users their unread number; the others wait for the next round."""
        for user in list(self._unread)[:USERS_MAX]:
            if self._streams.of(user):
                await self._numbers.send_unread(user)
            del self._unread[user]
            await asyncio.sleep(0)

    async def _watching(self, checks: dict[int, PostCheck]) -> dict[int, list[Stream]]:
        """The streams that watch each post, for as many posts as one round takes; the others are put back."""
        watching: dict[int, list[Stream]] = {}
        streams = self._streams.all() if checks else []
        for start in range(0, len(streams), _STREAMS_A_TURN):
            for stream in streams[start : start + _STREAMS_A_TURN]:
                for post in stream.watched.keys() & checks.keys():
                    watching.setdefault(post, []).append(stream)
            await asyncio.sleep(0)
        pairs = 0
        chosen: dict[int, list[Stream]] = {}
        for post in checks:
            if post in watching and (not chosen or pairs + len(watching[post]) <= PAIRS_MAX):
                pairs += len(watching[post])
                chosen[post] = watching[post]
        self._posts.put_back({post: checks.pop(post) for post in watching.keys() - chosen.keys()})
        return chosen

    async def _send_new(self, post: Post, counts: PostCounts) -> None:
        """Send a post to the author's followers who may see it and do not watch it, with its numbers if it has some."""
        audience = await self._readers.audience(post.id, post.author, self._streams.readers)
        readers = [user for user in audience.readers if user != post.author]
        numbers = [encode(engagement_update(post.id, counts))] if counts.has_streamed_counts else []
        async for visibility in self._readers.visibilities(audience, readers):
            if visibility.post is None:
                return
            messages = [encode(new_post(visibility.post, own=False)), *numbers]
            for stream in [stream for user in visibility.wanted_by for stream in self._streams.of(user)]:
                if post.id not in stream.watched:
                    stream.watched.add(post.id, post.author)
                    for message in messages:
                        self._streams.send_encoded(stream, message)

    async def _check_post(self, post: int, streams: Sequence[Stream], check: PostCheck, counts: PostCounts) -> None:
        """Send readers who may see a post what changed of it, and the others `post_removed`."""
        readers = list(dict.fromkeys(stream.user for stream in streams))
        could_see: dict[int, bool] = {}
        visible_post: Post | None = None
        async for stored, part in self._readers.visible_to(post, readers, deleted_too=True):
            could_see |= part
            visible_post = None if stored is None or stored.deleted else stored
        removed = {
            visible_before: encode(PostRemoved(str(post), removal_reason(visible_post is None, visible_before)))
            for visible_before in (True, False)
        }
        numbers = [encode(engagement_update(post, counts))] if check.numbers else []
        content = {True: numbers, False: numbers}  # by whether the reader is the author
        if check.content and visible_post is not None:
            content = {own: [encode(post_updated(visible_post, own=own)), *numbers] for own in (True, False)}
        for stream in streams:
            visible_before = could_see[stream.user]
            if visible_post is not None and visible_before:
                messages = content[stream.user == visible_post.author]
            else:
                messages = [removed[visible_before]]
                stream.watched.pop(post, None)
            for message in messages:
                self._streams.send_encoded(stream, message)


def _is_opened(post: Post, check: PostCheck) -> bool:
    """Whether an edit to be sent may have opened the post to more readers."""
    return not post.deleted and opened_since(post, check.edited_ms)
