"""/users/{id}: what a user says of themselves, with what the graph knows of them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import msgspec
from litestar import Response, get, patch, post, put
from litestar.params import Parameter
from msgspec import UNSET, UnsetType

from kith.api.answers import Call, LookupRequest, check_lookup
from kith.api.backend import check_own
from kith.api.graphs import PathId, token_header
from kith.api.media import avatar_url
from kith.api.presenting import read_attributes, shown_labels
from kith.core.errors import Forbidden, UserNotFound
from kith.core.events import user_changed
from kith.core.ids import NodeId, parse_id
from kith.core.labels import HIDE
from kith.graph.edge import Direction, State
from kith.graph.graphs import FOLLOWS
from kith.graph.store import Listing, Node
from kith.people.profiles import Profile
from kith.records.fields import pack_attributes

Username = Annotated[str, Parameter(description="In any spelling.")]


class ProfileAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """A user. The counts are exact; `avatar` is the id of an image of theirs, `attributes` are the app's own. `labels`:
    of the app's moderation, `sensitive` for everybody, `hide` and `limit` for the user.
    """

    id: str
    state: str
    private: bool
    following_count: int
    followers_count: int
    username: str | None
    display_name: str
    bio: str
    avatar: str | None
    avatar_url: str | None
    is_verified: bool
    attributes: dict[str, Any]
    labels: list[str]


class UsersLookedUp(msgspec.Struct, frozen=True):
    """One answer an id."""

    users: list[ProfileAnswer | None]


class ProfileRequest(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """All that can be set on a user; what is left out is emptied. `private`: follows need their consent.

    `username`: nobody else has it, in any spelling. `isVerified`: takes a server key; left out, it stays.
    """

    private: bool = False
    username: str = ""
    display_name: str = ""
    bio: str = ""
    avatar: int | str | None = None
    attributes: dict[str, Any] = {}
    is_verified: bool | None = None


class ProfileChange(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """What to change on a user; what is left out stays, null takes the avatar away. A `username` of "" gives it up."""

    private: bool | UnsetType = UNSET
    username: str | UnsetType = UNSET
    display_name: str | UnsetType = UNSET
    bio: str | UnsetType = UNSET
    avatar: int | str | UnsetType | None = UNSET
    attributes: dict[str, Any] | UnsetType = UNSET
    is_verified: bool | UnsetType = UNSET


@get("/users/{user_id:str}", summary="A user", name="get_user")
async def get_user(call: Call, user_id: PathId) -> ProfileAnswer:
    """Profile, state and exact counts. Ids come from the app, so a user nobody has met yet is simply empty."""
    return await _seen(call, parse_id(user_id))


@get("/users/by-username/{username:str}", summary="The user of this name", name="user_by_username")
async def user_by_username(call: Call, username: Username) -> ProfileAnswer:
    """In any spelling: `Ann` and `ann` are one name. 404 as well for whom the acting user may not see."""
    user = await call.backend.profiles.named(username)
    with contextlib.suppress(UserNotFound, Forbidden):  # which tell that there is somebody, and who
        if user is not None:
            return await _seen(call, user)
    raise UserNotFound("no user has this name, or they are not there for you", username=username)


@post("/users/lookup", summary="Many users by id", status_code=200, name="lookup_users")
async def lookup_users(call: Call, data: LookupRequest) -> UsersLookedUp:
    """One answer an id, in their order: null where GET would refuse. 100 ids at most."""
    users, viewer = check_lookup(data.ids), call.caller.user
    profiles = await call.backend.profiles.get_many(users)
    answers = await _answers(call, viewer, users, profiles)
    if viewer is not None:
        blocked = await call.backend.privacy.bars([(user, viewer) for user in users])
        answers = [None if gone else answer for gone, answer in zip(blocked, answers, strict=True)]
    return UsersLookedUp(answers)


@put("/users/{user_id:str}", summary="Set a user", name="put_user")
async def put_user(call: Call, user_id: PathId, data: ProfileRequest) -> Response[ProfileAnswer]:
    """A user token may set only its own user."""
    profile = Profile(
        data.display_name, data.bio, _avatar(data.avatar), pack_attributes(data.attributes), data.username
    )

    def replaced(old: Profile) -> Profile:
        verified = old.verified if data.is_verified is None else data.is_verified
        return msgspec.structs.replace(profile, verified=verified)

    return await _set(call, parse_id(user_id), data, replaced)


@patch("/users/{user_id:str}", summary="Change a user", name="patch_user")
async def patch_user(call: Call, user_id: PathId, data: ProfileChange) -> Response[ProfileAnswer]:
    """A user token may change only its own user."""
    asked = {
        "username": data.username,
        "display_name": data.display_name,
        "bio": data.bio,
        "avatar": UNSET if data.avatar is UNSET else _avatar(data.avatar),
        "attributes": UNSET if data.attributes is UNSET else pack_attributes(data.attributes),
        "verified": data.is_verified,
    }
    changes = {name: value for name, value in asked.items() if value is not UNSET}
    return await _set(call, parse_id(user_id), data, lambda old: msgspec.structs.replace(old, **changes))


async def _seen(call: Call, user: NodeId) -> ProfileAnswer:
    viewer = call.caller.user
    if viewer is not None and viewer != user:
        await _check_there(call, viewer, user)
        (row,) = await call.backend.relations.relationships(viewer, [user])
        if row.blocked_by:
            raise Forbidden("this account is not available to you", id=str(user))
    (profile,) = await call.backend.profiles.get_many([user])
    return await _answer(call, viewer, user, profile)


async def _set(
    call: Call, user: NodeId, data: ProfileRequest | ProfileChange, change: Callable[[Profile], Profile]
) -> Response[ProfileAnswer]:
    """The profile first: if it is refused, nothing has changed; if we stop in between, a repetition finishes it."""
    check_own(call.caller, user)
    if data.is_verified not in (None, UNSET) and not call.caller.server:
        raise Forbidden("isVerified is the app's to say: leave it out, or use a server key")
    await _check_there(call, user, user)
    profile, mark = await call.backend.profiles.change(user, change)
    private, graph = None if data.private is UNSET else data.private, call.backend.graph
    node = await graph.store.change_node(user, private=private, tell=user_changed(user, graph.clock.next()))
    if node.state == State.REMOVED:  # while this was written; what came before, the removal forgets
        await call.backend.profiles.forget(user)
        raise _not_there(user)
    return Response(await _answer(call, user, user, profile), headers=token_header(call.backend.token(mark)))


async def _answer(call: Call, viewer: NodeId | None, user: NodeId, profile: Profile) -> ProfileAnswer:
    (answer,) = await _answers(call, viewer, [user], [profile])
    if answer is None:
        raise _not_there(user)
    return answer


async def _answers(
    call: Call, viewer: NodeId | None, users: Sequence[NodeId], profiles: Sequence[Profile]
) -> list[ProfileAnswer | None]:
    """Each user with what the graph knows of them; None for one that is not there for `viewer`. One batch a kind."""
    graph = call.backend.graph
    number = graph.graphs.number(FOLLOWS)
    listings = [Listing(number, user, direction) for user in users for direction in (Direction.OUT, Direction.IN)]
    counts = await graph.store.count_many(listings)
    nodes = await graph.store.nodes(users)
    avatars = [profile.avatar for profile in profiles if profile.avatar is not None]
    media, base_url = await call.backend.media.get_many(avatars), call.backend.media_base_url
    return [
        None if _gone(node, viewer, user) else ProfileAnswer(
            str(user), node.state.name.lower(), node.private, counts[2 * at], counts[2 * at + 1],
            profile.username or None, profile.display_name, profile.bio,
            str(profile.avatar) if profile.avatar in media else None, avatar_url(profile.avatar, media, base_url),
            profile.verified, read_attributes(profile.attributes), shown_labels(node.labels, viewer, user),
        )
        for at, (user, node, profile) in enumerate(zip(users, nodes, profiles, strict=True))
    ]  # fmt: skip


def _gone(node: Node, viewer: int | None, user: int) -> bool:
    """Whether an account is not there for a viewer: removed, or hidden by the app."""
    return node.state == State.REMOVED or bool(node.labels & HIDE and viewer not in (None, user))


async def _check_there(call: Call, viewer: NodeId | None, user: NodeId) -> None:
    """UserNotFound for an account that is not there for `viewer`; a removed one is gone for good."""
    (node,) = await call.backend.graph.store.nodes([user])
    if _gone(node, viewer, user):
        raise _not_there(user)


def _not_there(user: NodeId) -> UserNotFound:
    return UserNotFound("there is no such account, or it is not there for you", id=str(user))


def _avatar(raw: int | str | None) -> int | None:
    return None if raw is None else parse_id(raw, "avatar")


ROUTES = [get_user, user_by_username, lookup_users, put_user, patch_user]
