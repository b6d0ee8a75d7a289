"""The shape of each kind of change as apps receive it: the state afterwards, not the action.

64-bit values are strings, times are RFC 3339 in UTC. New kinds and fields may be added: ignore those that you do not
know.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import lru_cache

import msgspec

from kith.boards.board import read_board
from kith.core.events import BULK_LOADED, NODE_CHANGED, RECORD_CHANGED, RECORD_FORGOTTEN, Event, changed_node
from kith.core.labels import names_of
from kith.graph.edge import State
from kith.graph.graphs import Graphs
from kith.media.media import read_media
from kith.people.profiles import read_profile
from kith.posts.comment import read_comment
from kith.posts.post import read_post
from kith.records.store import Record, RecordKind


class Change(msgspec.Struct, frozen=True, tag_field="kind", rename="camel", gc=False):
    """A change. `token`: resume from it to receive what follows this change. `at`: when the change was logged."""

    token: str
    at: datetime


class EdgeChanged(Change, tag="edge", frozen=True, gc=False):
    """An edge after the change. `before`: its state before, null if there was no edge."""

    graph: str
    source: str
    destination: str
    state: str
    before: str | None
    position: str
    updated_at: str


class RecordChanged(Change, frozen=True, gc=False):
    """A record after the change. `deleted`: it was deleted, and its content is empty."""

    id: str
    updated_at: str
    deleted: bool


class PostChanged(RecordChanged, tag="post", frozen=True, gc=False):
    """A post, whoever may see it; `visibility`, `audience` and `labels` say who may."""

    author: str
    type: str
    text: str
    link: str | None
    media: list[str]
    visibility: str
    audience: list[str]
    mentions: list[str]
    attributes: msgspec.Raw
    labels: list[str]
    created_at: datetime


class StoryChanged(PostChanged, tag="story", frozen=True, gc=False):
    """A story. It expires `story_hours` after it was made; over an hour later it is deleted, which is sent as
    `RecordForgotten`.
    """


class CommentChanged(RecordChanged, tag="comment", frozen=True, gc=False):
    """A comment on a post, or a reply to another."""

    post: str
    reply_to: str | None
    author: str
    text: str
    created_at: datetime


class ProfileChanged(RecordChanged, tag="profile", frozen=True, gc=False):
    """A user's profile."""

    username: str | None
    display_name: str
    bio: str
    avatar: str | None
    attributes: msgspec.Raw
    is_verified: bool


class MediaChanged(RecordChanged, tag="media", frozen=True, gc=False):
    """A picture or video."""

    owner: str
    type: str
    width: int
    height: int
    alt_text: str


class BoardChanged(RecordChanged, tag="board", frozen=True, gc=False):
    """A board, whoever may see it; `secret`: only its members may."""

    owner: str
    name: str
    secret: bool
    created_at: datetime


class NodeStateChanged(Change, tag="node", frozen=True, gc=False):
    """An account, or another node of edges. `state`: normal, archived (deactivated) or removed."""

    id: str
    state: str
    private: bool
    labels: list[str]


class RecordForgotten(Change, tag="forgotten", frozen=True, gc=False):
    """An expired record was deleted for good. `what`: its kind, such as a story."""

    what: str
    id: str


class RecordUnreadable(Change, tag="unreadable", frozen=True, gc=False):
    """Sent instead of a changed record that cannot be read. `what`: its kind, such as a post."""

    what: str
    id: str


class GraphImported(Change, tag="loaded", frozen=True, gc=False):
    """A whole graph was imported at once, and its `edges` (a number) are not sent one by one: export it.

    Sent to all who watch edges of this graph, whichever nodes they watch.
    """

    graph: str
    edges: int


KINDS = ("edge", "post", "story", "comment", "profile", "media", "board", "node", "forgotten", "loaded")
_KIND_OF: dict[int, str] = {
    RecordKind.POST: "post",
    RecordKind.STORY: "story",
    RecordKind.COMMENT: "comment",
    RecordKind.USER: "profile",
    RecordKind.MEDIA: "media",
    RecordKind.BOARD: "board",
}
_KIND_OF_OTHERS = {NODE_CHANGED: "node", BULK_LOADED: "loaded"}
_STATES, _REMOVED = [state.name.lower() for state in State], int(State.REMOVED)


