"""The calls about the graph and users: arguments in, a `Call` or a plan of calls out. Nothing is sent here.

Ids and graph names are checked before they become part of a path. Lists take `page_size` (1 to 1,000 items
a request) and the `cursor` of an earlier page. Input longer than a batch is sent in several requests, in
order; if one fails those before it stay applied, and sending all again is safe.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec

from kith.client.answers import (
    Block,
    Changed,
    Edge,
    EdgeWrite,
    Follow,
    Id,
    Job,
    ListedEdge,
    ListedNode,
    Mute,
    Page,
    Profile,
    Relationship,
    State,
    Written,
)
from kith.client.programs import Program
from kith.client.wire import Call, unreadable
from kith.core.errors import BadRequest
from kith.core.ids import parse_id

BATCH_MAX = 1000  # the contract's, for one request
PAGE_SIZE = 100
BASE = "/api/v1"
_GRAPH = re.compile(r"[a-z][a-z0-9_]{0,31}")
_JOB_ID = re.compile(r"[A-Za-z0-9_-]+")

T = TypeVar("T")


class _Exists(msgspec.Struct):
    exists: bool


class _ExistsMany(msgspec.Struct):
    exists: list[bool]


class _Count(msgspec.Struct):
    count: int


class _Relationships(msgspec.Struct):
    relationships: list[Relationship]


class _JobStarted(msgspec.Struct):
    job: Job


def reader(kind: type[T]) -> Callable[[bytes], T]:
    """Reads an answer of this shape."""
    return msgspec.json.Decoder(kind, strict=False).decode  # not strict: "12" is an int


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
_job = reader(Job)
_job_started = reader(_JobStarted)
_profile = reader(Profile)


# --- the graph


def exists(graph: str, source: Id, destination: Id) -> Call[bool]:
    """Whether the edge exists, in state normal."""
    path = f"{_graph(graph)}/{checked_id(source, 'source')}/{checked_id(destination, 'destination')}"
    return Call("GET", path, lambda content: _exists(content).exists)


def exists_many(graph: str, pairs: Iterable[tuple[Id, Id]]) -> Generator[Call[Any], Any, list[bool]]:
    """For each (source, destination), in order: whether the edge exists. Any number of pairs."""
    found: list[bool] = []
    path = f"{_graph(graph)}/check"
    for batch in batches(pairs):
        answer = yield from Call("POST", path, _exists_many, body={"pairs": batch})
        if len(answer.exists) != len(batch):
            raise unreadable(f"POST {path}: {len(answer.exists)} answers to {len(batch)} pairs")
        found += answer.exists
    return found


def write_edges(graph: str, edges: Iterable[EdgeWrite]) -> Generator[Call[Any], Any, Written]:
    """Write edges, durably, in batches; the iterable is read as it is sent, so any length will do."""
    path = f"{_graph(graph)}/edges"
    applied, token = 0, None
    for batch in batches(edges):
        answer = yield from Call("POST", path, _written, body={"edges": batch})
        applied, token = applied + answer.applied, answer.token or token
    return Written(applied=applied, token=token)


def edge(graph: str, source: Id, destination: Id) -> Call[Edge]:
    """The stored edge, in any state; ApiError 404 if there never was one."""
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
    """Whom `node` points to, newest first. `since` (inclusive) and `until` (exclusive): only positions between them."""
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
    """Who points to `node`, newest first. `since` (inclusive) and `until` (exclusive): only positions between them."""
    call = listed(f"{_graph(graph)}/{checked_id(node, 'node')}/in", _edges, page_size, cursor)
    return call.asking(state=state, since=since, until=until)


def count_out(graph: str, node: Id, *, state: State = "normal") -> Call[int]:
    """How many `node` points to; exact."""
    return Call("GET", f"{_graph(graph)}/{checked_id(node, 'node')}/out/count", _counted, {"state": state})


def count_in(graph: str, node: Id, *, state: State = "normal") -> Call[int]:
    """How many point to `node`; exact."""
    return Call("GET", f"{_graph(graph)}/{checked_id(node, 'node')}/in/count", _counted, {"state": state})


def select(program: Program, *, page_size: int = PAGE_SIZE, cursor: str | None = None) -> Call[Page[ListedNode]]:
    """The nodes that a set program yields (see `out` and `in_`)."""
    call = Call("POST", f"{BASE}/graph/select", _nodes, body={"program": program.wire()})
    return call.asking(limit=page_size, cursor=cursor)


def select_count(program: Program) -> Call[int]:
    """How many nodes a set program yields."""
    return Call("POST", f"{BASE}/graph/select/count", _counted, body={"program": program.wire()})


# --- the acting user's relations


def follow(user: Id) -> Call[Follow]:
    """Follow `user`; a private account is asked instead (`requested`)."""
    return Call("POST", f"{user_path(user)}/follow", _follow)


def unfollow(user: Id) -> Call[Follow]:
    """No longer follow `user`."""
    return Call("DELETE", f"{user_path(user)}/follow", _follow)


def block(user: Id) -> Call[Block]:
    """Block `user`: follows both ways end, and none can begin."""
    return Call("POST", f"{user_path(user)}/block", _block)


def unblock(user: Id) -> Call[Block]:
    """Let `user` follow again; follows that the block ended stay ended."""
    return Call("DELETE", f"{user_path(user)}/block", _block)


def mute(user: Id) -> Call[Mute]:
    """Mute `user`, who does not learn of it."""
    return Call("POST", f"{user_path(user)}/mute", _mute)


def unmute(user: Id) -> Call[Mute]:
    """No longer mute `user`."""
    return Call("DELETE", f"{user_path(user)}/mute", _mute)


def remove_follower(user: Id) -> Call[Changed]:
    """End `user`'s follow of the acting user."""
    return Call("POST", f"{user_path(user)}/remove-follower", _changed)


