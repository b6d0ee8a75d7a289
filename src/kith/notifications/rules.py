"""Which notices a user may see now. Blocks, mutes, deletions, labels and privacy hide notices as they hide posts.

A notice of something that was taken back is hidden too: a like, a share, a follow, a request, a mention that an edit
removed. A batch of notices costs one read of records, one more for each level of parent comments, and one query to the
graph.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

import numpy as np

from kith.boards.board import Board, read_board
from kith.boards.visibility import may_see_board
from kith.core.gathering import gather
from kith.core.ids import NodeId
from kith.core.labels import HIDE
from kith.graph.edge import Direction, State
from kith.graph.graph import Graph
from kith.graph.graphs import (
    BOARD_FOLLOWS,
    BOARD_MEMBERS,
    COMMENT_LIKES,
    FOLLOW_REQUESTS,
    FOLLOWS,
    HIDES,
    LIKES,
    MENTIONED,
    MUTES,
    SHARES,
)
from kith.graph.questions import Answers, Questions
from kith.graph.shapes import EdgeKey, Listing
from kith.notifications.answer_cache import RecordedReads
from kith.notifications.notice import Notice, NoticeDraft
from kith.people.privacy import Privacy, Standing
from kith.posts.comment import Comment, ancestry_of, has_visible_ancestry, read_comment
from kith.posts.comment_reader import by_id, with_ancestors
from kith.posts.post import Post, read_post
from kith.posts.visibility import visible_comments, visible_posts
from kith.records.store import Record, RecordKind, RecordStore

AnyNotice = Notice | NoticeDraft
"""A notice, stored or about to be."""


class NoticeContent(NamedTuple):
    """The posts, comments and boards that notices are about. Visibility is checked separately."""

    posts: Mapping[int, Post]
    comments: Mapping[int, Comment]
    boards: Mapping[int, Board]

    def of(self, notice: AnyNotice) -> NoticeContent:
        """The content of one notice."""
        if notice.post is None and notice.board is None:
            return _NOTHING
        post = None if notice.post is None else self.posts.get(notice.post)
        comments = [] if notice.comment is None else ancestry_of(notice.comment, self.comments)
        board = None if notice.board is None else self.boards.get(notice.board)
        return NoticeContent(
            {} if post is None else {post.id: post},
            by_id(comments),
            {} if board is None else {board.id: board},
        )

    def authors(self) -> set[int]:
        """The authors and owners of all this content."""
        return {
            *(post.author for post in self.posts.values()),
            *(comment.author for comment in self.comments.values()),
            *(board.owner for board in self.boards.values()),
        }

    def friends_only(self) -> set[int]:
        """The authors of posts that only friends see."""
        return {post.author for post in self.posts.values() if post.visibility == "friends"}

    def visible_content(self, user: NodeId, authors: Mapping[int, Standing], hidden: Collection[int]) -> NoticeContent:
        """The part that a user may see. `authors`: how each stands to the user; `hidden`: posts that the user hid."""
        posts = visible_posts([post for id_, post in self.posts.items() if id_ not in hidden], user, authors)
        comments = visible_comments([*self.comments.values()], user, authors)
        return NoticeContent(
            {post.id: post for post in posts if post is not None},
            by_id(comments),
            {
                id_: board
                for id_, board in self.boards.items()
                if not board.deleted and may_see_board(board, user, authors[board.owner], member=True)
            },
        )


_NOTHING = NoticeContent({}, {}, {})


class VisibleNotices(NamedTuple):
    """Which notices their reader may see, and the part of their content that the reader may see."""

    notices: Sequence[bool]
    content: NoticeContent


class NoticeVisibility(Enum):
    """Whether a user may see a notice."""

    NO = 0
    FOR_OTHERS = 1  # hidden from this user alone: they muted or hid it, or it mentions them while they are away
    YES = 2


class NoticeRules:
    """Queries the graph and the records."""

    def __init__(self, graph: Graph, records: RecordStore) -> None:
        self._graph, self._records, self._privacy = graph, records, Privacy(graph)
        number = graph.graphs.number
        self._mutes, self._hides, self._mentioned = number(MUTES), number(HIDES), number(MENTIONED)
        self._likes, self._comment_likes, self._shares = number(LIKES), number(COMMENT_LIKES), number(SHARES)
        self._follows, self._requests = number(FOLLOWS), number(FOLLOW_REQUESTS)
        self._board_follows, self._members = number(BOARD_FOLLOWS), number(BOARD_MEMBERS)

    async def content(self, notices: Sequence[AnyNotice], reads: RecordedReads | None = None) -> NoticeContent:
        """What these notices are about, with all parents of the comments."""
        reads, records = reads or RecordedReads(), self._records
        post_ids = list({notice.post for notice in notices if notice.post is not None})
        comment_ids = list({notice.comment for notice in notices if notice.comment is not None})
        board_ids = list(dict.fromkeys(notice.board for notice in notices if notice.board is not None))
        posts, comments, boards = await gather(
            records.immediate,
            reads.records(records, RecordKind.POST, post_ids),
            reads.records(records, RecordKind.COMMENT, comment_ids),
            reads.records(records, RecordKind.BOARD, board_ids),
        )

        async def read(ids: list[int]) -> list[Comment]:
            return _comments_of(await reads.records(records, RecordKind.COMMENT, ids))

        return NoticeContent(
            {record.id: read_post(record) for record in posts if record is not None},
            by_id(await with_ancestors(_comments_of(comments), read)),
            {record.id: read_board(record) for record in boards if record is not None},
        )

    def ask(
        self, questions: Questions, user: NodeId, notices: Sequence[AnyNotice], content: NoticeContent
    ) -> Callable[[Answers], VisibleNotices]:
        """Ask which of these notices `user` may see; returns a function of the answers."""
        recipients = {notice.recipient for notice in notices} - {user}
        people = {notice.actor for notice in notices} | recipients
        read_standings = self._privacy.ask_standings(
            questions, user, people | content.authors(), content.friends_only()
        )
        people_ids, post_ids = (np.fromiter(ids, np.int64, len(ids)) for ids in (people, content.posts))
        muted = questions.members(Listing(self._mutes, user, Direction.OUT), people_ids)
        hidden = questions.members(Listing(self._hides, user, Direction.OUT), post_ids)
        edges = [self._edge(notice) for notice in notices]
        edge_states = questions.states([edge for edge in edges if edge is not None])

        def shown(answers: Answers) -> VisibleNotices:
            standings = read_standings(answers)
            muted_ids = {*people_ids[answers.members[muted]].tolist()}
            audible_ids = {id_ for id_ in people if id_ not in muted_ids and _allows_notices(standings[id_])} | {user}
            near_ids = {id_ for id_ in recipients if id_ in audible_ids and standings[id_].followed} | {user}
            visible = content.visible_content(user, standings, post_ids[answers.members[hidden]].tolist())
            states = iter(answers.states[edge_states])
            marks = [
                (edge is None or next(states) is State.NORMAL)
                and notice.actor in audible_ids
                and notice.recipient in near_ids
                and _content_is_visible(notice, visible)
                for notice, edge in zip(notices, edges, strict=True)
            ]
            return VisibleNotices(marks, visible)

        return shown

    def ask_each(
        self, questions: Questions, notices: Sequence[tuple[NodeId, AnyNotice]], content: NoticeContent
    ) -> Callable[[Answers], list[NoticeVisibility]]:
        """Ask for each (user, notice) whether the user may see it; returns a function of the answers.

        For many users with few notices each.
        """
        parts = [content.of(notice) for _, notice in notices]
        distinct_pairs = dict.fromkeys(
            (user, NodeId(person))
            for user, notice in notices
            for person in (notice.actor, notice.recipient)
            if person != user
        )
        pairs, friends = distinct_pairs.copy(), set[tuple[NodeId, NodeId]]()
        for (user, _), part in zip(notices, parts, strict=True):
            if part is not _NOTHING:
                pairs.update(dict.fromkeys((user, NodeId(author)) for author in part.authors()))
                friends.update((user, NodeId(author)) for author in part.friends_only())
        read_standings = self._privacy.ask_standings_between(questions, pairs, friends)
        mutes = questions.states([(self._mutes, *pair) for pair in distinct_pairs])
        posts = [(user, NodeId(post)) for (user, _), part in zip(notices, parts, strict=True) for post in part.posts]
        hides = questions.states([(self._hides, *pair) for pair in posts])
        edges = [self._edge(notice) for _, notice in notices]
        edge_states = questions.states([edge for edge in edges if edge is not None])

        def shown(answers: Answers) -> list[NoticeVisibility]:
            standings, states = read_standings(answers), answers.states
            muted = {pair for pair, state in zip(distinct_pairs, states[mutes], strict=True) if state is State.NORMAL}
            hidden = {pair for pair, state in zip(posts, states[hides], strict=True) if state is State.NORMAL}
            remaining_states = iter(states[edge_states])

            def may_hear(user: NodeId, person: NodeId) -> bool:
                return user == person or _allows_notices(standings[user, person])

            def sees(user: NodeId, notice: AnyNotice, part: NoticeContent) -> bool:
                authors = {author: standings[user, NodeId(author)] for author in part.authors()}
                return _content_is_visible(notice, part.visible_content(user, authors, ()))

            def showing(user: NodeId, notice: AnyNotice, part: NoticeContent, state: State | None) -> NoticeVisibility:
                is_visible = (
                    (state is State.NORMAL or (state is State.ARCHIVED and notice.type == "mention"))
                    and may_hear(user, NodeId(notice.actor))
                    and may_hear(user, NodeId(notice.recipient))
                    and (notice.recipient == user or standings[user, notice.recipient].followed)
                    and (part is _NOTHING or sees(user, notice, part))
                )
                if not is_visible:
                    return NoticeVisibility.NO
                is_muted = (user, notice.actor) in muted or (user, notice.recipient) in muted
                if state is not State.NORMAL or is_muted or any((user, post) in hidden for post in part.posts):
                    return NoticeVisibility.FOR_OTHERS
                return NoticeVisibility.YES

            return [
                showing(user, notice, part, State.NORMAL if edge is None else next(remaining_states))
                for (user, notice), part, edge in zip(notices, parts, edges, strict=True)
            ]

        return shown

    def _edge(self, notice: AnyNotice) -> EdgeKey | None:
        """The edge that must exist for the notice to be true; None if the content alone decides."""
        if notice.event:
            return None
        match notice.type:
            case "mention" if notice.comment is None and notice.post is not None:
                return (self._mentioned, notice.recipient, notice.post)
            case "like" if notice.comment is not None:
                return (self._comment_likes, notice.actor, notice.comment)
            case "like" if notice.post is not None:
                return (self._likes, notice.actor, notice.post)
            case "share" if notice.post is not None:
                return (self._shares, notice.actor, notice.post)
            case "follow":
                return (self._follows, notice.actor, notice.recipient)
            case "follow_request":
                return (self._requests, notice.actor, notice.recipient)
            case "follow_accepted":
                return (self._follows, notice.recipient, notice.actor)
            case "board_follow" if notice.board is not None:
                return (self._board_follows, notice.actor, notice.board)
            case "board_invite" if notice.board is not None:
                return (self._members, notice.recipient, notice.board)
            case _:
                return None


def _allows_notices(standing: Standing) -> bool:
    """Whether a user may be notified of an actor's actions, given how the actor stands to the user."""
    return standing.state is State.NORMAL and not standing.blocked and not standing.labels & HIDE


def _content_is_visible(notice: AnyNotice, visible: NoticeContent) -> bool:
    """Whether what a notice is about is among the content `visible`."""
    return (
        (notice.post is None or notice.post in visible.posts)
        and (
            notice.comment is None
            or (has_visible_ancestry(notice.comment, visible.comments) and not visible.comments[notice.comment].deleted)
        )
        and (notice.board is None or _is_of_board(notice, visible.boards))
    )


def _comments_of(records: Iterable[Record | None]) -> list[Comment]:
    return [read_comment(record) for record in records if record is not None]


def _is_of_board(notice: AnyNotice, boards: Mapping[int, Board]) -> bool:
    """Whether the board is there, and still belongs to the user who was notified of a follower, or who invited."""
    board = boards.get(notice.board or -1)
    return board is not None and board.owner == (notice.actor if notice.type == "board_invite" else notice.recipient)
