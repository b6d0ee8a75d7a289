"""How open streams are sent a change: at once, or in the next round. `changes` says which change uses which way.

A stream is sent a change once: `Stream.sent_up_to` says up to where it was sent changes. So it is not sent again what
it was sent while it joined, nor what it was sent of a change that then failed and is repeated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import numpy as np

from kith.core.gathering import gather
from kith.core.ids import NodeId
from kith.notifications.notifications import Notifications
from kith.streams.messages import (
    Message,
    PostRemoved,
    RemovalReason,
    ResetReason,
    new_post,
    notification,
    removal_reason,
)
from kith.streams.open_streams import OpenStreams
from kith.streams.positions import Step, StreamProgress
from kith.streams.readers import Readers
from kith.streams.rounds import Rounds
from kith.streams.stream import Stream


class ChangeSender:
    """Sends changes to the open streams of one process. `step`: where the change is in the log."""

    def __init__(
        self,
        readers: Readers,
        streams: OpenStreams,
        rounds: Rounds,
        notifications: Notifications,
        progress: StreamProgress,
        reset: Callable[[Sequence[Stream], ResetReason], None],
    ) -> None:
        """`reset`: sends `reset` to streams and ends them."""
        self._readers, self._streams, self._rounds, self._progress = readers, streams, rounds, progress
        self._notifications, self._reset = notifications, reset

    async def new_post(self, step: Step, author: int, post: int) -> None:
        """Send `new_post` to the author and to followers who may see the post and neither hid it nor muted the author.

        The numbers that the post has by now are sent in the next round, as a like may come before the post in the log.
        """
        audience, has_numbers = await gather(
            self._readers.immediate,
            self._readers.audience(post, author, self._streams.readers),
            self._rounds.has_numbers(post),
        )
        if has_numbers:
            self.check_post(step, post, numbers=True)
        async for visibility in self._readers.visibilities(audience, audience.readers):
            shown_post = visibility.post
            if shown_post is None:
                return
            for is_own in (True, False):
                readers = [user for user in visibility.wanted_by if (user == shown_post.author) is is_own]
                streams = self._streams.unsent_streams(readers, step)
                self._send(streams, step, new_post(shown_post, own=is_own))
                for stream in streams:
                    stream.watched.add(shown_post.id, shown_post.author)

    async def post_deleted(self, step: Step, author: int, post: int) -> None:
        """Send `post_removed` to readers who watch the post, and to others who would have got `new_post`."""
        audience = await self._readers.audience(post, author, self._streams.readers)
        watching = {stream for stream in self._streams.all() if post in stream.watched}
        readers = list(dict.fromkeys([*(stream.user for stream in watching), *audience.readers]))
        audience_ids = set(audience.readers)
        async for visibility in self._readers.visibilities(audience, readers, deleted_too=True):
            deleted = visibility.post is not None and visibility.post.deleted
            for could_see in (True, False):
                reachable = self._streams.unsent_streams(
                    [user for user, sees in visibility.seen.items() if sees is could_see], step
                )
                streams = [stream for stream in reachable if stream in watching]
                self._send(streams, step, PostRemoved(str(post), removal_reason(deleted, could_see)))
                for stream in streams:
                    stream.watched.pop(post, None)
            if deleted:
                streams = self._streams.unsent_streams(
                    [user for user in visibility.wanted_by if user in audience_ids], step
                )
                self._send(streams, step, PostRemoved(str(post), "author_deleted"))

    def take_away_post(self, step: Step, reader: int, post: int, why: RemovalReason) -> None:
        """Send `post_removed` to those of the reader's streams that watch the post."""
        for stream in self._streams.unsent_streams([reader], step):
            if post in stream.watched:
                self._take_away(stream, step, [post], why)

    def take_away_author(self, step: Step, reader: int, author: int, why: RemovalReason) -> None:
        """Send `post_removed` for each of the author's posts that the reader's streams watch."""
        for stream in self._streams.unsent_streams([reader], step):
            self._take_away(
                stream, step, [post for post, author_id in stream.watched.items() if author_id == author], why
            )

    def check_post(
        self, step: Step, post: int, *, numbers: bool = False, content: bool = False, edited_ms: int = 0
    ) -> None:
        """In the next round, send `post_removed` to readers who watch the post and may not see it any more.

        The others who watch it get `engagement_update` if `numbers`, and `post_updated` if `content`. `edited_ms`: when
        it was edited, so that followers to whom the edit opened it get `new_post`.
        """
        self._rounds.note(post, step, numbers=numbers, content=content, edited_ms=edited_ms)

    def check_author(self, step: Step, author: int, reader: int | None, *, content: bool = False) -> None:
        """`check_post` at each of the author's posts that the reader's streams watch; None: that any stream watches."""
        for stream in self._streams.all() if reader is None else self._streams.of(reader):
            for post, author_id in stream.watched.items():
                if author_id == author:
                    self._rounds.note(post, step, content=content)

    async def notice(self, step: Step, user: int, notice: int) -> None:
        """Send `notification` to a user who may see the notice."""
        streams = self._streams.unsent_streams([user], step)
        if streams:
            for visible_notice in await self._notifications.visible(NodeId(user), [notice]):
                self._send(streams, step, notification(visible_notice, user))

    async def mention(self, step: Step, notice: int) -> None:
        """Send `notification` to followers who have a row of a mention, and `unread` in the next round.

        Once per stream, because the rows are written in many chunks.
        """
        holders = await self._notifications.holders(notice, np.array(sorted(self._streams.readers), np.int64))
        for user in holders:
            streams = [stream for stream in self._streams.unsent_streams([user], step) if notice not in stream.mentions]
            if streams:
                for visible_notice in await self._notifications.visible(NodeId(user), [notice]):
                    if visible_notice.recipient != user:  # the mentioned account got it as an ordinary notice
                        self._send(streams, step, notification(visible_notice, user))
                for stream in streams:
                    stream.mentions.add(notice)
                self.unread(step, user)
                await asyncio.sleep(0)  # let other tasks run

    def unread(self, step: Step, user: int) -> None:
        """Send `unread` to a user in the next round."""
        if self._streams.of(user):
            self._rounds.note_unread(user, step)

    def reset_all(self, why: ResetReason) -> None:
        """Have every reader reload the feed."""
        self._reset(self._streams.all(), why)

    def reset_reader(self, step: Step, reader: int) -> None:
        """Have a reader reload the feed."""
        self._reset(self._streams.unsent_streams([reader], step), "changed")

    async def reset_follower(self, step: Step, reader: int, author: int) -> None:
        """Have a reader reload the feed if they follow the author."""
        streams = self._streams.unsent_streams([reader], step)
        if streams and await self._readers.followers(author, [reader]):
            self._reset(streams, "changed")

    async def reset_followers(self, step: Step, author: int) -> None:
        """Have the followers of an author reload the feed."""
        readers = await self._readers.followers(author, self._streams.readers)
        self._reset(self._streams.unsent_streams(readers, step), "changed")

    def _take_away(self, stream: Stream, step: Step, posts: Sequence[int], why: RemovalReason) -> None:
        """Send `post_removed` for each of the posts.

        Only the last message carries the place of the change: a client cut off earlier resumes before the change.
        """
        for post in posts:
            del stream.watched[post]
            message = PostRemoved(str(post), why)
            if post == posts[-1]:
                self._send([stream], step, message)
            else:
                self._streams.send([stream], message)

    def _send(self, streams: Sequence[Stream], step: Step, message: Message) -> None:
        """Send some streams a message of a change, and note that they were sent it."""
        for stream in streams:
            stream.sent_up_to = self._progress.with_step(stream.sent_up_to, step)
        self._streams.send(streams, message)
