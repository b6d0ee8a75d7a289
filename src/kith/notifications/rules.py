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

    def of(self, one: AnyNotice) -> NoticeContent:
        """The content of one notice."""
        if one.post is None and one.board is None:
            return _NOTHING
        post = None if one.post is None else self.posts.get(one.post)
        said = [] if one.comment is None else ancestry_of(one.comment, self.comments)
        board = None if one.board is None else self.boards.get(one.board)
        return NoticeContent(
            {} if post is None else {post.id: post},
            by_id(said),
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
        ids = list({one.post for one in notices if one.post is not None})
        said = list({one.comment for one in notices if one.comment is not None})
        named = list(dict.fromkeys(one.board for one in notices if one.board is not None))
        posts, comments, boards = await gather(
            records.immediate,
            reads.records(records, RecordKind.POST, ids),
            reads.records(records, RecordKind.COMMENT, said),
            reads.records(records, RecordKind.BOARD, named),
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
        about = {one.recipient for one in notices} - {user}
        told = {one.actor for one in notices} | about
        standings = self._privacy.ask_standings(questions, user, told | content.authors(), content.friends_only())
        told_ids, post_ids = (np.fromiter(ids, np.int64, len(ids)) for ids in (told, content.posts))
        muted = questions.members(Listing(self._mutes, user, Direction.OUT), told_ids)
        hidden = questions.members(Listing(self._hides, user, Direction.OUT), post_ids)
        edges = [self._edge(one) for one in notices]
        held = questions.states([edge for edge in edges if edge is not None])

        def shown(answers: Answers) -> VisibleNotices:
            found = standings(answers)
            silent = {*told_ids[answers.members[muted]].tolist()}
            loud = {one for one in told if one not in silent and _allows_notices(found[one])} | {user}
            near = {one for one in about if one in loud and found[one].followed} | {user}
            seen = content.visible_content(user, found, post_ids[answers.members[hidden]].tolist())
            states = iter(answers.states[held])
            marks = [
                (edge is None or next(states) is State.NORMAL)
                and one.actor in loud
                and one.recipient in near
                and _content_is_visible(one, seen)
                for one, edge in zip(notices, edges, strict=True)
            ]
            return VisibleNotices(marks, seen)

        return shown

    def ask_each(
        self, questions: Questions, told: Sequence[tuple[NodeId, AnyNotice]], content: NoticeContent
    ) -> Callable[[Answers], list[NoticeVisibility]]:
        """Ask for each (user, notice) whether the user may see it; returns a function of the answers.

        For many users with few notices each.
        """
        abouts = [content.of(one) for _, one in told]
        others = [(user, NodeId(other)) for user, one in told for other in (one.actor, one.recipient) if other != user]
        heard = dict.fromkeys(others)
        pairs, friends = heard.copy(), set[tuple[NodeId, NodeId]]()
        for (user, _), about in zip(told, abouts, strict=True):
            if about is not _NOTHING:
                pairs.update(dict.fromkeys((user, NodeId(author)) for author in about.authors()))
                friends.update((user, NodeId(author)) for author in about.friends_only())
        standings = self._privacy.ask_standings_between(questions, pairs, friends)
        mutes = questions.states([(self._mutes, *pair) for pair in heard])
        posts = [(user, NodeId(post)) for (user, _), about in zip(told, abouts, strict=True) for post in about.posts]
        hides = questions.states([(self._hides, *pair) for pair in posts])
        edges = [self._edge(one) for _, one in told]
        held = questions.states([edge for edge in edges if edge is not None])

        def shown(answers: Answers) -> list[NoticeVisibility]:
            found, states = standings(answers), answers.states
            muted = {pair for pair, state in zip(heard, states[mutes], strict=True) if state is State.NORMAL}
            hidden = {pair for pair, state in zip(posts, states[hides], strict=True) if state is State.NORMAL}
            holding = iter(states[held])

            def may_hear(user: NodeId, other: NodeId) -> bool:
                return user == other or _allows_notices(found[user, other])

            def sees(user: NodeId, one: AnyNotice, about: NoticeContent) -> bool:
                authors = {author: found[user, NodeId(author)] for author in about.authors()}
                return _content_is_visible(one, about.visible_content(user, authors, ()))

            def showing(user: NodeId, one: AnyNotice, about: NoticeContent, state: State | None) -> NoticeVisibility:
                may = (
                    (state is State.NORMAL or (state is State.ARCHIVED and one.type == "mention"))
                    and may_hear(user, NodeId(one.actor))
                    and may_hear(user, NodeId(one.recipient))
                    and (one.recipient == user or found[user, one.recipient].followed)
                    and (about is _NOTHING or sees(user, one, about))
                )
                if not may:
                    return NoticeVisibility.NO
                silent = (user, one.actor) in muted or (user, one.recipient) in muted
                if state is not State.NORMAL or silent or any((user, post) in hidden for post in about.posts):
                    return NoticeVisibility.FOR_OTHERS
                return NoticeVisibility.YES

            return [
                showing(user, one, about, State.NORMAL if edge is None else next(holding))
                for (user, one), about, edge in zip(told, abouts, edges, strict=True)
            ]

        return shown

    def _edge(self, one: AnyNotice) -> EdgeKey | None:
        """The edge that must exist for the notice to be true; None if the content alone decides."""
        if one.event:
            return None
        match one.type:
            case "mention" if one.comment is None and one.post is not None:
                return (self._mentioned, one.recipient, one.post)
            case "like" if one.comment is not None:
                return (self._comment_likes, one.actor, one.comment)
            case "like" if one.post is not None:
                return (self._likes, one.actor, one.post)
            case "share" if one.post is not None:
                return (self._shares, one.actor, one.post)
            case "follow":
                return (self._follows, one.actor, one.recipient)
            case "follow_request":
                return (self._requests, one.actor, one.recipient)
            case "follow_accepted":
                return (self._follows, one.recipient, one.actor)
            case "board_follow" if one.board is not None:
                return (self._board_follows, one.actor, one.board)
            case "board_invite" if one.board is not None:
                return (self._members, one.recipient, one.board)
            case _:
                return None


def _allows_notices(one: Standing) -> bool:
    """Whether a user may be notified of an actor's actions, given how the actor stands to the user."""
    return one.state is State.NORMAL and not one.blocked and not one.labels & HIDE


def _content_is_visible(one: AnyNotice, seen: NoticeContent) -> bool:
    """Whether what a notice is about is among the content `seen`."""
    return (
        (one.post is None or one.post in seen.posts)
        and (
            one.comment is None
            or (has_visible_ancestry(one.comment, seen.comments) and not seen.comments[one.comment].deleted)
        )
        and (one.board is None or _is_of_board(one, seen.boards))
    )


def _comments_of(records: Iterable[Record | None]) -> list[Comment]:
    return [read_comment(record) for record in records if record is not None]


def _is_of_board(one: AnyNotice, there: Mapping[int, Board]) -> bool:
    """Whether the board is there, and still belongs to the user who was notified of a follower, or who invited."""
    board = there.get(one.board or -1)
    return board is not None and board.owner == (one.actor if one.type == "board_invite" else one.recipient)
