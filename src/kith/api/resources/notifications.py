"""/notifications: the acting user's notifications; /mentions: mentions that other systems report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta

from kith.api.answers import Pagination, Time, ms_of_time
from kith.api.call import Call
from kith.api.operations import get, post
from kith.api.parameters import Cursor, ObjectLimit
from kith.api.presenter import AuthorAnswer, Presenter, time_of
from kith.boards.board import Board
from kith.core.errors import BadRequest
from kith.core.ids import NodeId, parse_id
from kith.core.tokens import WriteMark
from kith.notifications.answer_cache import AnswerCache, RecordedReads
from kith.notifications.external_mentions import ExternalMentions
from kith.notifications.grouping import actors_of
from kith.notifications.notice import NoticeType
from kith.notifications.notifications import NoticeGroup, Notifications
from kith.posts.comment import Comment
from kith.posts.post import Post, PostType
from kith.streams.messages import preview_of

ACTORS_SHOWN = 3
_encode = msgspec.json.Encoder().encode
Grouped = Annotated[bool, Meta(description="Whether likes, shares and follows are grouped; default true.")]


class NoticePostAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """The post that a notification is about, with the beginning of its text. GET /posts/{id} returns the rest."""

    id: str
    author_id: str
    type: PostType
    preview: str


class NoticeCommentAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """The comment that a notification is about, with the beginning of its text."""

    id: str
    author_id: str
    preview: str


class NoticeBoardAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """The board that a notification is about."""

    id: str
    owner_id: str
    name: str


class NotificationAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """What other users did. `ids`: the notifications grouped into this item, newest first; mark these as read.

    `actors`: up to 3 users who did it, latest first; `actorCount` counts all of them. `partial`: older notifications of
    this group may follow on a later page. `mentioned`: the mentioned user, if that is not the acting user.
    """

    id: str
    ids: list[str]
    type: NoticeType
    actors: list[AuthorAnswer]
    actor_count: int
    partial: bool
    post: NoticePostAnswer | None
    comment: NoticeCommentAnswer | None
    board: NoticeBoardAnswer | None
    mentioned: AuthorAnswer | None
    read: bool
    seen: bool
    at: Time


class NotificationsAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """A page of notifications, newest first. A page may be short although more follow. `unread`: the count of
    /notifications/unread. `partial`: `unread` counts only the newest 1,000 notifications, or mentions of accounts that
    the user follows are missing, because too many other accounts were mentioned lately. Or the inboxes of this machine
    are not filled: it is a standby, or was restored or promoted a moment ago.
    """

    items: list[NotificationAnswer]
    pagination: Pagination
    unread: int
    partial: bool


class UnreadAnswer(msgspec.Struct, frozen=True):
    """How many notifications are unread. `partial`: only the newest 1,000 were counted, and more exist; or the inboxes
    of this machine are not filled: it is a standby, or was restored or promoted a moment ago.
    """

    count: int
    partial: bool


class MarkRequest(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """Send one of the two: `ids`, at most 1,000; or `upTo`, for this notification and all older ones."""

    ids: list[int | str] | None = None
    up_to: int | str | None = None


class MarkedAnswer(msgspec.Struct, frozen=True):
    """How many notifications are still unread."""

    unread: int


class MentionRequest(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """`actor` mentioned `mentioned`. `eventId`: your id of this mention, 1 to 200 characters. `post`: the post with the
    mention; the user is notified only if they may see it. `at`: when it happened, within the last 90 days; now if left
    out.
    """

    event_id: str
    actor: int | str
    mentioned: int | str
    post: int | str | None = None
    at: Time | None = None


class MentionAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """`accepted`: the mentioned user is notified. It is false if a block, a mute, privacy or their preferences prevent
    it.
    """

    event_id: str
    accepted: bool


class NotificationsResource:
    """The notifications of users. `note` is called with the id of each user who reads theirs."""

    def __init__(
        self,
        notifications: Notifications,
        outside: ExternalMentions,
        present: Presenter,
        note: Callable[[int], None],
    ) -> None:
        self._notifications, self._outside, self._present = notifications, outside, present
        self._note, self._answers = note, AnswerCache[bytes](immediate=notifications.immediate)

    @get(
        "/notifications", "The notifications of the acting user", callers="acting",
        answers=NotificationsAnswer,
    )  # fmt: skip
    async def notifications(
        self, call: Call, limit: ObjectLimit = None, cursor: Cursor = None, grouped: Grouped = True
    ) -> bytes:
        """Newest first, kept for 90 days. Leaves out what the user may not see, has muted or does not want, and what
        was undone. These rules are applied at read time, as everywhere.

        Likes, shares and follows of one post or person are grouped into one item, with the date and position of the
        newest.
        """
        self._note(call.acting_user)
        make = partial(self._page, call, limit, cursor, grouped)
        if cursor is not None:
            return await make(RecordedReads())
        return await self._answers.get((call.caller.reader(), limit, grouped, self._notifications.are_filled()), make)

    async def _page(
        self, call: Call, limit: int | None, cursor: str | None, grouped: bool, reads: RecordedReads
    ) -> bytes:
        """A page as JSON."""
        user = call.acting_user
        list_key = "notifications" if grouped else "notifications one by one"
        window = call.window_of_objects(list_key, limit, cursor)
        stored_page = await self._notifications.page(user, window, grouped=grouped, reads=reads)
        actor_lists = [actors_of(entry.notices) for entry in stored_page.entries]
        newest = [entry.notices[0] for entry in stored_page.entries]
        people = {actor for actors in actor_lists for actor in actors[:ACTORS_SHOWN]}
        people |= {notice.recipient for notice in newest} - {user}
        posts = {notice.post for notice in newest if notice.post is not None}
        about = _Shown(
            await self._present.authors_with_reads(list(people), reads),
            {post: _post(stored_page.posts[post]) for post in posts},
            stored_page.comments,
            stored_page.boards,
        )
        items = [
            _item(entry, actors, about, user) for entry, actors in zip(stored_page.entries, actor_lists, strict=True)
        ]
        unread, pagination = stored_page.unread, call.pagination(list_key, stored_page.page)
        return _encode(NotificationsAnswer(items, pagination, unread.number, unread.partial or stored_page.partial))

    @get("/notifications/unread", "How many notifications are unread", callers="acting")
    async def unread_notifications(self, call: Call) -> UnreadAnswer:
        """Exactly the notifications that the ungrouped list shows as unread."""
        unread = await self._notifications.unread(call.acting_user)
        return UnreadAnswer(unread.number, unread.partial)

    @post("/notifications/read", "Mark notifications as read", callers="acting")
    async def mark_read(self, call: Call, body: MarkRequest) -> MarkedAnswer:
        """`upTo` marks this notification and all older ones. Repeating it changes nothing."""
        ids, up_to = _marked(body)
        if up_to is not None:
            return await self._marked(call, await self._notifications.read_up_to(call.acting_user, up_to))
        return await self._marked(call, await self._notifications.read(call.acting_user, ids))

    @post("/notifications/seen", "Mark notifications as seen", callers="acting")
    async def mark_seen(self, call: Call, body: MarkRequest) -> MarkedAnswer:
        """ "Seen" is what a badge counts; it does not mark anything as read. With `ids`, everything up to the newest of
        them is marked.
        """
        ids, up_to = _marked(body)
        newest = max(ids, default=NodeId(0)) if up_to is None else up_to
        return await self._marked(call, await self._notifications.seen_up_to(call.acting_user, newest))

    @post("/mentions", "Report a mention from another system", callers="server", status=202)
    async def report_mention(self, call: Call, body: MentionRequest) -> MentionAnswer:
        """The mention is stored before the answer. Repeating an `eventId` within 24 hours notifies nobody again and
        gets the same answer.
        """
        at_ms = None if body.at is None else ms_of_time(body.at)
        in_post = None if body.post is None else parse_id(body.post, "post")
        actor, mentioned = parse_id(body.actor, "actor"), parse_id(body.mentioned, "mentioned")
        return MentionAnswer(body.event_id, await self._outside.accept(body.event_id, actor, mentioned, in_post, at_ms))

    async def _marked(self, call: Call, mark: WriteMark) -> MarkedAnswer:
        call.note_write(mark)
        return MarkedAnswer((await self._notifications.unread(call.acting_user)).number)


def _marked(body: MarkRequest) -> tuple[list[NodeId], NodeId | None]:
    if (body.ids is None) == (body.up_to is None):
        raise BadRequest("send `ids`, or `upTo`")
    return [parse_id(id_, "ids") for id_ in body.ids or ()], None if body.up_to is None else parse_id(
        body.up_to, "upTo"
    )


class _Shown(NamedTuple):
    """What the notifications of a page refer to."""

    authors: Mapping[int, AuthorAnswer]
    posts: Mapping[int, NoticePostAnswer]
    comments: Mapping[int, Comment]
    boards: Mapping[int, Board]


def _item(entry: NoticeGroup, actors: Sequence[int], about: _Shown, user: int) -> NotificationAnswer:
    notices, newest = entry.notices, entry.notices[0]
    post, comment, authors = newest.post, newest.comment, about.authors
    return NotificationAnswer(
        str(newest.id),
        [str(notice.id) for notice in notices],
        newest.type,
        [authors[actor] for actor in actors[:ACTORS_SHOWN]],
        len(actors),
        entry.partial,
        None if post is None else about.posts[post],
        None if comment is None else _comment(about.comments[comment]),
        None if newest.board is None else _board(about.boards[newest.board]),
        None if newest.recipient == user else authors[newest.recipient],
        entry.read,
        entry.seen,
        time_of(newest.at_ms),
    )


def _post(post: Post) -> NoticePostAnswer:
    return NoticePostAnswer(str(post.id), str(post.author), post.type, preview_of(post.text))


def _comment(comment: Comment) -> NoticeCommentAnswer:
    return NoticeCommentAnswer(str(comment.id), str(comment.author), preview_of(comment.text))


def _board(board: Board) -> NoticeBoardAnswer:
    return NoticeBoardAnswer(str(board.id), str(board.owner), board.name)
