"""What a reader missed while no stream was open, as the messages that an open stream would have been sent.

`changes` says what must be sent. `ResumingReader` collects it for one reader, and `MissedMessages` queries the stores
in a few batches, for at most POSTS_MAX posts of each kind of change. Beyond, the answer is a `Reset`, and the client
reloads the feed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kith.core.clock import ms_of
from kith.core.ids import NodeId
from kith.graph.edge import Direction
from kith.graph.graphs import AUTHORED
from kith.graph.shapes import Listing
from kith.notifications.notifications import Notifications
from kith.posts.engagement import Engagement
from kith.posts.post import Post, read_post
from kith.posts.posts import Posts
from kith.records.store import Record, RecordKind
from kith.streams.messages import (
    EngagementUpdate,
    NewPost,
    Notification,
    PostRemoved,
    PostUpdated,
    Reset,
    Unread,
    engagement_update,
    new_post,
    notification,
    post_updated,
    removal_reason,
)
from kith.streams.positions import Step
from kith.streams.readers import Readers
from kith.streams.stream import Stream

_ONE_EDIT_MS = 5
"""Longest time between the versions that one edit gives: first to the post's record, then to the edge in the outbox."""
CLOCK_SKEW_MAX_MS = 60_000
"""How far apart the clocks of two machines that edit one post may be."""
POSTS_MAX = 200
"""New, removed or edited posts, or notices, that a resume sends one by one, of each; beyond, the client reloads."""
OWN_POSTS_WATCHED = 20
"""The reader's newest own posts, which each stream watches from the start."""

MissedMessage = NewPost | PostUpdated | PostRemoved | EngagementUpdate | Notification | Unread
Messages = list[tuple[Step, MissedMessage]]
"""Messages to send, each with the step of its change."""


class _PostChange(NamedTuple):
    step: Step
    author: int


class _PostEdits(NamedTuple):
    """The last edit of a post, and the times of the first and the last edit, in ms since the epoch."""

    step: Step
    author: int
    first_ms: int
    last_ms: int


class ResumingReader:
    """What one reader must be sent after a gap, collected change by change. Queries no store.

    Posts of all authors are collected; `MissedMessages` finds out which authors the reader follows.
    """

    def __init__(self, user: NodeId) -> None:
        self.user = user
        self.made: dict[int, _PostChange] = {}
        self.deleted: dict[int, _PostChange] = {}
        self.edited: dict[int, _PostEdits] = {}
        self.hidden: list[tuple[Step, int]] = []  # (step, post)
        self.numbers: dict[int, Step] = {}  # by post, of the last change of its numbers
        self.notices: dict[int, Step] = {}
        self.mentions: dict[int, Step] = {}  # by notice: mentions of which followers of the account got rows
        self.counted: dict[int, Step] = {}  # the same, where `unread` was not sent since
        self.unread: Step | None = None  # of the last change of the unread number
        self.changed_accounts: set[int] = set()
        self.must_reset = False

    def new_post(self, step: Step, author: int, post: int) -> None:
        """`new_post`, if the reader is or follows the author, or watches the post.

        Only if the reader may see the post and did not mute its author.
        """
        self.made[post] = _PostChange(step, author)

    def post_deleted(self, step: Step, author: int, post: int) -> None:
        """`post_removed`, if the reader watches the post, or follows the author and could see it."""
        self.deleted[post] = _PostChange(step, author)

    def post_hidden(self, step: Step, post: int) -> None:
        """`post_removed`, because the reader hid the post."""
        self.hidden.append((step, post))

    def numbers_changed(self, step: Step, post: int) -> None:
        """`engagement_update`, if the reader watches the post."""
        self.numbers[post] = step

    def post_edited(self, step: Step, author: int, post: int, at_ms: int) -> None:
        """`post_updated`, if the reader follows the author or watches the post; see `PostEdited`.

        `reset` instead, if they may not see it and perhaps could until then.
        """
        before = self.edited.get(post)
        first_ms, last_ms = (at_ms, at_ms) if before is None else (before.first_ms, before.last_ms)
        self.edited[post] = _PostEdits(step, author, min(first_ms, at_ms), max(last_ms, at_ms))

    def reset_if_shown(self, user: int) -> None:
        """`reset`, if the reader is or follows the user, or watches a post of the user."""
        self.changed_accounts.add(user)

    def reset(self) -> None:
        """`reset`, in any case."""
        self.must_reset = True


