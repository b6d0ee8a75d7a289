"""/stories: posts that are over after some hours; the strip of those one follows, and who has seen what."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

import msgspec
from litestar import Response, delete, get, post

from kith.api.answers import Call
from kith.api.backend import Pagination
from kith.api.graphs import Cursor, Limit, ObjectLimit, PathId, token_header
from kith.api.posts import DraftRequest, IdempotencyKey
from kith.api.presenting import (
    TIME_MAX_MS,
    AuthorAnswer,
    ContentAnswer,
    authors_and_media,
    authors_of,
    content_of,
    read_attributes,
    shown_labels,
    time_of,
)
from kith.core.ids import parse_id
from kith.posts.post import Post

StoryVisibility = Literal["public", "friends", "custom"]


class StoryRequest(DraftRequest, forbid_unknown_fields=True, rename="camel"):
    """A new story; fields as of a post. `audience`: users who may see it, where `visibility` is custom."""

    visibility: StoryVisibility = "public"


class StoryAnswer(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A story. `seen` by the acting user; `audience` and `viewCount` are there for its author only. `labels`: those of
    its author, as on posts.
    """

    id: str
    author: AuthorAnswer
    content: ContentAnswer
    visibility: StoryVisibility
    audience: list[str] | None
    mentions: list[str]
    attributes: dict[str, Any]
    labels: list[str]
    created_at: datetime
    expires_at: datetime
    seen: bool
    view_count: int | None


class StoriesAnswer(msgspec.Struct, frozen=True):
    """A page of an author's stories, oldest first; of very many it may be short and still have more."""

    items: list[StoryAnswer]
    pagination: Pagination


class StripEntryAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """One author's stories, as far as the acting user may see them; `more`: the counts stop at the newest 50."""

    id: str
    author: AuthorAnswer
    story_count: int
    unseen_count: int
    latest_at: datetime
    more: bool


class StripAnswer(msgspec.Struct, frozen=True):
    """A page of the strip. `partial`: of very many authors with stories only the closest were looked at."""

    items: list[StripEntryAnswer]
    pagination: Pagination
    partial: bool


class StoryViewed(msgspec.Struct, frozen=True):
    """That the acting user has seen it, and when they first did."""

    viewed: bool
    timestamp: datetime


class ViewerAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """Who has seen a story, and when they first did."""

    id: str
    user: AuthorAnswer
    viewed_at: datetime


class ViewersAnswer(msgspec.Struct, frozen=True):
    """A page of viewers, latest first; it may be short and still have more."""

    items: list[ViewerAnswer]
    pagination: Pagination


@post("/stories", summary="Tell a story", status_code=201, name="create_story")
async def create_story(call: Call, data: StoryRequest, idempotency_key: IdempotencyKey = None) -> Response[StoryAnswer]:
    """Like a post, and gone after `story_hours`. It is in no feed and in no list of posts."""
    made, mark = await call.backend.stories.create(call.acting, data.draft(), idempotency_key)
    (answer,) = await _present(call, [made])
    return Response(answer, status_code=201, headers=token_header(call.backend.token(mark)))


@get("/stories", summary="Whose stories there are for me", name="story_strip")
async def story_strip(call: Call, limit: Limit = None, cursor: Cursor = None) -> StripAnswer:
    """One entry an author: one's own, then authors with unseen stories, then the others; the closest first."""
    viewer = call.acting
    query = f"stories {viewer}"
    strip = await call.backend.strip.page(viewer, call.window(query, limit, cursor))
    authors = await authors_of(call, [entry.author for entry in strip.entries])
    items = [
        StripEntryAnswer(
            str(entry.author), authors[entry.author], entry.stories, entry.unseen, time_of(entry.latest_at), entry.more
        )
        for entry in strip.entries
    ]
    return StripAnswer(items, call.backend.paging(call.caller, query, strip.page), strip.partial)