def follow_requests(*, page_size: int = PAGE_SIZE, cursor: str | None = None) -> Call[Page[ListedEdge]]:
    """Who asks to follow the acting user, newest first."""
    return listed(f"{BASE}/follow-requests", _edges, page_size, cursor)


def accept_follow_request(user: Id) -> Call[Changed]:
    """Let `user`, who asked, follow the acting user."""
    return Call("POST", f"{BASE}/follow-requests/{checked_id(user, 'user')}/accept", _changed)


def decline_follow_request(user: Id) -> Call[Changed]:
    """Turn down `user`'s request."""
    return Call("POST", f"{BASE}/follow-requests/{checked_id(user, 'user')}/decline", _changed)


def relationships(targets: Iterable[Id]) -> Generator[Call[Any], Any, list[Relationship]]:
    """What holds between the acting user and each target. Any number of targets."""
    found: list[Relationship] = []
    for batch in batches(targets):
        call = Call("POST", f"{BASE}/relationships", _relationships, body={"targets": batch})
        found += (yield from call).relationships
    return found


def followers_you_know(user: Id, *, page_size: int = PAGE_SIZE, cursor: str | None = None) -> Call[Page[ListedNode]]:
    """Whom the acting user follows and who follow `user`."""
    return listed(f"{user_path(user)}/followers-you-know", _nodes, page_size, cursor)


# --- anyone's lists


def following(user: Id, *, page_size: int = PAGE_SIZE, cursor: str | None = None) -> Call[Page[ListedEdge]]:
    """Whom `user` follows, newest first."""
    return listed(f"{user_path(user)}/following", _edges, page_size, cursor)


def followers(user: Id, *, page_size: int = PAGE_SIZE, cursor: str | None = None) -> Call[Page[ListedEdge]]:
    """Who follows `user`, newest first."""
    return listed(f"{user_path(user)}/followers", _edges, page_size, cursor)


def friends(user: Id, *, page_size: int = PAGE_SIZE, cursor: str | None = None) -> Call[Page[ListedNode]]:
    """Whom `user` follows and who follow back."""
    return listed(f"{user_path(user)}/friends", _nodes, page_size, cursor)


def mutuals(user: Id, other: Id, *, page_size: int = PAGE_SIZE, cursor: str | None = None) -> Call[Page[ListedNode]]:
    """Whom both `user` and `other` follow."""
    return listed(f"{user_path(user)}/mutuals/{checked_id(other, 'other')}", _nodes, page_size, cursor)


