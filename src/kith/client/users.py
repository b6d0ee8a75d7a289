"""Calls about users: their profiles, and their accounts as a whole. As in `graphs`, nothing is sent."""

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
    """The profile of `user`; ApiError 404 if there is none for the acting user."""
    return Call("GET", user_path(user), _profile)


def search_users(q: str, *, page_size: int = PAGE_SIZE, cursor: str | None = None) -> Call[Page[ListedUser]]:
    """People whose username, display name or its second or third word begins with `q`, in the order of names."""
    return listed_by_name(f"{BASE}/search/users", _listed, page_size, cursor, None, q)


def user_by_username(username: str) -> Call[Profile]:
    """The profile of the user of this name, in any spelling; ApiError 404 if there is none."""
    return Call("GET", f"{BASE}/users/by-username/{checked_word(username, 'username')}", _profile)


def lookup_users(ids: Iterable[Id]) -> Generator[Call[Any], Any, list[Profile | None]]:
    """For each id the user, or None where there is none for the acting user. Any number of ids."""
    found: list[Profile | None] = []
    for batch in batches(ids, "ids", LOOKUP_MAX):
        answer = yield from Call("POST", f"{BASE}/users/lookup", _users, body={"ids": batch})
        found += whole(answer.users, batch)
    return found


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
    """Create `user`, or set what is given of the profile: what is left out stays, None clears.

    `username`: ApiError 409 `USERNAME_TAKEN` if another user has it. `avatar`: a picture that `user` uploaded.
    `attributes`: your own, JSON of 4 KB.
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
    """Change what is given of the profile, as `put_user` does."""
    call = put_user(
        user, private=private, username=username, display_name=display_name, bio=bio, avatar=avatar,
        attributes=attributes, is_verified=is_verified,
    )  # fmt: skip
    return msgspec.structs.replace(call, method="PATCH")


def blocked(user: Id, *, page_size: int = PAGE_SIZE, cursor: str | None = None) -> Call[Page[ListedUser]]:
    """Whom `user` blocks, the newest block first; the user's own."""
    return listed(f"{user_path(user)}/blocked", _listed, page_size, cursor)


def muted(user: Id, *, page_size: int = PAGE_SIZE, cursor: str | None = None) -> Call[Page[ListedUser]]:
    """Whom `user` mutes, the newest mute first; the user's own."""
    return listed(f"{user_path(user)}/muted", _listed, page_size, cursor)


def deactivate_user(user: Id) -> Call[Job]:
    """Archive all edges of `user`."""
    return Call("POST", f"{user_path(user)}/deactivate", _started)


def reactivate_user(user: Id) -> Call[Job]:
    """Restore all edges of `user`; one whose other end is still deactivated stays archived."""
    return Call("POST", f"{user_path(user)}/reactivate", _started)


def delete_user(user: Id) -> Call[Job]:
    """Remove all edges of `user`, for good."""
    return Call("DELETE", user_path(user), _started)


def _started(content: bytes) -> Job:
    return _job_started(content).job