@get("/stories/{story_id:str}", summary="A story", name="get_story")
async def get_story(call: Call, story_id: PathId) -> StoryAnswer:
    """404 for what does not exist, is deleted or over, or is not there for the acting user."""
    found = await call.backend.stories.get(call.caller.user, parse_id(story_id))
    return (await _present(call, [found]))[0]


@delete("/stories/{story_id:str}", summary="Delete a story", status_code=204, name="delete_story")
async def delete_story(call: Call, story_id: PathId) -> Response[None]:
    """For good, what it said included. Its author only."""
    mark = await call.backend.stories.delete(call.acting, parse_id(story_id))
    return Response(None, status_code=204, headers=token_header(call.backend.token(mark)))


@post("/stories/{story_id:str}/view", summary="Tell that a story was seen", status_code=200, name="view_story")
async def view_story(call: Call, story_id: PathId) -> Response[StoryViewed]:
    """Repeating it changes nothing. Authors are not among the viewers of their own."""
    at_ms, mark = await call.backend.stories.view(call.acting, parse_id(story_id))
    return Response(StoryViewed(True, time_of(at_ms)), headers=token_header(call.backend.token(mark)))


@get("/stories/{story_id:str}/viewers", summary="Who has seen a story", name="story_viewers")
async def story_viewers(call: Call, story_id: PathId, limit: Limit = None, cursor: Cursor = None) -> ViewersAnswer:
    """Its author only. Latest first."""
    query = f"viewers {story_id}"
    page = await call.backend.stories.viewers(call.caller.user, parse_id(story_id), call.window(query, limit, cursor))
    users = await authors_of(call, [mark.id for mark in page.items])
    items = [
        ViewerAnswer(str(mark.id), users[mark.id], time_of(min(max(mark.position, 0), TIME_MAX_MS)))
        for mark in page.items  # positions of an import may be any number
    ]
    return ViewersAnswer(items, call.backend.paging(call.caller, query, page))


@get("/users/{user_id:str}/stories", summary="The stories of a user", name="user_stories")
async def user_stories(call: Call, user_id: PathId, limit: ObjectLimit = None, cursor: Cursor = None) -> StoriesAnswer:
    """Oldest first, as they are played: those that are not over and that the acting user may see."""
    author, viewer, query = parse_id(user_id), call.caller.user, f"stories of {user_id}"
    if viewer is not None:
        await call.backend.privacy.check_may_see(viewer, author)
    stories, page = await call.backend.stories.of_author(viewer, author, call.window_of_objects(query, limit, cursor))
    return StoriesAnswer(await _present(call, stories), call.backend.paging(call.caller, query, page))


async def _present(call: Call, stories: Sequence[Post]) -> list[StoryAnswer]:
    """Stories that the caller may see, as answers."""
    if not stories:
        return []
    viewer, service = call.caller.user, call.backend.stories
    authors, media = await authors_and_media(
        call, [story.author for story in stories], (id_ for story in stories for id_ in story.media)
    )
    seen = await service.seen(viewer, stories)
    views = await service.view_counts([story.id for story in stories])
    return [
        StoryAnswer(
            id=str(story.id),
            author=authors[story.author],
            content=content_of(call, story, media),
            visibility=story.visibility,  # type: ignore[arg-type]  # `Stories.create` takes no private one
            audience=list(map(str, story.audience)) if own and story.audience else None,
            mentions=list(map(str, story.mentions)),
            attributes=read_attributes(story.attributes),
            labels=shown_labels(story.labels, viewer, story.author),
            created_at=time_of(story.created_at),
            expires_at=time_of(service.over_at(story)),
            seen=saw,
            view_count=count if own else None,
        )
        for story, saw, count in zip(stories, seen, views, strict=True)
        for own in [viewer in (None, story.author)]
    ]


ROUTES = [create_story, story_strip, get_story, delete_story, view_story, story_viewers, user_stories]
