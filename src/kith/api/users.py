"""/users: what people do to each other, and the lists of people, with the rules of the product."""

from __future__ import annotations

from typing import Any

import msgspec
from litestar import Request, Response, delete, get, post

from kith.api import operations
from kith.api.answers import Call, JobAnswer, ListAnswer
from kith.api.backend import check_own
from kith.api.graphs import Cursor, Json, Limit, PathId, token_header
from kith.core.ids import NodeId, parse_id
from kith.core.paging import Page
from kith.graph.nodes import Job, NodeOperation
from kith.people.relations import Relationship


class RelationshipsRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Users to compare the acting user with."""

    targets: list[int | str]


class RelationshipAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """How the acting user and a target stand to each other."""

    id: str
    following: bool
    followed_by: bool
    requested: bool
    blocking: bool
    blocked_by: bool
    muting: bool


class RelationshipsAnswer(msgspec.Struct, frozen=True):
    """One row a target, in their order."""

    relationships: list[RelationshipAnswer]


class JobStarted(msgspec.Struct, frozen=True):
    """The job that does it; see /jobs/{id}."""

    job: JobAnswer


async def _relate(call: Call, request: Request[Any, Any, Any], verb: str, user_id: str) -> Response[Any]:
    body, token = await operations.relate(call.backend, call.caller, str(request.method), verb, parse_id(user_id))
    return Response(body, media_type=Json, headers=token_header(token))


@post("/users/{user_id:str}/follow", summary="Follow a user", status_code=200, name="follow")
async def follow(call: Call, request: Request[Any, Any, Any], user_id: PathId) -> Response[operations.Followed]:
    """Repeating it changes nothing. A private account is asked first (`requested`)."""
    return await _relate(call, request, "follow", user_id)


@delete("/users/{user_id:str}/follow", summary="Unfollow a user", status_code=200, name="unfollow")
async def unfollow(call: Call, request: Request[Any, Any, Any], user_id: PathId) -> Response[operations.Followed]:
    """Also takes back a request to follow."""
    return await _relate(call, request, "follow", user_id)


@post("/users/{user_id:str}/block", summary="Block a user", status_code=200, name="block")
async def block(call: Call, request: Request[Any, Any, Any], user_id: PathId) -> Response[operations.Blocked]:
    """Drops follows both ways and forbids new ones."""
    return await _relate(call, request, "block", user_id)


@delete("/users/{user_id:str}/block", summary="Unblock a user", status_code=200, name="unblock")
async def unblock(call: Call, request: Request[Any, Any, Any], user_id: PathId) -> Response[operations.Blocked]:
    """Follows dropped by the block stay dropped."""
    return await _relate(call, request, "block", user_id)


@post("/users/{user_id:str}/mute", summary="Mute a user", status_code=200, name="mute")
async def mute(call: Call, request: Request[Any, Any, Any], user_id: PathId) -> Response[operations.Muted]:
    """Hides them from the acting user only."""
    return await _relate(call, request, "mute", user_id)


@delete("/users/{user_id:str}/mute", summary="Unmute a user", status_code=200, name="unmute")
async def unmute(call: Call, request: Request[Any, Any, Any], user_id: PathId) -> Response[operations.Muted]:
    """The opposite of mute."""
    return await _relate(call, request, "mute", user_id)


@post("/users/{user_id:str}/remove-follower", summary="Remove a follower", status_code=200, name="remove_follower")
async def remove_follower(
    call: Call, request: Request[Any, Any, Any], user_id: PathId
) -> Response[operations.Followed]:
    """The user no longer follows the acting user; they may follow again."""
    return await _relate(call, request, "remove-follower", user_id)


@get("/follow-requests", summary="Who asks to follow me", name="follow_requests")
async def follow_requests(call: Call, limit: Limit = None, cursor: Cursor = None) -> ListAnswer:
    """Newest first."""
    query = f"requests {call.acting}"
    return await _shown(
        call, query, await call.backend.relations.requests(call.acting, call.window(query, limit, cursor))
    )


@post("/follow-requests/{user_id:str}/accept", summary="Accept a request", status_code=200, name="accept")
async def accept(call: Call, user_id: PathId) -> Response[operations.Followed]:
    """The user follows the acting user from now on."""
    written = await call.backend.relations.accept(call.acting, parse_id(user_id))
    token = call.backend.token(written.mark)
    return Response(operations.Followed(True, written.changed, token), headers=token_header(token))


@post("/follow-requests/{user_id:str}/decline", summary="Decline a request", status_code=200, name="decline")
async def decline(call: Call, user_id: PathId) -> Response[operations.Followed]:
    """They may ask again."""
    written = await call.backend.relations.decline(call.acting, parse_id(user_id))
    token = call.backend.token(written.mark)
    return Response(operations.Followed(False, written.changed, token), headers=token_header(token))


@post("/relationships", summary="One user and many targets", status_code=200, name="relationships")
async def relationships(call: Call, data: RelationshipsRequest) -> RelationshipsAnswer:
    """Everything a list of profiles needs for its buttons, in one call."""
    rows = await call.backend.relations.relationships(
        call.acting, [parse_id(target, "targets") for target in data.targets]
    )
    return RelationshipsAnswer([_relationship(row) for row in rows])


def _relationship(row: Relationship) -> RelationshipAnswer:
    return RelationshipAnswer(
        str(row.id), row.following, row.followed_by, row.requested, row.blocking, row.blocked_by, row.muting
    )


async def _visible(call: Call, user: NodeId) -> None:
    """Whether the caller may see the lists of `user`; a server key that names nobody sees all."""
    if call.caller.user is not None:
        await call.backend.privacy.check_may_see(call.caller.user, user)


async def _shown(call: Call, query: str, page: Page) -> ListAnswer:
    if call.caller.user is not None:
        page = await call.backend.privacy.shown_to(call.caller.user, page)
    return call.answer(query, page)


@get("/users/{user_id:str}/following", summary="Whom a user follows", name="following")
async def following(call: Call, user_id: PathId, limit: Limit = None, cursor: Cursor = None) -> ListAnswer:
    """Newest first."""
    user, query = parse_id(user_id), f"following {user_id}"
    await _visible(call, user)
    return await _shown(call, query, await call.backend.relations.following(user, call.window(query, limit, cursor)))


@get("/users/{user_id:str}/followers", summary="Who follows a user", name="followers")
async def followers(call: Call, user_id: PathId, limit: Limit = None, cursor: Cursor = None) -> ListAnswer:
    """Newest first, at the same cost at any depth."""
    user, query = parse_id(user_id), f"followers {user_id}"
    await _visible(call, user)
    return await _shown(call, query, await call.backend.relations.followers(user, call.window(query, limit, cursor)))


@get("/users/{user_id:str}/friends", summary="Who follows and is followed back", name="friends")
async def friends(call: Call, user_id: PathId, limit: Limit = None, cursor: Cursor = None) -> ListAnswer:
    """In the order in which the user followed them, newest first."""
    user, query = parse_id(user_id), f"friends {user_id}"
    await _visible(call, user)
    return await _shown(call, query, await call.backend.relations.friends(user, call.window(query, limit, cursor)))


@get("/users/{user_id:str}/mutuals/{other_id:str}", summary="Whom both follow", name="mutuals")
async def mutuals(
    call: Call, user_id: PathId, other_id: PathId, limit: Limit = None, cursor: Cursor = None
) -> ListAnswer:
    """In the order in which the first followed them, newest first."""
    user, other, query = parse_id(user_id), parse_id(other_id), f"mutuals {user_id} {other_id}"
    await _visible(call, user)
    await _visible(call, other)
    return await _shown(
        call, query, await call.backend.relations.mutuals(user, other, call.window(query, limit, cursor))
    )


@get("/users/{user_id:str}/followers-you-know", summary="Their followers whom I follow", name="followers_you_know")
async def followers_you_know(call: Call, user_id: PathId, limit: Limit = None, cursor: Cursor = None) -> ListAnswer:
    """In the order in which the acting user followed them, newest first."""
    user, viewer = parse_id(user_id), call.acting
    query = f"followers-you-know {viewer} {user_id}"
    await _visible(call, user)
    page = await call.backend.relations.followers_you_know(viewer, user, call.window(query, limit, cursor))
    return await _shown(call, query, page)


@post("/users/{user_id:str}/deactivate", summary="Archive all edges of a user", status_code=202, name="deactivate")
async def deactivate(call: Call, user_id: PathId) -> JobStarted:
    """Their lists empty in the background; an edge comes back when both ends are active again."""
    return await _start(call, NodeOperation.ARCHIVE, user_id)


@post("/users/{user_id:str}/reactivate", summary="Restore all edges of a user", status_code=202, name="reactivate")
async def reactivate(call: Call, user_id: PathId) -> JobStarted:
    """The opposite of deactivate, each edge at its old place."""
    return await _start(call, NodeOperation.RESTORE, user_id)


@delete("/users/{user_id:str}", summary="Remove all edges of a user", status_code=202, name="delete_user")
async def delete_user(call: Call, user_id: PathId) -> JobStarted:
    """For good; the user no longer exists, and what they said of themselves is forgotten."""
    user = parse_id(user_id)
    check_own(call.caller, user)
    started = await _start(call, NodeOperation.REMOVE, user_id)
    await call.backend.profiles.forget(user)  # once nobody can set it any more
    return started


@get("/jobs/{job_id:str}", summary="How far a job has come", name="get_job")
async def get_job(call: Call, job_id: str) -> JobAnswer:
    """Kept for a day after it is done. Server keys, or the user it is about."""
    job = await call.backend.jobs.get(job_id)
    check_own(call.caller, NodeId(job.node))
    return _job(job)


async def _start(call: Call, operation: NodeOperation, user_id: str) -> JobStarted:
    user = parse_id(user_id)
    check_own(call.caller, user)
    return JobStarted(_job(await call.backend.jobs.start(operation, user)))


def _job(job: Job) -> JobAnswer:
    return JobAnswer(job.id, job.operation.value, str(job.node), job.edges, job.done)


ROUTES = [
    follow, unfollow, block, unblock, mute, unmute, remove_follower, follow_requests, accept, decline, relationships,
    following, followers, friends, mutuals, followers_you_know, deactivate, reactivate,
    delete_user, get_job,
]  # fmt: skip
