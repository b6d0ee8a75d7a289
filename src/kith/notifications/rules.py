"""Which notices a user may see now: what a block, mute, deletion, label or privacy hides elsewhere is hidden here too.

So is what was taken back: a like, a share, a follow, a request, a mention that an edit took out. A batch of notices
takes two reads of records at most, and one question to the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from kith.boards.board import Board, read_board
from kith.boards.boards import may_see
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
from kith.graph.together import together
from kith.notifications.kept import Reads
from kith.notifications.notice import Draft, Notice
from kith.people.privacy import Privacy, Standing
from kith.posts.comment import Comment, read_comment
from kith.posts.comment_reader import comments_seen
from kith.posts.post import Post, read_post
from kith.posts.posts import seen_of
from kith.records.store import RecordKind, RecordStore

Told = Notice | Draft
"""A notice, stored or about to be."""


class Content(NamedTuple):
    """The posts, comments and boards that notices are about, whoever may see them."""

    posts: Mapping[int, Post]
    comments: Mapping[int, Comment]
    boards: Mapping[int, Board]

    def of(self, one: Told) -> Content:
        """That of one notice."""
        post = None if one.post is None else self.posts.get(one.post)
        comment = None if one.comment is None else self.comments.get(one.comment)
        said = [] if comment is None else [comment, self.comments.get(comment.reply_to or -1)]
        posts = {} if post is None else {post.id: post}
        board = None if one.board is None else self.boards.get(one.board)
        return Content(
            posts, {one.id: one for one in said if one is not None}, {} if board is None else {board.id: board}
        )


class Shown(NamedTuple):
    """What of the content of notices their reader may see."""

    notices: Sequence[bool]
    posts: Mapping[int, Post]
    comments: Mapping[int, Comment]
    boards: Mapping[int, Board]


class NoticeRules:
    """Asks the graph and the records."""

    def __init__(self, graph: Graph, records: RecordStore) -> None:
        self._graph, self._records, self._privacy = graph, records, Privacy(graph)
        number = graph.graphs.number
        self._mutes, self._hides, self._mentioned = number(MUTES), number(HIDES), number(MENTIONED)
        self._likes, self._comment_likes, self._shares = number(LIKES), number(COMMENT_LIKES), number(SHARES)
        self._follows, self._requests = number(FOLLOWS), number(FOLLOW_REQUESTS)
        self._board_follows, self._members = number(BOARD_FOLLOWS), number(BOARD_MEMBERS)

    async def content(self, notices: Sequence[Told], reads: Reads | None = None) -> Content:
        """What these notices are about, and the comments that those comments answer."""
        reads, records = reads or Reads(), self._records
        ids = list({one.post for one in notices if one.post is not None})
        said = list({one.comment for one in notices if one.comment is not None})
        named = list(dict.fromkeys(one.board for one in notices if one.board is not None))
        posts, comments, boards = await together(
            records.immediate,
            reads.records(records, RecordKind.POST, ids),
            reads.records(records, RecordKind.COMMENT, said),
            reads.records(records, RecordKind.BOARD, named),
        )
        found = {record.id: read_comment(record) for record in comments if record is not None}
        above = {comment.reply_to for comment in found.values() if comment.reply_to is not None} - found.keys()
        over = await reads.records(records, RecordKind.COMMENT, list(above))
        found |= {record.id: read_comment(record) for record in over if record is not None}
        return Content(
            {record.id: read_post(record) for record in posts if record is not None},
            found,
            {record.id: read_board(record) for record in boards if record is not None},
        )

    def ask(
        self, questions: Questions, user: NodeId, notices: Sequence[Told], content: Content
    ) -> Callable[[Answers], Shown]:
        """Ask which of these notices `user` may see."""
        about = {one.recipient for one in notices} - {user}
        told = {one.actor for one in notices} | about
        posts = [post for post in content.posts.values() if not post.deleted]
        comments = list(content.comments.values())
        friends = {post.author for post in posts if post.visibility == "friends"}
        boards = [board for board in content.boards.values() if not board.deleted]
        people = {*told, *(post.author for post in posts), *(one.author for one in comments)}
        people.update(board.owner for board in boards)
        standings = self._privacy.ask_standings(questions, user, people, friends)
        loud_ids, post_ids = (np.fromiter(ids, np.int64, len(ids)) for ids in (told, [post.id for post in posts]))
        muted = questions.members(Listing(self._mutes, user, Direction.OUT), loud_ids)
        hidden = questions.members(Listing(self._hides, user, Direction.OUT), post_ids)
        edges = [self._edge(one) for one in notices]
        held = questions.states([edge for edge in edges if edge is not None])

        def shown(answers: Answers) -> Shown:
            found = standings(answers)
            loud = {one for one in told if _may_tell(found[one])}
            loud -= {one for one in about if not found[one].followed}
            loud -= set(loud_ids[answers.members[muted]].tolist())
            seen = {post.id: post for post in seen_of(posts, user, found) if post is not None}
            for hid in post_ids[answers.members[hidden]].tolist():
                seen.pop(hid, None)
            read = {one.id: one for one in comments_seen(comments, user, found) if one is not None}
            there = {one.id: one for one in boards if may_see(one, user, found[one.owner], member=True)}
            states, loud = iter(answers.states[held]), loud | {user}
            marks = [
                (edge is None or next(states) is State.NORMAL)
                and one.actor in loud
                and one.recipient in loud
                and (one.post is None or one.post in seen)
                and (one.comment is None or _is_there(one.comment, read))
                and (one.board is None or _is_of_board(one, there))
                for one, edge in zip(notices, edges, strict=True)
            ]
            return Shown(marks, seen, read, there)

        return shown

    def _edge(self, one: Told) -> EdgeKey | None:
        """The edge that must hold for what the notice says to be so; None if the content alone decides."""
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


def _may_tell(one: Standing) -> bool:
    """Whether a user is told of what somebody does who stands so to them."""
    return one.state is State.NORMAL and not one.blocked and not one.labels & HIDE


def _is_there(comment: int, read: Mapping[int, Comment]) -> bool:
    """Whether a comment may be read, and the comment that it answers is there at least as a stub."""
    found = read.get(comment)
    return found is not None and not found.deleted and (found.reply_to is None or found.reply_to in read)


def _is_of_board(one: Told, there: Mapping[int, Board]) -> bool:
    """Whether a board is there, and still owned by who was told of a follow of it."""
    board = there.get(one.board or -1)
    return board is not None and (one.type != "board_follow" or board.owner == one.recipient)