# --- users


def user(user: Id) -> Call[Profile]:
    """The profile of `user`; ApiError 404 if there is none."""
    return Call("GET", user_path(user), _profile)


def user_by_username(username: str) -> Call[Profile]:
    """The profile of the user of this name, in any spelling; ApiError 404 if there is none."""
    return Call("GET", f"{BASE}/users/by-username/{quote(username, safe='')}", _profile)


def put_user(
    user: Id,
    *,
    private: bool = False,
    username: str = "",
    display_name: str = "",
    bio: str = "",
    attributes: dict[str, Any] | None = None,
    is_verified: bool | None = None,
) -> Call[Profile]:
    """Create `user`, or set the whole profile: what is left out is emptied, but for `is_verified`, which stays.

    `username`: ApiError 409 `USERNAME_TAKEN` if another user has it. `attributes`: your own, JSON of 4 KB.
    """
    body: dict[str, Any] = {"private": private, "username": username, "displayName": display_name, "bio": bio}
    if is_verified is not None:
        body["isVerified"] = is_verified
    return Call("PUT", user_path(user), _profile, body={**body, "attributes": attributes or {}})


def patch_user(
    user: Id,
    *,
    private: bool | None = None,
    username: str | None = None,
    display_name: str | None = None,
    bio: str | None = None,
    attributes: dict[str, Any] | None = None,
    is_verified: bool | None = None,
) -> Call[Profile]:
    """Change what is given of the profile, and nothing else; a `username` of "" is given up."""
    given = {
        "private": private, "username": username, "displayName": display_name, "bio": bio, "attributes": attributes,
        "isVerified": is_verified,
    }  # fmt: skip
    changes = {key: value for key, value in given.items() if value is not None}
    return Call("PATCH", user_path(user), _profile, body=changes)


def deactivate_user(user: Id) -> Call[Job]:
    """Archive all edges of `user`."""
    return Call("POST", f"{user_path(user)}/deactivate", _started)


def reactivate_user(user: Id) -> Call[Job]:
    """Restore all edges of `user`; one whose other end is still deactivated stays archived."""
    return Call("POST", f"{user_path(user)}/reactivate", _started)


def delete_user(user: Id) -> Call[Job]:
    """Remove all edges of `user`, for good."""
    return Call("DELETE", user_path(user), _started)


def job(job_id: str) -> Call[Job]:
    """How far a job has come; ApiError 404 a day after it is done."""
    if not _JOB_ID.fullmatch(job_id):
        raise BadRequest(f"{job_id!r} cannot be the id of a job", id=job_id)
    return Call("GET", f"{BASE}/jobs/{job_id}", _job)


# --- operations


def is_alive() -> Call[bool]:
    """Whether the process answers and calls itself healthy; Unreachable if none answers."""
    return Call("GET", "/healthz", lambda _: True, on_503=False)


def is_ready() -> Call[bool]:
    """Whether the service can serve now. A no is an answer, so it is not retried."""
    return Call("GET", "/readyz", lambda _: True, on_503=False)


def _graph(graph: str) -> str:
    if not _GRAPH.fullmatch(graph):
        raise BadRequest(f"{graph!r} cannot be a graph's name: use 1 to 32 of a-z, 0-9 and _", graph=graph)
    return f"{BASE}/graph/{graph}"


def checked_id(raw: Id, field: str) -> str:
    """An id as it may stand in a request; BadId names the field."""
    return str(parse_id(raw, field))


def user_path(user: Id) -> str:
    """Where a user is."""
    return f"{BASE}/users/{checked_id(user, 'user')}"


def listed(path: str, parse: Callable[[bytes], Page[T]], page_size: int, cursor: str | None) -> Call[Page[T]]:
    """The call for a page of a list."""
    return Call("GET", path, parse).asking(limit=page_size, cursor=cursor)


def _counted(content: bytes) -> int:
    return _count(content).count


def _started(content: bytes) -> Job:
    return _job_started(content).job


def batches(items: Iterable[T], size: int = BATCH_MAX) -> Iterator[list[T]]:
    """The items, `size` at a time, read as they are needed."""
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch
