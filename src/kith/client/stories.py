"""Calls about stories. As in `graphs`, nothing is sent here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from kith.client.answers import Id, Page
from kith.client.asking import BASE, PAGE_SIZE, checked_id, checked_ids, listed, nothing, once, reader, user_path
from kith.client.objects import Story, StoryViewer, StripEntry
from kith.client.posts import content_of
from kith.client.wire import Call

_story = reader(Story)
_stories = reader(Page[Story])
_strip = reader(Page[StripEntry])
_viewers = reader(Page[StoryViewer])


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
    """Create a story of the acting user. It disappears after the service's `story_hours`.

    `media`, `audience` and `key` as in `create_post`.
    """
    body = {
        "content": content_of(text, link, media),
        "visibility": visibility,
        "audience": checked_ids(audience, "audience"),
        "mentions": checked_ids(mentions, "mentions"),
        "attributes": attributes or {},
    }
    return Call("POST", f"{BASE}/stories", _story, body=body, headers=once(key))


def story(story: Id) -> Call[Story]:
    """A story; ApiError 404 if it is over, or if the acting user may not see it."""
    return Call("GET", _path(story), _story)


def delete_story(story: Id) -> Call[None]:
    """Delete a story of the acting user, for good."""
    return Call("DELETE", _path(story), nothing, deletes=True)


def view_story(story: Id) -> Call[None]:
    """Record that the acting user has seen a story; repeating it changes nothing."""
    return Call("POST", f"{_path(story)}/view", nothing)


def story_viewers(story: Id, *, page_size: int = PAGE_SIZE, cursor: str | None = None) -> Call[Page[StoryViewer]]:
    """The users who have seen a story of the acting user, latest first."""
    return listed(f"{_path(story)}/viewers", _viewers, page_size, cursor)


def story_strip(*, page_size: int = PAGE_SIZE, cursor: str | None = None) -> Call[Page[StripEntry]]:
    """The authors whose stories the acting user can watch, one entry each.

    Order: the acting user, then authors with unseen stories, then the others; in each group the closest first.
    """
    return listed(f"{BASE}/stories", _strip, page_size, cursor)


def user_stories(user: Id, *, page_size: int = PAGE_SIZE, cursor: str | None = None) -> Call[Page[Story]]:
    """The stories of `user` that the acting user may see, oldest first."""
    return listed(f"{user_path(user)}/stories", _stories, page_size, cursor)


def _path(story: Id) -> str:
    return f"{BASE}/stories/{checked_id(story, 'story')}"
