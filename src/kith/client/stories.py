"""Calls about stories. As in `graphs`, nothing is sent."""

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
    """Tell a story of the acting user. The same `key` tells it once, however often it is sent; one is made if not
    given, so that what this client sends again after a lost answer is not told twice.
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
    """A story; ApiError 404 when it is over, or not there for the acting user."""
    return Call("GET", _path(story), _story)


def delete_story(story: Id) -> Call[None]:
    """Delete a story of the acting user, for good."""
    return Call("DELETE", _path(story), nothing, deletes=True)


def view_story(story: Id) -> Call[None]:
    """Tell that the acting user has seen a story; repeating it changes nothing."""
    return Call("POST", f"{_path(story)}/view", nothing)


def story_viewers(story: Id, *, page_size: int = PAGE_SIZE, cursor: str | None = None) -> Call[Page[StoryViewer]]:
    """Who has seen a story of the acting user, latest first."""
    return listed(f"{_path(story)}/viewers", _viewers, page_size, cursor)


def story_strip(*, page_size: int = PAGE_SIZE, cursor: str | None = None) -> Call[Page[StripEntry]]:
    """Whose stories there are for the acting user: one's own, then authors with unseen ones, the closest first."""
    return listed(f"{BASE}/stories", _strip, page_size, cursor)


def user_stories(user: Id, *, page_size: int = PAGE_SIZE, cursor: str | None = None) -> Call[Page[Story]]:
    """The stories of `user` that the acting user may see, oldest first."""
    return listed(f"{user_path(user)}/stories", _stories, page_size, cursor)


def _path(story: Id) -> str:
    return f"{BASE}/stories/{checked_id(story, 'story')}"
