"""Calls about users: their profiles, search, and whole accounts. As in `graphs`, nothing is sent here."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from kith.client.answers import Id, Job, Page, Profile
from kith.client.asking import (
    BASE,
    LOOKUP_MAX,
    PAGE_SIZE,
    batches,
    checked_id,
    checked_word,
    given,
    listed,
    listed_by_name,
    reader,
    user_path,
    whole,
)
from kith.client.objects import ListedUser
from kith.client.wire import Call


class _Users(msgspec.Struct):
    users: list[Profile | None]


class _JobStarted(msgspec.Struct):
    job: Job


_profile = reader(Profile)
_users = reader(_Users)
_listed = reader(Page[ListedUser])
_job_started = reader(_JobStarted)


def user(user: Id) -> Call[Profile]:
    """The profile of `user`; ApiError 404 if there is none that the acting user may see."""
    return Call("GET", user_path(user), _profile)


def search_users(q: str, *, page_size: int = PAGE_SIZE, cursor: str | None = None) -> Call[Page[ListedUser]]:
    """People whose username begins with `q`, or whose display name does from its first, second or third word on.

    They come in the order of names.
    """
    return listed_by_name(f"{BASE}/search/users", _listed, page_size, cursor, None, q)


def user_by_username(username: str) -> Call[Profile]:
    """The profile of the user with this name, in any spelling (such as upper case); ApiError 404 if there is none."""
    return Call("GET", f"{BASE}/users/by-username/{checked_word(username, 'username')}", _profile)


def lookup_users(ids: Iterable[Id]) -> Generator[Call[Any], Any, list[Profile | None]]:
    """The profile of each id, or None if the acting user may not see it. Any number of ids."""
    profiles: list[Profile | None] = []
    for batch in batches(ids, "ids", LOOKUP_MAX):
        answer = yield from Call("POST", f"{BASE}/users/lookup", _users, body={"ids": batch})
        profiles += whole(answer.users, batch)
    return profiles


def put_user(
    user: Id,
    *,
    private: bool | UnsetType = UNSET,
    username: str | UnsetType | None = UNSET,
    display_name: str | UnsetType | None = UNSET,
    bio: str | UnsetType | None = UNSET,
    avatar: Id | UnsetType | None = UNSET,
    attributes: dict[str, Any] | UnsetType | None = UNSET,
    is_verified: bool | UnsetType = UNSET,
) -> Call[Profile]:
    """Create `user`, or change the given fields of the profile. A field left out stays as it is; None clears it.

    `username`: ApiError 409 `USERNAME_TAKEN` if another user has it. `avatar`: media id of a picture that `user`
    uploaded. `attributes`: your app's own data, at most 4 KB of JSON.
    """
    changes = given(
        private=private,
        username=username,
        displayName=display_name,
        bio=bio,
        avatar=avatar if avatar is UNSET or avatar is None else checked_id(avatar, "avatar"),
        attributes=attributes,
        isVerified=is_verified,
    )
    return Call("PUT", user_path(user), _profile, body=changes)


def patch_user(
    user: Id,
    *,
    private: bool | UnsetType = UNSET,
    username: str | UnsetType | None = UNSET,
    display_name: str | UnsetType | None = UNSET,
    bio: str | UnsetType | None = UNSET,
    avatar: Id | UnsetType | None = UNSET,
    attributes: dict[str, Any] | UnsetType | None = UNSET,
    is_verified: bool | UnsetType = UNSET,
) -> Call[Profile]:
    """Change the given fields of the profile, as `put_user` does."""
    call = put_user(
        user, private=private, username=username, display_name=display_name, bio=bio, avatar=avatar,
        attributes=attributes, is_verified=is_verified,
    )  # fmt: skip
    return msgspec.structs.replace(call, method="PATCH")


def blocked(user: Id, *, page_size: int = PAGE_SIZE, cursor: str | None = None) -> Call[Page[ListedUser]]:
    """The users whom `user` blocks, newest block first. Only `user` may read them."""
    return listed(f"{user_path(user)}/blocked", _listed, page_size, cursor)


def muted(user: Id, *, page_size: int = PAGE_SIZE, cursor: str | None = None) -> Call[Page[ListedUser]]:
    """The users whom `user` mutes, newest mute first. Only `user` may read them."""
    return listed(f"{user_path(user)}/muted", _listed, page_size, cursor)


def deactivate_user(user: Id) -> Call[Job]:
    """Deactivate `user`: a background job archives all their edges."""
    return Call("POST", f"{user_path(user)}/deactivate", _started)


def reactivate_user(user: Id) -> Call[Job]:
    """Reactivate `user`: a background job restores their edges, except those to users who are still deactivated."""
    return Call("POST", f"{user_path(user)}/reactivate", _started)


def delete_user(user: Id) -> Call[Job]:
    """Delete `user`, for good: a background job removes all their edges."""
    return Call("DELETE", user_path(user), _started)


def _started(content: bytes) -> Job:
    return _job_started(content).job
