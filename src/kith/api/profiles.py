"""/users/{id}: what a user says of themselves, with what the graph knows of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from litestar import Response, get, patch, post, put

from kith.api.answers import Call, LookupRequest, check_lookup
from kith.api.backend import check_own
from kith.api.graphs import PathId, token_header
from kith.api.presenting import read_attributes
from kith.core.errors import Forbidden, UserNotFound
from kith.core.ids import NodeId, parse_id
from kith.graph.edge import Direction, State
from kith.graph.graphs import BLOCKS, FOLLOWS
from kith.graph.store import Listing
from kith.objects.posts import pack_attributes
from kith.objects.profiles import Profile


class ProfileAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """A user. The counts are exact; `avatar` is the id of a media object, `attributes` are the app's own."""

    id: str
    state: str
    private: bool
    following_count: int
    followers_count: int
    name: str
    bio: str
    avatar: str | None
    attributes: dict[str, Any]


class UsersLookedUp(msgspec.Struct, frozen=True):
    """One answer an id."""

    users: list[ProfileAnswer | None]


class ProfileRequest(msgspec.Struct, forbid_unknown_fields=True):
    """All that can be set on a user; what is left out is emptied. `private`: follows need their consent."""

    private: bool = False
    name: str = ""
    bio: str = ""
    avatar: int | str | None = None
    attributes: dict[str, Any] = {}


class ProfileChange(msgspec.Struct, forbid_unknown_fields=True):
    """What to change on a user; what is left out stays."""

    private: bool | None = None
    name: str | None = None
    bio: str | None = None
    avatar: int | str | None = None
    attributes: dict[str, Any] | None = None


@get("/users/{user_id:str}", summary="A user", name="get_user")
async def get_user(call: Call, user_id: PathId) -> ProfileAnswer:
    """Profile, state and exact counts. Ids come from the app, so a user nobody has met yet is simply empty."""
    user, viewer = parse_id(user_id), call.caller.user
    if viewer is not None and viewer != user:
        (row,) = await call.backend.graph.relationships(viewer, [user])
        if row.blocked_by:
            raise Forbidden("this account is not available to you", id=user_id)
    (profile,) = await call.backend.profiles.get_many([user])
    return await _answer(call, user, profile)


@post("/users/lookup", summary="Many users by id", status_code=200, name="lookup_users")
async def lookup_users(call: Call, data: LookupRequest) -> UsersLookedUp:
    """One answer an id, in their order: null where GET would refuse. 100 ids at most."""
    users, viewer = check_lookup(data.ids), call.caller.user
    profiles = await call.backend.profiles.get_many(users)
    answers = await _answers(call, users, profiles)
    if viewer is not None:
        graph = call.backend.graph
        blocked = await graph.store.exists_many(graph.graphs.number(BLOCKS), [(user, viewer) for user in users])
        answers = [None if gone else answer for gone, answer in zip(blocked, answers, strict=True)]
    return UsersLookedUp(answers)


@put("/users/{user_id:str}", summary="Set a user", name="put_user")
async def put_user(call: Call, user_id: PathId, data: ProfileRequest) -> Response[ProfileAnswer]:
    """A user token may set only its own user."""
    profile = Profile(data.name, data.bio, _avatar(data.avatar), pack_attributes(data.attributes))
    return await _set(call, parse_id(user_id), data.private, lambda _: profile)


@patch("/users/{user_id:str}", summary="Change a user", name="patch_user")
async def patch_user(call: Call, user_id: PathId, data: ProfileChange) -> Response[ProfileAnswer]:
    """A user token may change only its own user."""
    asked = {
        "name": data.name,
        "bio": data.bio,
        "avatar": _avatar(data.avatar),
        "attributes": None if data.attributes is None else pack_attributes(data.attributes),
    }
    changes = {name: value for name, value in asked.items() if value is not None}
    return await _set(call, parse_id(user_id), data.private, lambda old: msgspec.structs.replace(old, **changes))


async def _set(call: Call, user: NodeId, private: bool | None, change: Any) -> Response[ProfileAnswer]:
    """The profile first: if it is refused, nothing has changed; if we stop in between, a repetition finishes it."""
    check_own(call.caller, user)
    await _check_there(call, user)
    profile, mark = await call.backend.profiles.change(user, change)
    await call.backend.graph.store.change_node(user, private=private)
    return Response(await _answer(call, user, profile), headers=token_header(call.backend.token(mark)))


async def _answer(call: Call, user: NodeId, profile: Profile) -> ProfileAnswer:
    (answer,) = await _answers(call, [user], [profile])
    if answer is None:
        raise _removed(user)
    return answer


async def _answers(call: Call, users: Sequence[NodeId], profiles: Sequence[Profile]) -> list[ProfileAnswer | None]:
    """Each user with what the graph knows of them; None for a removed account. One batch a kind."""
    graph = call.backend.graph
    number = graph.graphs.number(FOLLOWS)
    listings = [Listing(number, user, direction) for user in users for direction in (Direction.OUT, Direction.IN)]
    counts = await graph.store.count_many(listings)
    nodes = await graph.store.nodes(users)
    return [
        None if node.state == State.REMOVED else ProfileAnswer(
            str(user), node.state.name.lower(), node.private, counts[2 * at], counts[2 * at + 1], profile.name,
            profile.bio, None if profile.avatar is None else str(profile.avatar), read_attributes(profile.attributes),
        )
        for at, (user, node, profile) in enumerate(zip(users, nodes, profiles, strict=True))
    ]  # fmt: skip


async def _check_there(call: Call, user: NodeId) -> None:
    """UserNotFound for a removed account: it is gone for good."""
    (node,) = await call.backend.graph.store.nodes([user])
    if node.state == State.REMOVED:
        raise _removed(user)


def _removed(user: NodeId) -> UserNotFound:
    return UserNotFound("this account was removed", id=str(user))


def _avatar(raw: int | str | None) -> int | None:
    return None if raw is None else parse_id(raw, "avatar")


ROUTES = [get_user, lookup_users, put_user, patch_user]
