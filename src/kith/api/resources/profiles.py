"""/users/{id}: a user's profile, with their state and counts from the graph."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from kith.access.policy import check_own
from kith.api.answers import LookupRequest, check_lookup
from kith.api.call import Call
from kith.api.operations import get, patch, post_query, put
from kith.api.parameters import Id
from kith.api.presenter import Presenter, read_attributes, shown_labels
from kith.core.errors import Forbidden, UserNotFound
from kith.core.gathering import gather
from kith.core.ids import NodeId, parse_id
from kith.graph.edge import Direction
from kith.graph.graph import Graph
from kith.graph.graphs import AUTHORED, FOLLOWS
from kith.graph.questions import Questions
from kith.graph.shapes import Node
from kith.media.library import MediaLibrary
from kith.media.media import Media
from kith.people.privacy import SYSTEM, Privacy, Viewer, is_visible_account
from kith.people.privacy_switch import PrivacySwitch
from kith.people.profiles import Profile, Profiles
from kith.people.unrestricted import UnrestrictedPeople
from kith.records.cache_tables import CachedValues
from kith.records.fields import pack_attributes
from kith.records.store import RecordKind

USERS_MAX = 20_000
"""How many encoded profiles a process caches, 0.7 KB each."""
_encode = msgspec.json.Encoder().encode
Username = Annotated[str, Meta(description="A username; spelling does not matter.")]


class ProfileAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """A user. The counts are exact; `postCount` counts all posts, whoever may see them. `avatar` is the id of an image
    that the user uploaded. `attributes` are your app's own. `labels` come from the app's moderation: everyone sees
    `sensitive`, only the user sees `hide` and `limit`.
    """

    id: str
    state: str
    private: bool
    following_count: int
    followers_count: int
    post_count: int
    username: str | None
    display_name: str
    bio: str
    avatar: str | None
    avatar_url: str | None
    is_verified: bool
    attributes: dict[str, Any]
    labels: list[str]


class UsersLookedUp(msgspec.Struct, frozen=True):
    """One answer per id, in the order of the request."""

    users: list[ProfileAnswer | None]


class ProfileRequest(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """The fields to set on a user. Fields that are left out keep their value; null clears a field. `private`: the user
    must accept each follow request. When a private account becomes public, pending requests become follows.

    `username` is unique, whatever its spelling; null or "" releases it. `isVerified` needs a server key.
    """

    private: bool | UnsetType = UNSET
    username: str | UnsetType | None = UNSET
    display_name: str | UnsetType | None = UNSET
    bio: str | UnsetType | None = UNSET
    avatar: int | str | UnsetType | None = UNSET
    attributes: dict[str, Any] | UnsetType | None = UNSET
    is_verified: bool | UnsetType = UNSET


class _EncodedProfile(msgspec.Struct, frozen=True, gc=False):
    """The profile of a user as strangers get it, encoded, whether or not they may see it. `picture`: an object that
    stands for the avatar and is replaced whenever the avatar changes; compare with `is`.
    """

    node: Node
    avatar: int | None
    picture: object
    raw: bytes


class ProfilesResource:
    """Reads and sets users."""

    def __init__(
        self,
        profiles: Profiles,
        graph: Graph,
        privacy: Privacy,
        media: MediaLibrary,
        privacy_switch: PrivacySwitch,
        present: Presenter,
        unrestricted: UnrestrictedPeople,
    ) -> None:
        self._profiles, self._graph, self._privacy = profiles, graph, privacy
        self._media, self._privacy_switch, self._present = media, privacy_switch, present
        follows, authored = graph.graphs.number(FOLLOWS), graph.graphs.number(AUTHORED)
        self._unrestricted, self._read_cache = unrestricted, unrestricted.read_cache
        read_cache = unrestricted.read_cache
        self._encoded: CachedValues[_EncodedProfile] = read_cache.of_users((follows, authored), USERS_MAX)
        self._pictures: CachedValues[object] = read_cache.of_records(RecordKind.MEDIA, USERS_MAX)
        self._counted = ((follows, Direction.OUT), (follows, Direction.IN), (authored, Direction.OUT))

    @get("/users/{user_id}", "A user", answers=ProfileAnswer)
    async def get_user(self, call: Call, user_id: Id) -> bytes:
        """Profile, state and exact counts. Ids come from your app, so an id that Kith has never seen is an empty user,
        not an error.
        """
        viewer = call.viewer
        if viewer is not SYSTEM and viewer != user_id and self._graph.store.immediate:  # where a refresh takes no time
            await self._read_cache.refresh()
            if self._read_cache.generation:
                return await self._to_stranger(viewer, user_id)
        return _encode(await self._profile_for(viewer, user_id))

    @get("/users/by-username/{username}", "The user of this name")
    async def user_by_username(self, call: Call, username: Username) -> ProfileAnswer:
        """Spelling does not matter: `Ann` and `ann` are one name. 404 too if the acting user may not see that user."""
        user = await self._profiles.named(username)
        with contextlib.suppress(UserNotFound, Forbidden):  # which tell that there is somebody, and who
            if user is not None:
                return await self._profile_for(call.viewer, user)
        raise UserNotFound("no user has this name, or the user is hidden from you", username=username)

    @post_query("/users/lookup", "Many users by id")
    async def lookup_users(self, call: Call, body: LookupRequest) -> UsersLookedUp:
        """One answer per id, in the order of the request: null where GET would answer an error. At most 100 ids."""
        answers = await self._answers(call.viewer, check_lookup(body.ids))
        return UsersLookedUp([answer if isinstance(answer, ProfileAnswer) else None for answer in answers])

    @put("/users/{user_id}", "Create or set a user")
    async def put_user(self, call: Call, user_id: Id, body: ProfileRequest) -> ProfileAnswer:
        """Sets only the fields that are sent, so it may be called at every login: leave out what your app does not
        know. An empty `username` gives the name up, and anybody may take it. A user token may set only its own user.
        """
        return await self._set(call, user_id, body)

    @patch("/users/{user_id}", "Change a user")
    async def patch_user(self, call: Call, user_id: Id, body: ProfileRequest) -> ProfileAnswer:
        """The same as PUT. A user token may change only its own user."""
        return await self._set(call, user_id, body)

    async def _profile_for(self, viewer: Viewer, user: NodeId) -> ProfileAnswer:
        (answer,) = await self._answers(viewer, [user])
        if isinstance(answer, ProfileAnswer):
            return answer
        raise answer

    async def _to_stranger(self, viewer: NodeId | None, user: NodeId) -> bytes:
        """The profile as another user gets it. It is encoded once and cached until the log reports a change."""
        cached = self._encoded.now.get(user)
        if cached is None or (
            cached.avatar is not None and self._pictures.now.get(cached.avatar) is not cached.picture
        ):
            cached = await self._load(user)
        if not is_visible_account(cached.node, user, viewer):
            raise _not_there(user)
        if viewer is None or await self._unrestricted.is_unblocked(viewer):
            return cached.raw
        if (await self._privacy.blocks([(user, viewer)]))[0]:
            raise _not_available(user)
        return cached.raw

    async def _load(self, user: NodeId) -> _EncodedProfile:
        generation, questions = self._read_cache.generation, Questions()
        nodes, counted = questions.nodes([user]), questions.totals(self._counted, [user])
        (profile,), media = await self._read_profiles([user])
        answers = await self._graph.store.answer(questions)
        (node,), avatar = answers.nodes[nodes], profile.avatar
        counts = [numbers[0] for numbers in counted(answers)]
        picture = None if avatar is None else self._pictures.now.get(avatar) or object()
        encoded = _EncodedProfile(
            node, avatar, picture, _encode(self._answer(None, user, node, profile, counts, media))
        )
        self._encoded.keep(generation, {user: encoded})
        if avatar is not None and picture is not None:
            self._pictures.keep(generation, {avatar: picture})
        return encoded

    async def _set(self, call: Call, user: NodeId, body: ProfileRequest) -> ProfileAnswer:
        """Writes the profile first. If it is refused, nothing has changed; after a crash between the two writes, a
        retry finishes the second.

        The token covers both writes.
        """
        check_own(call.caller, user)
        if body.is_verified is not UNSET and not call.caller.server:
            raise Forbidden("only the app may set isVerified: leave it out, or use a server key")
        node = await self._check_there(user, user)
        changes = _changes(body)
        await call.perform_write(self._profiles.change(user, lambda old: msgspec.structs.replace(old, **changes)))
        if body.private is not UNSET:
            await self._privacy_switch.set_private(
                user, private=body.private, was_private=node.private, on_write=call.note_write
            )
        try:
            return await self._profile_for(user, user)
        except UserNotFound:  # removed while this was written; what came before, the removal forgets
            await self._profiles.forget(user)
            raise

    async def _answers(self, viewer: Viewer, users: Sequence[NodeId]) -> list[ProfileAnswer | UserNotFound | Forbidden]:
        """Each user with their state and counts from the graph, or the error that `viewer` gets."""
        store, questions = self._graph.store, Questions()
        nodes = questions.nodes(users)
        bars = self._privacy.ask_blocks(
            questions, [(user, viewer) for user in users] if isinstance(viewer, int) else []
        )
        counted = questions.totals(self._counted, users)
        (profiles, media), answers = await gather(store.immediate, self._read_profiles(users), store.answer(questions))
        barred = bars(answers) or [False] * len(users)
        rows = zip(users, answers.nodes[nodes], barred, profiles, zip(*counted(answers), strict=True), strict=True)
        return [
            _not_there(user)
            if not is_visible_account(node, user, viewer)
            else _not_available(user)
            if bar and user != viewer
            else self._answer(viewer, user, node, profile, counts, media)
            for user, node, bar, profile, counts in rows
        ]

    def _answer(
        self,
        viewer: Viewer,
        user: NodeId,
        node: Node,
        profile: Profile,
        counts: Sequence[int],
        media: Mapping[int, Media],
    ) -> ProfileAnswer:
        """`counts`: as in `_counted`."""
        following, followers, authored = counts
        return ProfileAnswer(
            str(user),
            node.state.name.lower(),
            node.private,
            following,
            followers,
            authored,
            profile.username or None,
            profile.display_name,
            profile.bio,
            str(profile.avatar) if profile.avatar in media else None,
            self._present.avatar_url(profile.avatar, media),
            profile.verified,
            read_attributes(profile.attributes),
            shown_labels(node.labels, viewer, user),
        )

    async def _read_profiles(self, users: Sequence[NodeId]) -> tuple[list[Profile], dict[int, Media]]:
        """The profiles of users, and their avatars."""
        profiles = await self._profiles.get_many(users)
        return profiles, await self._media.get_many(
            [profile.avatar for profile in profiles if profile.avatar is not None]
        )

    async def _check_there(self, viewer: Viewer, user: NodeId) -> Node:
        """The node of an account. UserNotFound if the account is hidden from `viewer`."""
        (node,) = await self._graph.store.nodes([user])
        if not is_visible_account(node, user, viewer):
            raise _not_there(user)
        return node


def _not_there(user: NodeId) -> UserNotFound:
    return UserNotFound("there is no such account, or it is hidden from you", id=str(user))


def _not_available(user: NodeId) -> Forbidden:
    return Forbidden("this account is not available to you", id=str(user))


def _changes(body: ProfileRequest) -> dict[str, Any]:
    """The fields of a `Profile` that a request names. A null becomes the default of a new profile."""
    requested = {
        "username": body.username,
        "display_name": body.display_name,
        "bio": body.bio,
        "avatar": parse_id(body.avatar, "avatar") if isinstance(body.avatar, int | str) else body.avatar,
        "attributes": pack_attributes(body.attributes) if isinstance(body.attributes, dict) else body.attributes,
        "verified": body.is_verified,
    }
    empty = Profile()
    return {
        name: getattr(empty, name) if value is None else value
        for name, value in requested.items()
        if value is not UNSET
    }
