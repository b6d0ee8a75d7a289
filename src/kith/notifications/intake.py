"""Follows the log and makes notices of mentions, comments, likes, shares, follows, requests and invitations.

What an event means is decided purely (`drafts_of`), from the event and from the stored records that it is about. Nobody
is notified of their own actions, of what they must not see or do not want, of edges that came back with an account, or
of imported edges. A repeated event makes no further notice (`notices`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kith.boards.board import Board
from kith.boards.reconciler import read_boards
from kith.core.clock import ms_of
from kith.core.events import NORMAL, Event
from kith.core.gathering import gather
from kith.graph.edge import Edge, State
from kith.graph.graphs import (
    BOARD_FOLLOWS,
    BOARD_MEMBERS,
    COMMENT_LIKES,
    COMMENTED,
    FOLLOW_REQUESTS,
    FOLLOWS,
    LIKES,
    MENTIONED,
    SHARES,
    Graphs,
)
from kith.log.store import LogStore
from kith.notifications.notice import NOTICE_KEPT_MS, NoticeDraft, NoticeType
from kith.notifications.notices import Notices
from kith.notifications.recent import RecentMentions
from kith.notifications.recipients import Recipients
from kith.posts.comment import Comment
from kith.posts.comment_reader import CommentReader
from kith.posts.post import Post
from kith.posts.posts import Posts

NAME = "notifications"
FRESH_MS = 86_400_000
"""An edge made longer than this before it was logged notifies nobody: it was imported, or written again."""
_NOTIFYING_STATES = (NORMAL, State.ARCHIVED)
PART = 200
"""Events processed together."""


class StoredSubjects(NamedTuple):
    """What events are about, as stored now.

    `requests`: follow requests of new followers, by (source, destination). `private`: which followed users are private.
    """

    posts: dict[int, Post]
    comments: dict[int, Comment]
    requests: dict[tuple[int, int], Edge]
    private: frozenset[int]
    boards: dict[int, Board]


class Intake:
    """The consumer of the log. See `log.runner.Consumer`."""

    name = NAME

    def __init__(
        self,
        notices: Notices,
        recipients: Recipients,
        recent: RecentMentions,
        posts: Posts,
        comments: CommentReader,
    ) -> None:
        self._notices, self._recipients, self._recent = notices, recipients, recent
        self._posts, self._comments, self._graph = posts, comments, posts.graph
        self._drafter = NoticeDrafter(self._graph.graphs)

    async def handle(self, events: Sequence[Event]) -> None:
        """Notify the users whom these events concern."""
        notifying = [event for event in events if self._drafter.may_notify(event)]
        for start in range(0, len(notifying), PART):
            drafts = [draft for _, draft in await self._drafts(notifying[start : start + PART])]
            await self.notify(await self._recipients.worth_storing(drafts))

    async def notify(self, allowed: Sequence[NoticeDraft]) -> None:
        """Make the notice of each allowed draft, once however often it comes."""
        ids = await self._notices.notify(allowed)
        await self._recent.note(list(zip(allowed, ids, strict=True)))

    async def drafts(self, events: Sequence[Event]) -> list[tuple[Event, NoticeDraft]]:
        """The drafts that up to PART events make, by what is stored now, before it is checked who may be notified."""
        return await self._drafts([event for event in events if self._drafter.may_notify(event)])

    async def _drafts(self, notifying: Sequence[Event]) -> list[tuple[Event, NoticeDraft]]:
        if not notifying:
            return []
        subjects = await self._read_subjects(notifying)
        return [(event, draft) for event in notifying for draft in self._drafter.drafts_of(event, subjects)]

    async def work_backlog(self) -> bool:
        """Do nothing: no work is deferred."""
        return False

    async def rebuild(self) -> None:
        """Do nothing: which of the forgotten events were new is not known, so nobody is notified of them."""

    async def _read_subjects(self, events: Sequence[Event]) -> StoredSubjects:
        """Read what these events are about."""
        post_ids, comment_ids, board_ids, follows = self._drafter.subjects_of(events)
        comments = {comment.id: comment for comment in await self._comments.read(comment_ids) if comment is not None}
        parent_ids = {
            comment.reply_to for comment in comments.values() if comment.reply_to is not None
        } - comments.keys()
        all_post_ids = {*post_ids, *(comment.post for comment in comments.values())}
        posts, parents, rows, nodes = await gather(
            self._graph.store.immediate,
            self._posts.read(list(all_post_ids)),
            self._comments.read(list(parent_ids)),
            self._graph.store.get_many(self._drafter.requests, follows),
            self._graph.store.nodes([followed for _, followed in follows]),
        )
        comments |= {comment.id: comment for comment in parents if comment is not None}
        boards = await read_boards(self._posts.store, board_ids)
        return StoredSubjects(
            {post.id: post for post in posts if post is not None},
            comments,
            {pair: row for pair, row in zip(follows, rows, strict=True) if row is not None},
            frozenset(followed for (_, followed), node in zip(follows, nodes, strict=True) if node.private),
            {board.id: board for board in boards if board is not None},
        )


class NoticeDrafter:
    """Which drafts of notices an event of the log makes. Pure."""

    def __init__(self, graphs: Graphs) -> None:
        number = graphs.number
        self._likes, self._shares, self._comment_likes = number(LIKES), number(SHARES), number(COMMENT_LIKES)
        self._commented, self._mentioned = number(COMMENTED), number(MENTIONED)
        self._follows, self.requests = number(FOLLOWS), number(FOLLOW_REQUESTS)
        self._board_follows, self._board_members = number(BOARD_FOLLOWS), number(BOARD_MEMBERS)
        self._to_posts = frozenset({self._likes, self._shares, self._mentioned})
        self._to_comments = frozenset({self._comment_likes, self._commented})
        self._to_boards = frozenset({self._board_follows, self._board_members})
        self._notifying_graphs = self._to_posts | self._to_comments | self._to_boards | {self._follows, self.requests}

    def may_notify(self, event: Event) -> bool:
        """Whether an event may notify somebody: its edge is new, and did not come back with an account.

        The edge of a mention of a deactivated account is archived from the start. The edge of any mention is written
        again when an edit changes who may see the post.
        """
        return (
            event.state in _NOTIFYING_STATES  # checked first: most events are of records
            and event.graph in self._notifying_graphs
            and (event.began or (event.graph == self._mentioned and (event.before is None or _is_written_again(event))))
            and (event.before, event.state) != (State.ARCHIVED, State.NORMAL)
            and event.logged_ms - ms_of(event.updated_at) < FRESH_MS
        )

    def subjects_of(self, events: Iterable[Event]) -> tuple[list[int], list[int], list[int], list[tuple[int, int]]]:
        """The posts, comments and boards that events are about, and the (follower, followed) of each follow."""
        posts, comments, boards, follows = set[int](), set[int](), set[int](), list[tuple[int, int]]()
        for event in events:
            if event.graph in self._to_posts:
                posts.add(event.destination)
            elif event.graph in self._to_comments:
                comments.add(event.destination)
            elif event.graph in self._to_boards:
                boards.add(event.destination)
            elif event.graph == self._follows:
                follows.append((event.source, event.destination))
        return list(posts), list(comments), list(boards), follows

    def drafts_of(self, event: Event, subjects: StoredSubjects) -> list[NoticeDraft]:
        """The drafts that an event makes. The actor is never notified."""
        source, at_ms = event.source, ms_of(event.updated_at)
        if event.graph == self.requests:
            drafts = [NoticeDraft("follow_request", source, event.destination, at_ms)]
        elif event.graph == self._follows:
            drafts = self._followed(event, subjects, at_ms)
        elif event.graph in self._to_posts:
            post = subjects.posts.get(event.destination)
            drafts = [] if post is None else [self._of_post(event, post, at_ms)]
        elif event.graph in self._to_boards:
            board = subjects.boards.get(event.destination)
            drafts = [] if board is None else self._of_board(event, board, at_ms)
        else:
            comment = subjects.comments.get(event.destination)
            drafts = [] if comment is None else self._of_comment(event, comment, subjects, at_ms)
        return [draft for draft in drafts if draft.actor != draft.recipient]

    def _followed(self, event: Event, subjects: StoredSubjects, at_ms: int) -> list[NoticeDraft]:
        """A follow that answers a request notifies the requester; any other follow notifies the user followed.

        If the followed account is public by now, its requests were accepted in bulk, and nobody is notified. A request
        is removed right after its follow was written, so it is still there, or its last change is later.
        """
        follower, followed = event.source, event.destination
        request = subjects.requests.get((follower, followed))
        if request is None or (request.state is not State.NORMAL and request.updated_at < event.updated_at):
            return [NoticeDraft("follow", follower, followed, at_ms)]
        return [NoticeDraft("follow_accepted", followed, follower, at_ms)] if followed in subjects.private else []

    def _of_post(self, event: Event, post: Post, at_ms: int) -> NoticeDraft:
        if event.graph == self._mentioned:
            return NoticeDraft("mention", post.author, event.source, at_ms, post.id)
        return NoticeDraft("like" if event.graph == self._likes else "share", event.source, post.author, at_ms, post.id)

    def _of_board(self, event: Event, board: Board, at_ms: int) -> list[NoticeDraft]:
        """The owner invites. A follow that came with a merged board keeps its old position, and notifies nobody."""
        if event.graph == self._board_members:
            return [NoticeDraft("board_invite", board.owner, event.source, at_ms, board=board.id)]
        if event.position < at_ms:
            return []
        return [NoticeDraft("board_follow", event.source, board.owner, at_ms, board=board.id)]

    def _of_comment(self, event: Event, comment: Comment, subjects: StoredSubjects, at_ms: int) -> list[NoticeDraft]:
        """All reasons to notify users of a comment. Each user is notified once, for the first reason that they want."""
        if event.graph == self._comment_likes:
            return [NoticeDraft("like", event.source, comment.author, at_ms, comment.post, comment.id)]
        reasons: list[tuple[NoticeType, int]] = [("mention", user) for user in dict.fromkeys(comment.named)]
        post = subjects.posts.get(comment.post)
        parent = None if comment.reply_to is None else subjects.comments.get(comment.reply_to)
        if parent is not None:
            reasons.append(("reply", parent.author))
        if post is not None:
            reasons.append(("comment", post.author))
        first_reason: dict[int, NoticeType] = {}
        drafts: list[NoticeDraft] = []
        for type_, user in reasons:
            drafts.append(
                NoticeDraft(
                    type_, comment.author, user, at_ms, comment.post, comment.id, instead_of=first_reason.get(user)
                )
            )
            first_reason.setdefault(user, type_)
        return drafts


def _is_written_again(mention: Event) -> bool:
    """Whether a mention was there before, in a post that is younger than notices: of an older post nobody knows any
    more who was notified.
    """
    return mention.before == mention.state and ms_of(mention.updated_at) - mention.position < NOTICE_KEPT_MS


async def begin(log: LogStore, group: str = NAME) -> None:
    """Let intake, or another group, begin at the current end of the log, if it never read this log.

    Called by the process that takes writes, before the first write: a worker that starts later would begin after it.
    """
    if await log.progress(group) is None:
        await log.save(group, await log.end(), {})
