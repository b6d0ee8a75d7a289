"""Calls about the graph and the relations of users. Each function turns its arguments into a `Call` or a plan of calls.

Nothing is sent here. Ids and graph names are checked before they become part of a path. Lists take `page_size` (1 to
1,000 items a request) and the `cursor` of an earlier page. Input longer than a batch is sent in several requests, in
order. If one fails, the earlier ones stay applied, and sending all again is safe.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable
from datetime import datetime
from typing import Any

import msgspec

from kith.client.answers import (
    Block,
    Changed,
    Edge,
    EdgeWrite,
    Follow,
    Id,
    ListedEdge,
    ListedNode,
    Mute,
    Page,
    Relationship,
    Sort,
    State,
    Written,
)
from kith.client.asking import BASE, PAGE_SIZE, batches, checked_id, listed, listed_by_name, reader, user_path
from kith.client.programs import Program
from kith.client.wire import Call, unreadable
from kith.core.errors import BadRequest

_GRAPH = re.compile(r"[a-z][a-z0-9_]{0,31}")


class _Exists(msgspec.Struct):
    exists: bool


class _ExistsMany(msgspec.Struct):
    exists: list[bool]


class _Count(msgspec.Struct):
    count: int


class _Relationships(msgspec.Struct):
    relationships: list[Relationship]


_exists = reader(_Exists)
_exists_many = reader(_ExistsMany)
_count = reader(_Count)
_relationships = reader(_Relationships)
_edge = reader(Edge)
_edges = reader(Page[ListedEdge])
_nodes = reader(Page[ListedNode])
_written = reader(Written)
_changed = reader(Changed)
_follow = reader(Follow)
_block = reader(Block)
_mute = reader(Mute)


# --- the graph


def exists(graph: str, source: Id, destination: Id) -> Call[bool]:
    """Whether the edge exists in state normal."""
    path = f"{_graph(graph)}/{checked_id(source, 'source')}/{checked_id(destination, 'destination')}"
    return Call("GET", path, lambda content: _exists(content).exists)


def exists_many(graph: str, pairs: Iterable[tuple[Id, Id]]) -> Generator[Call[Any], Any, list[bool]]:
    """Whether each edge (source, destination) exists, in the order of `pairs`. Any number of pairs."""
    flags: list[bool] = []
    path = f"{_graph(graph)}/check"
    for batch in batches(pairs, "pairs"):
        answer = yield from Call("POST", path, _exists_many, body={"pairs": batch})
        if len(answer.exists) != len(batch):
            raise unreadable(f"POST {path}: {len(answer.exists)} answers to {len(batch)} pairs")
        flags += answer.exists
    return flags


def write_edges(graph: str, edges: Iterable[EdgeWrite]) -> Generator[Call[Any], Any, Written]:
    """Write edges durably, in batches. The iterable is read while sending, so it may have any length."""
    path = f"{_graph(graph)}/edges"
    applied, token = 0, None
    for batch in batches(edges, "edges"):
        answer = yield from Call("POST", path, _written, body={"edges": batch})
        applied, token = applied + answer.applied, answer.token or token
    return Written(applied=applied, token=token)


def edge(graph: str, source: Id, destination: Id) -> Call[Edge]:
    """The stored edge in any state; ApiError 404 if there never was one."""
    path = f"{_graph(graph)}/{checked_id(source, 'source')}/{checked_id(destination, 'destination')}/edge"
    return Call("GET", path, _edge)


def edges_out(
    graph: str,
    node: Id,
    *,
    state: State = "normal",
    since: int | None = None,
    until: int | None = None,
    page_size: int = PAGE_SIZE,
    cursor: str | None = None,
) -> Call[Page[ListedEdge]]:
    """The edges from `node`, newest first. `since` (inclusive) and `until` (exclusive) bound their positions."""
    call = listed(f"{_graph(graph)}/{checked_id(node, 'node')}/out", _edges, page_size, cursor)
    return call.asking(state=state, since=since, until=until)


def edges_in(
    graph: str,
    node: Id,
    *,
    state: State = "normal",
    since: int | None = None,
    until: int | None = None,
    page_size: int = PAGE_SIZE,
    cursor: str | None = None,
) -> Call[Page[ListedEdge]]:
    """The edges to `node`, newest first. `since` (inclusive) and `until` (exclusive) bound their positions."""
    call = listed(f"{_graph(graph)}/{checked_id(node, 'node')}/in", _edges, page_size, cursor)
    return call.asking(state=state, since=since, until=until)


def count_out(graph: str, node: Id, *, state: State = "normal") -> Call[int]:
    """The exact number of edges from `node`."""
    return Call("GET", f"{_graph(graph)}/{checked_id(node, 'node')}/out/count", _counted, {"state": state})


def count_in(graph: str, node: Id, *, state: State = "normal") -> Call[int]:
    """The exact number of edges to `node`."""
    return Call("GET", f"{_graph(graph)}/{checked_id(node, 'node')}/in/count", _counted, {"state": state})


def select(program: Program, *, page_size: int = PAGE_SIZE, cursor: str | None = None) -> Call[Page[ListedNode]]:
    """The nodes in the result of a set program (see `out` and `in_`)."""
    call = Call("POST", f"{BASE}/graph/select", _nodes, body={"program": program.wire()})
    return call.asking(limit=page_size, cursor=cursor)


def select_count(program: Program) -> Call[int]:
    """The number of nodes in the result of a set program."""
    return Call("POST", f"{BASE}/graph/select/count", _counted, body={"program": program.wire()})


# --- the acting user's relations


def follow(user: Id, *, expires_at: datetime | None = None) -> Call[Follow]:
    """Follow `user`, or send a follow request if the account is private (`requested`).

    `expires_at`: when the follow ends, with a time zone; None: it does not end.
    """
    body = None if expires_at is None else {"expiresAt": expires_at}
    return Call("POST", f"{user_path(user)}/follow", _follow, body=body)


def unfollow(user: Id) -> Call[Follow]:
    """Unfollow `user`, or withdraw the follow request."""
    return Call("DELETE", f"{user_path(user)}/follow", _follow)


def block(user: Id) -> Call[Block]:
    """Block `user`: follows between the two end, in both directions, and neither can follow the other."""
    return Call("POST", f"{user_path(user)}/block", _block)


def unblock(user: Id) -> Call[Block]:
    """Undo `block`. The follows that it ended stay ended."""
    return Call("DELETE", f"{user_path(user)}/block", _block)


def mute(user: Id) -> Call[Mute]:
    """Mute `user`, who is not notified."""
    return Call("POST", f"{user_path(user)}/mute", _mute)


def unmute(user: Id) -> Call[Mute]:
    """Undo `mute`."""
    return Call("DELETE", f"{user_path(user)}/mute", _mute)


def remove_follower(user: Id) -> Call[Changed]:
    """End `user`'s follow of the acting user."""
    return Call("POST", f"{user_path(user)}/remove-follower", _changed)


