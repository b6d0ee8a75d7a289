"""Calls about what people make: many posts and users by id, stories, moderation. As in `calls`, nothing is sent."""

from __future__ import annotations

import secrets
from collections.abc import Generator, Iterable, Sequence
from typing import Any, Literal

import msgspec

from kith.client.answers import Id, Labels, Page, Post, Profile, Story, StoryViewer, StripEntry
from kith.client.calls import BASE, PAGE_SIZE, batches, checked_id, listed, reader, user_path
from kith.client.wire import Call, unreadable

LOOKUP_MAX = 100  # the contract's, for one request


class _Posts(msgspec.Struct):
    posts: list[Post | None]


class _Users(msgspec.Struct):
    users: list[Profile | None]


_posts = reader(_Posts)
_users = reader(_Users)
_story = reader(Story)
_stories = reader(Page[Story])
_strip = reader(Page[StripEntry])
_viewers = reader(Page[StoryViewer])
_labels = reader(Labels)


def lookup_posts(ids: Iterable[Id]) -> Generator[Call[Any], Any, list[Post | None]]:
    """For each id the post, or None where there is none for the acting user. Any number of ids."""
    found: list[Post | None] = []
    for batch in batches(ids, LOOKUP_MAX):
        answer = yield from Call("POST", f"{BASE}/posts/lookup", _posts, body={"ids": batch})
        found += _whole(answer.posts, batch)
    return found


def lookup_users(ids: Iterable[Id]) -> Generator[Call[Any], Any, list[Profile | None]]:
    """For each id the user, or None where there is none for the acting user. Any number of ids."""
    found: list[Profile | None] = []
    for batch in batches(ids, LOOKUP_MAX):
        answer = yield from Call("POST", f"{BASE}/users/lookup", _users, body={"ids": batch})
        found += _whole(answer.users, batch)
    return found


def create_story(
    text: str = "",
    *,
    link: str | None = None,
    media: Sequence[Id] = (),
    visibility: Literal["public", "friends", "custom"] = "public",
    audience: Sequence[Id] = (),
    mentions: Sequence[Id] = (),
    attributes: dict[str, Any] | None = None,
    key: str | None = None,
) -> Call[Story]:
    """Tell a story of the acting user. The same `key` tells it once, however often it is sent; one is made if not
    given, so that what this client sends again after a lost answer is not told twice.
    """
    content = {"text": text, "link": link, "mediaIds": [checked_id(id_, "media") for id_ in media]}
    body = {
        "content": {name: value for name, value in content.items() if value is not None},
        "visibility": visibility,
        "audience": [checked_id(user, "audience") for user in audience],
        "mentions": [checked_id(user, "mentions") for user in mentions],
        "attributes": attributes or {},
    }
    headers = {"Idempotency-Key": key or secrets.token_hex(16)}
    return Call("POST", f"{BASE}/stories", _story, body=body, headers=headers)


def story(story: Id) -> Call[Story]:
    """A story; ApiError 404 when it is over, or not there for the acting user."""
    return Call("GET", _path(story), _story)


def delete_story(story: Id) -> Call[None]:
    """Delete a story of the acting user, for good."""
    return Call("DELETE", _path(story), lambda _: None)


def view_story(story: Id) -> Call[None]:
    """Tell that the acting user has seen a story; repeating it changes nothing."""
    return Call("POST", f"{_path(story)}/view", lambda _: None)


def story_viewers(story: Id, *, page_size: int = PAGE_SIZE, cursor: str | None = None) -> Call[Page[StoryViewer]]:
    """Who has seen a story of the acting user, latest first."""
    return listed(f"{_path(story)}/viewers", _viewers, page_size, cursor)


def story_strip(*, page_size: int = PAGE_SIZE, cursor: str | None = None) -> Call[Page[StripEntry]]:
    """Whose stories there are for the acting user: one's own, then authors with unseen ones, the closest first."""
    return listed(f"{BASE}/stories", _strip, page_size, cursor)


def user_stories(user: Id, *, page_size: int = PAGE_SIZE, cursor: str | None = None) -> Call[Page[Story]]:
    """The stories of `user` that the acting user may see, oldest first."""
    return listed(f"{user_path(user)}/stories", _stories, page_size, cursor)


def labels(kind: Literal["post", "user"], id: Id) -> Call[Labels]:
    """What moderation decided about a post or a user. Takes a server key, as do the next two."""
    return Call("GET", _labelled(kind, id), _labels)


def put_labels(
    kind: Literal["post", "user"],
    id: Id,
    labels: Iterable[Literal["hide", "limit", "sensitive"]],
    *,
    reason: str = "",
) -> Call[Labels]:
    """Replace the labels of a post or a user; in effect when it answers. `reason`: no user is told."""
    return Call("PUT", _labelled(kind, id), _labels, body={"labels": list(labels), "reason": reason})


def delete_labels(kind: Literal["post", "user"], id: Id) -> Call[Labels]:
    """Take all labels off."""
    return Call("DELETE", _labelled(kind, id), _labels)


def _labelled(kind: str, id_: Id) -> str:
    return f"{BASE}/labels/{kind}/{checked_id(id_, kind)}"


def _path(story: Id) -> str:
    return f"{BASE}/stories/{checked_id(story, 'story')}"


def _whole(answers: list[Any], batch: Sequence[Any]) -> list[Any]:
    if len(answers) != len(batch):
        raise unreadable(f"a lookup: {len(answers)} answers to {len(batch)} ids")
    return answers
