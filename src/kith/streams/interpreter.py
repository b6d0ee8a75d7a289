"""Turns events of the log into the changes that readers are sent. An event is one change, several, or none. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from kith.core.clock import ms_of
from kith.core.events import BULK_LOADED, RECORD_CHANGED, SHOWN, USER_CHANGED, Event
from kith.graph.edge import State
from kith.graph.graphs import (
    AUTHORED,
    BLOCKS,
    COMMENTS,
    FOLLOW_REQUESTS,
    FOLLOWS,
    HIDES,
    LIKES,
    MUTES,
    POST_REPLIES,
    SHARES,
    Graphs,
)
from kith.notifications.notice import read_notice
from kith.records.store import RecordKind
from kith.streams.changes import (
    AccountChanged,
    AuthorMuted,
    AuthorUnfollowed,
    FeedChange,
    FollowersNotified,
    FollowersUnread,
    FollowReturned,
    GraphLoaded,
    NoticeMade,
    NumbersChanged,
    PostDeleted,
    PostEdited,
    PostHidden,
    PostMade,
    RequestEnded,
    UnreadChanged,
    UserBlocked,
)
from kith.streams.positions import Step


class Interpreter:
    """Turns events of the log into changes."""

    def __init__(self, graphs: Graphs) -> None:
        number = graphs.number
        self._authored, self._follows, self._requests = number(AUTHORED), number(FOLLOWS), number(FOLLOW_REQUESTS)
        self._comments = frozenset({number(COMMENTS), number(POST_REPLIES)})
        self._reactions = frozenset({number(LIKES), number(SHARES)})
        self._removal_changes = {number(BLOCKS): UserBlocked, number(MUTES): AuthorMuted, number(HIDES): PostHidden}

    def changes(self, events: Iterable[Event], steps: Iterable[Step]) -> list[FeedChange]:
        """The changes among the events, in their order. Events that matter to no connected reader are left out.

        `steps`: one for each event.
        """
        changes: list[FeedChange] = []
        for event, step in zip(events, steps, strict=True):
            if event.state == RECORD_CHANGED:
                changes += _of_record(event, step)
            elif (change := self._change(event, step)) is not None:
                changes.append(change)
        return changes

    def _change(self, event: Event, step: Step) -> FeedChange | None:
        graph = event.graph
        if event.state == BULK_LOADED:
            return GraphLoaded(step) if graph in (self._follows, self._authored) else None
        if event.state == USER_CHANGED:
            return AccountChanged(step, event.source, event.destination == SHOWN)
        if graph == self._authored:
            return _of_post(event, step)
        if graph in self._reactions:
            return NumbersChanged(step, event.destination) if event.began or event.ended else None
        if graph in self._comments:
            return NumbersChanged(step, event.source) if event.began or event.ended else None
        if graph == self._follows:
            return _of_follow(event, step)
        if graph == self._requests:
            return RequestEnded(step, event.source, event.destination) if event.ended else None
        kind = self._removal_changes.get(graph) if event.began else None  # an unblock brings no post back
        return None if kind is None else kind(step, event.source, event.destination)


def _of_record(event: Event, step: Step) -> list[FeedChange]:
    """The changes that an event of a record means; none unless the record is one of notifications."""
    if event.source == RecordKind.NOTICE:
        notice = read_notice(event.data)
        if notice is None:
            return []
        return [NoticeMade(step, notice.recipient, event.destination), UnreadChanged(step, notice.recipient)]
    if event.source == RecordKind.MENTION_RING:
        return [FollowersNotified(step, event.destination), FollowersUnread(step, event.destination)]
    return [UnreadChanged(step, event.destination)] if event.source == RecordKind.NOTICE_MARKS else []


def _of_follow(event: Event, step: Step) -> FeedChange | None:
    """The change that an event of a follow means. A new follow is none: the reader made it, or see `RequestEnded`."""
    if event.began and event.before == State.ARCHIVED:
        return FollowReturned(step, event.source, event.destination)
    return AuthorUnfollowed(step, event.source, event.destination) if event.ended else None


def _of_post(event: Event, step: Step) -> FeedChange | None:
    """The change that an event of an outbox means: an edge from an author to a post."""
    author, post = event.source, event.destination
    match event.before, event.state:
        case None, State.NORMAL:
            return PostMade(step, author, post)
        case State.NORMAL, State.REMOVED:
            return PostDeleted(step, author, post)
        case State.NORMAL, _:
            is_archived = event.state == State.ARCHIVED
            return PostEdited(step, author, post, ms_of(event.updated_at), archived=is_archived)
        case _:
            return None  # the author's account was away or comes back: its follows have events, which come later