def follow_requests(*, page_size: int = PAGE_SIZE, cursor: str | None = None) -> Call[Page[ListedEdge]]:
    """The users with a pending request to follow the acting user, newest request first."""
    return listed(f"{BASE}/follow-requests", _edges, page_size, cursor)


def accept_follow_request(user: Id) -> Call[Changed]:
    """Accept the follow request of `user`, who then follows the acting user."""
    return Call("POST", f"{BASE}/follow-requests/{checked_id(user, 'user')}/accept", _changed)


def decline_follow_request(user: Id) -> Call[Changed]:
    """Decline the follow request of `user`, who may ask again."""
    return Call("POST", f"{BASE}/follow-requests/{checked_id(user, 'user')}/decline", _changed)


def relationships(targets: Iterable[Id]) -> Generator[Call[Any], Any, list[Relationship]]:
    """How the acting user and each target are related, in the order of `targets`. Any number of targets."""
    rows: list[Relationship] = []
    for batch in batches(targets, "targets"):
        call = Call("POST", f"{BASE}/relationships", _relationships, body={"targets": batch})
        rows += (yield from call).relationships
    return rows


def followers_you_know(user: Id, *, page_size: int = PAGE_SIZE, cursor: str | None = None) -> Call[Page[ListedNode]]:
    """The followers of `user` whom the acting user follows."""
    return listed(f"{user_path(user)}/followers-you-know", _nodes, page_size, cursor)


# --- anyone's lists


def following(
    user: Id,
    *,
    sort: Sort | None = None,
    q: str | None = None,
    page_size: int = PAGE_SIZE,
    cursor: str | None = None,
) -> Call[Page[ListedEdge]]:
    """The users whom `user` follows, newest follow first.

    `sort="name"`: in the order of names. `q`: only users whose name begins with it, in the order of names.
    """
    return listed_by_name(f"{user_path(user)}/following", _edges, page_size, cursor, sort, q)


def followers(
    user: Id,
    *,
    sort: Sort | None = None,
    q: str | None = None,
    page_size: int = PAGE_SIZE,
    cursor: str | None = None,
) -> Call[Page[ListedEdge]]:
    """The followers of `user`, newest follow first; `sort` and `q` as in `following`."""
    return listed_by_name(f"{user_path(user)}/followers", _edges, page_size, cursor, sort, q)


def friends(
    user: Id,
    *,
    sort: Sort | None = None,
    q: str | None = None,
    page_size: int = PAGE_SIZE,
    cursor: str | None = None,
) -> Call[Page[ListedNode]]:
    """The users whom `user` follows and who follow back; `sort` and `q` as in `following`."""
    return listed_by_name(f"{user_path(user)}/friends", _nodes, page_size, cursor, sort, q)


def mutuals(user: Id, other: Id, *, page_size: int = PAGE_SIZE, cursor: str | None = None) -> Call[Page[ListedNode]]:
    """The users whom both `user` and `other` follow."""
    return listed(f"{user_path(user)}/mutuals/{checked_id(other, 'other')}", _nodes, page_size, cursor)


def _graph(graph: str) -> str:
    if not _GRAPH.fullmatch(graph):
        raise BadRequest(f"{graph!r} cannot be a graph's name: use 1 to 32 of a-z, 0-9 and _", graph=graph)
    return f"{BASE}/graph/{graph}"


def _counted(content: bytes) -> int:
    return _count(content).count