class MissedMessages:
    """Queries the stores for what a stream is sent when it joins."""

    def __init__(self, posts: Posts, engagement: Engagement, notifications: Notifications, readers: Readers) -> None:
        self._posts, self._engagement, self._readers = posts, engagement, readers
        self._notifications = notifications
        self._authored = posts.graph.graphs.number(AUTHORED)

    async def watch(self, stream: Stream, shown: Sequence[int]) -> list[int]:
        """Have the stream watch the posts `shown` and the reader's newest. Returns those the reader cannot see."""
        listing = Listing(self._authored, stream.user, Direction.OUT)
        for post in (await self._posts.graph.store.ids(listing, OWN_POSTS_WATCHED)).tolist():
            stream.watched.add(post, stream.user)
        posts = await self._posts.visible(stream.user, shown)
        for visible_post in posts:
            if visible_post is not None:
                stream.watched.add(visible_post.id, visible_post.author)
        return [post for post, visible_post in zip(shown, posts, strict=True) if visible_post is None]

    async def of(self, reader: ResumingReader, stream: Stream) -> Messages | Reset:
        """The messages to send, in the order of the log, numbers last. Updates what the stream watches."""
        shown = not reader.changed_accounts.isdisjoint(stream.watched.values())
        if reader.must_reset or shown or await self._readers.followed(reader.user, reader.changed_accounts):
            return Reset("changed")
        own_ids = frozenset(reader.notices)
        await self._find_mentions(reader, stream)
        changed = (reader.made, reader.deleted, reader.edited)
        authors = {change.author for posts in changed for change in posts.values()}
        followed = await self._readers.followed(reader.user, authors)

        def concerns(post: int, author: int) -> bool:
            return author in followed or post in stream.watched

        new = {post: change for post, change in reader.made.items() if concerns(post, change.author)}
        deleted = {
            post: change for post, change in reader.deleted.items() if post not in new and concerns(post, change.author)
        }
        edited = {
            post: change
            for post, change in reader.edited.items()
            if post not in new and post not in deleted and concerns(post, change.author)
        }
        if max(len(new), len(deleted), len(edited), len(reader.notices)) > POSTS_MAX:
            return Reset("too_far")
        messages: Messages = [*await self._new(reader.user, new), *await self._removed(stream, deleted)]
        updated = await self._updated(stream, edited)
        if updated is None:
            return Reset("changed")
        messages += updated
        begun = {int(message.post_id): step for step, message in messages if isinstance(message, NewPost)}
        messages += [(step, PostRemoved(str(post), "hidden")) for step, post in reader.hidden]
        notices = await self._notifications.visible(reader.user, list(reader.notices))
        messages += [
            (reader.notices[notice.id], notification(notice, reader.user))
            for notice in notices
            if notice.id in own_ids or notice.recipient != reader.user  # the mentioned account got it when it was made
        ]
        messages.sort(key=lambda pair: pair[0].number)
        for _, message in messages:
            _watch(stream, message)
        if reader.unread is not None:
            messages.append((reader.unread, Unread(*await self._notifications.unread(reader.user))))
        return messages + await self._numbers(stream, reader.numbers, begun)

    async def _find_mentions(self, reader: ResumingReader, stream: Stream) -> None:
        """Add to `notices` and `unread` the mentions of followed accounts of which the reader has a row."""
        in_inbox = await self._notifications.held_ids(reader.user, reader.mentions.keys() | reader.counted.keys())
        for notice in in_inbox & reader.mentions.keys():
            reader.notices.setdefault(notice, reader.mentions[notice])
            stream.mentions.add(notice)
        counted = [reader.counted[notice] for notice in in_inbox & reader.counted.keys()]
        steps = [*counted, *([] if reader.unread is None else [reader.unread])]
        reader.unread = max(steps, key=lambda step: step.number, default=None)

    async def _new(self, user: NodeId, new: Mapping[int, _PostChange]) -> Messages:
        posts = await self._posts.visible(user, list(new))
        wanted = await self._readers.wanted(user, [post for post in posts if post is not None])
        return [(new[post.id].step, new_post(post, own=post.author == user)) for post in wanted]

    async def _updated(self, stream: Stream, edited: Mapping[int, _PostEdits]) -> Messages | None:
        """`post_updated` for edited posts that the reader watches, or whose author they did not mute.

        `new_post` instead for posts that they do not watch and whose audience may have changed (`opened_since`).
        None if they may not see an edited post that they perhaps could see before.
        """
        posts = [post for post in await self._posts.visible(stream.user, list(edited)) if post is not None]
        unseen = edited.keys() - {post.id for post in posts}
        if unseen and not await self._were_always_hidden_from(stream.user, {post: edited[post] for post in unseen}):
            return None
        opened = [
            post
            for post in posts
            if post.author != stream.user
            and post.id not in stream.watched
            and opened_since(post, edited[post.id].first_ms)
        ]
        opened_ids = {post.id for post in opened}
        unmuted = await self._readers.unmuted(stream.user, {post.author for post in posts})
        wanted = await self._readers.wanted(stream.user, opened) if opened else []
        messages: Messages = [(edited[post.id].step, new_post(post, own=False)) for post in wanted]
        return messages + [
            (edited[post.id].step, post_updated(post, own=post.author == stream.user))
            for post in posts
            if post.id not in opened_ids and (post.id in stream.watched or post.author in unmuted)
        ]

    async def _were_always_hidden_from(self, user: NodeId, edited: Mapping[int, _PostEdits]) -> bool:
        """Whether `_was_always_hidden_from` holds for all these posts."""
        authors = {edit.author for edit in edited.values()}
        records = await self._posts.store.get_many(RecordKind.POST, list(edited))
        followed = await self._readers.followed_back_until(user, authors)
        return all(
            record is not None and _was_always_hidden_from(user, record, edits, followed[edits.author])
            for record, edits in zip(records, edited.values(), strict=True)
        )

    async def _removed(self, stream: Stream, deleted: Mapping[int, _PostChange]) -> Messages:
        """`post_removed` for deleted posts that the reader watches, and for others that they could see."""
        messages: Messages = []
        unmuted = await self._readers.unmuted(stream.user, {change.author for change in deleted.values()})
        for post, change in deleted.items():
            async for deleted_post, could_see in self._readers.visible_to(post, [stream.user], deleted_too=True):
                reason = removal_reason(deleted_post is not None and deleted_post.deleted, could_see[stream.user])
                if post in stream.watched or (reason == "author_deleted" and change.author in unmuted):
                    messages.append((change.step, PostRemoved(str(post), reason)))
        return messages

    async def _numbers(self, stream: Stream, changed: Mapping[int, Step], new: Mapping[int, Step]) -> Messages:
        """Numbers that changed, and numbers of new posts that are not 0: a like may come before its post in the log."""
        steps = {**new, **changed}
        posts = list(stream.watched.keys() & steps.keys())
        counts = await self._engagement.counts(None, posts)
        return [
            (steps[post], engagement_update(post, numbers))
            for post, numbers in zip(posts, counts, strict=True)
            if post in changed or numbers.has_streamed_counts
        ]