def kind_of(event: Event) -> str | None:
    """The kind of change that an event becomes; None if it becomes none."""
    if event.state <= _REMOVED:
        return "edge"
    if event.state == RECORD_CHANGED:
        return _KIND_OF.get(event.source)
    if event.state == RECORD_FORGOTTEN:
        return "forgotten" if event.source in _KIND_OF else None
    return _KIND_OF_OTHERS.get(event.state)


def change_from(event: Event, token: str, graphs: Graphs) -> Change:
    """The change that an event becomes. The event must have a kind (`kind_of`)."""
    at = _time(event.logged_ms)
    if event.state <= _REMOVED:
        return EdgeChanged(
            token,
            at,
            graphs.name(event.graph),
            str(event.source),
            str(event.destination),
            _STATES[event.state],
            None if event.before is None else _STATES[event.before],
            str(event.position),
            str(event.updated_at),
        )
    if event.state == NODE_CHANGED:
        state, private, labels = changed_node(event)
        return NodeStateChanged(token, at, str(event.source), _STATES[state], private, names_of(labels))
    if event.state == BULK_LOADED:
        return GraphImported(token, at, graphs.name(event.graph), event.source)
    if event.state == RECORD_FORGOTTEN:
        return RecordForgotten(token, at, _KIND_OF[event.source], str(event.destination))
    record = Record(RecordKind(event.source), event.destination, event.updated_at, event.data)
    try:
        return _CHANGE_MAKERS[record.kind](token, at, record)
    except (msgspec.MsgspecError, ValueError, OverflowError):  # one bad record must not block all others
        return RecordUnreadable(token, at, _KIND_OF[record.kind], str(record.id))


_NODE_FIELDS = ("source", "destination", "id", "author", "owner")


def concerns(change: Change, nodes: frozenset[str]) -> bool:
    """Whether a change is about one of these nodes (an end of the edge, the record, its author or owner), or any."""
    about = nodes_of(change)
    return about is None or not about.isdisjoint(nodes)


def nodes_of(change: Change) -> set[str] | None:
    """The nodes that a change is about, in the sense of `concerns`; None: any node."""
    if isinstance(change, GraphImported):
        return None
    return {getattr(change, name) for name in _NODE_FIELDS if hasattr(change, name)}


def _post(token: str, at: datetime, record: Record) -> Change:
    post = read_post(record)
    tell = StoryChanged if record.kind is RecordKind.STORY else PostChanged
    return tell(
        token,
        at,
        str(post.id),
        str(record.updated_at),
        post.deleted,
        str(post.author),
        post.type,
        post.text,
        post.link,
        _strings(post.media),
        post.visibility,
        _strings(post.audience),
        _strings(post.mentioned),
        msgspec.Raw(post.attributes),
        names_of(post.labels),
        _time(post.created_at),
    )


def _comment(token: str, at: datetime, record: Record) -> Change:
    comment = read_comment(record)
    return CommentChanged(
        token,
        at,
        str(comment.id),
        str(record.updated_at),
        comment.deleted,
        str(comment.post),
        None if comment.reply_to is None else str(comment.reply_to),
        str(comment.author),
        comment.text,
        _time(comment.created_at),
    )


def _profile(token: str, at: datetime, record: Record) -> Change:
    profile = read_profile(record)
    return ProfileChanged(
        token,
        at,
        str(record.id),
        str(record.updated_at),
        False,
        profile.username or None,
        profile.display_name,
        profile.bio,
        None if profile.avatar is None else str(profile.avatar),
        msgspec.Raw(profile.attributes),
        profile.verified,
    )


def _media(token: str, at: datetime, record: Record) -> Change:
    media = read_media(record)
    return MediaChanged(
        token,
        at,
        str(media.id),
        str(record.updated_at),
        media.deleted,
        str(media.owner),
        media.type,
        media.width,
        media.height,
        media.alt_text,
    )


def _board(token: str, at: datetime, record: Record) -> Change:
    board = read_board(record)
    return BoardChanged(
        token,
        at,
        str(record.id),
        str(record.updated_at),
        board.deleted,
        str(board.owner),
        board.name,
        board.secret,
        _time(board.created_at),
    )


_CHANGE_MAKERS: dict[RecordKind, Callable[[str, datetime, Record], Change]] = {
    RecordKind.POST: _post,
    RecordKind.STORY: _post,
    RecordKind.COMMENT: _comment,
    RecordKind.USER: _profile,
    RecordKind.MEDIA: _media,
    RecordKind.BOARD: _board,
}


def _strings(ids: Sequence[int]) -> list[str]:
    return [str(id_) for id_ in ids]


@lru_cache(64)  # events that are committed together have one time
def _time(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)