def _watch(stream: Stream, message: MissedMessage) -> None:
    """Watch a new post, or stop watching a removed one."""
    match message:
        case NewPost():
            stream.watched.add(int(message.post_id), int(message.author_id))
        case PostRemoved():
            stream.watched.pop(int(message.post_id), None)


def opened_since(post: Post, edited_ms: int) -> bool:
    """Whether an edit of this time, or a later one, may have changed the post's visibility or audience."""
    return post.audience_at >= edited_ms - CLOCK_SKEW_MAX_MS


def _was_always_hidden_from(user: int, record: Record, edits: _PostEdits, followed_until_ms: float) -> bool:
    """Whether a post's visibility excludes a user after these edits, and did so before them.

    False if that is unknown, because the record is older than the last edit: reads may lag behind the log.
    `followed_until_ms`: until when the author followed the user.
    """
    post, before_ms = read_post(record), edits.first_ms - CLOCK_SKEW_MAX_MS
    is_left_out = {
        "private": True,
        "custom": user not in post.audience,
        "friends": followed_until_ms < before_ms,
    }.get(post.visibility, False)
    is_read = ms_of(record.updated_at) >= edits.last_ms - _ONE_EDIT_MS
    return is_left_out and user != post.author and is_read and not opened_since(post, edits.first_ms)
