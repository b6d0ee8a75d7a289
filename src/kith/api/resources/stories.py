"""/stories: posts that expire after some hours, the strip of stories by authors one follows, and who has viewed
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from kith.access.policy import ReadPolicy
from kith.api.answers import Pagination, Time
from kith.api.call import Call
from kith.api.operations import delete, get, post
from kith.api.parameters import Cursor, Id, IdempotencyKey, Limit, ObjectLimit
from kith.api.presenter import (
    AuthorAnswer,
    ContentAnswer,
    Presenter,
    read_attributes,
    shown_labels,
    time_of,
)
from kith.api.resources.posts import DraftRequest
from kith.people.privacy import SYSTEM, Viewer
from kith.posts.post import Post
from kith.stories.stories import Stories
from kith.stories.strip import Strip

StoryVisibility = Literal["public", "friends", "custom"]


class StoryRequest(DraftRequest, forbid_unknown_fields=True, rename="camel"):
    """A new story, with the fields of a post. `audience`: the users who may see it if `visibility` is `custom`."""

    visibility: StoryVisibility = "public"


class StoryAnswer(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A story. `seen`: by the acting user. `audience` and `viewCount` are null for everyone but the author. `labels`:
    those of its author, shown as on posts.
    """

    id: str
    author: AuthorAnswer
    content: ContentAnswer
    visibility: StoryVisibility
    audience: list[str] | None
    mentions: list[str]
    attributes: dict[str, Any]
    labels: list[str]
    created_at: Time
    expires_at: Time
    seen: bool
    view_count: int | None


class StoriesAnswer(msgspec.Struct, frozen=True):
    """A page of an author's stories, oldest first. If there are very many, a page may be short although more follow."""

    items: list[StoryAnswer]
    pagination: Pagination


class StripEntryAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """The stories of one author that the acting user may see. `more`: the counts cover only the newest 50."""

    id: str
    author: AuthorAnswer
    story_count: int
    unseen_count: int
    latest_at: Time
    more: bool


class StripAnswer(msgspec.Struct, frozen=True):
    """A page of the strip. `partial`: too many followed authors have stories, so only the closest were considered."""

    items: list[StripEntryAnswer]
    pagination: Pagination
    partial: bool


class StoryViewed(msgspec.Struct, frozen=True):
    """The acting user has seen the story, and when they first did."""

    viewed: bool
    timestamp: Time


class ViewerAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """A user who has seen a story, and when they first did."""

    id: str
    user: AuthorAnswer
    viewed_at: Time


class ViewersAnswer(msgspec.Struct, frozen=True):
    """A page of viewers, latest first. A page may be short although more follow."""

    items: list[ViewerAnswer]
    pagination: Pagination


class StoriesResource:
    """Stories, and the strip of them above a feed."""

    def __init__(self, stories: Stories, strip: Strip, access: ReadPolicy, present: Presenter) -> None:
        self._stories, self._strip, self._access, self._present = stories, strip, access, present

    @post("/stories", "Create a story", status=201, callers="acting", quota="posts")
    async def create_story(self, call: Call, body: StoryRequest, idempotency_key: IdempotencyKey = None) -> StoryAnswer:
        """A story is a post that expires after `story_hours`. It appears in no feed and in no list of posts."""
        story, mark = await self._stories.create(call.acting_user, body.draft(), idempotency_key)
        call.note_write(mark)
        return (await self._answers(call.viewer, [story]))[0]

    @get("/stories", "The strip of stories for the acting user", callers="acting", quota="feed")
    async def story_strip(self, call: Call, limit: Limit = None, cursor: Cursor = None) -> StripAnswer:
        """One entry per author: the user's own first, then authors with unseen stories, then the rest. Within each part
        the closest authors come first.
        """
        list_key = f"stories {call.acting_user}"
        strip = await self._strip.page(call.acting_user, call.window(list_key, limit, cursor))
        authors = await self._present.authors([entry.author for entry in strip.entries])
        items = [
            StripEntryAnswer(
                str(entry.author),
                authors[entry.author],
                entry.stories,
                entry.unseen,
                time_of(entry.latest_at),
                entry.more,
            )
            for entry in strip.entries
        ]
        return StripAnswer(items, call.pagination(list_key, strip.page), strip.partial)

    @get("/stories/{story_id}", "A story")
    async def get_story(self, call: Call, story_id: Id) -> StoryAnswer:
        """404 if the story does not exist, is deleted, has expired, or is hidden from the acting user."""
        story = await self._stories.get(call.viewer, story_id)
        return (await self._answers(call.viewer, [story]))[0]

    @delete("/stories/{story_id}", "Delete a story", status=204, callers="acting")
    async def delete_story(self, call: Call, story_id: Id) -> None:
        """Permanent, content included. Only the author may delete a story."""
        call.note_write(await self._stories.delete(call.acting_user, story_id))

    @post("/stories/{story_id}/view", "Record a view of a story", callers="acting")
    async def view_story(self, call: Call, story_id: Id) -> StoryViewed:
        """Repeating it changes nothing. Authors do not count as viewers of their own stories."""
        at_ms, mark = await self._stories.view(call.acting_user, story_id)
        call.note_write(mark)
        return StoryViewed(True, time_of(at_ms))

    @get("/stories/{story_id}/viewers", "Who has seen a story")
    async def story_viewers(
        self, call: Call, story_id: Id, limit: Limit = None, cursor: Cursor = None
    ) -> ViewersAnswer:
        """Only the author may read this list. Latest viewer first."""
        list_key = f"viewers {story_id}"
        page = await self._stories.viewers(call.viewer, story_id, call.window(list_key, limit, cursor))
        users = await self._present.authors([mark.id for mark in page.items])
        items = [ViewerAnswer(str(mark.id), users[mark.id], time_of(mark.position)) for mark in page.items]
        return ViewersAnswer(items, call.pagination(list_key, page))

    @get("/users/{user_id}/stories", "The stories of a user")
    async def user_stories(
        self, call: Call, user_id: Id, limit: ObjectLimit = None, cursor: Cursor = None
    ) -> StoriesAnswer:
        """Oldest first, the order in which they are played. Expired stories and stories that the acting user may not
        see are left out.
        """
        await self._access.check_may_see_lists(call.caller, user_id)
        list_key = f"stories of {user_id}"
        window = call.window_of_objects(list_key, limit, cursor)
        stories, page = await self._stories.of_author(call.viewer, user_id, window)
        return StoriesAnswer(await self._answers(call.viewer, stories), call.pagination(list_key, page))

    async def _answers(self, viewer: Viewer, stories: Sequence[Post]) -> list[StoryAnswer]:
        """Stories that the viewer may see, as answers."""
        if not stories:
            return []
        authors, media = await self._present.authors_and_media(
            [story.author for story in stories], (id_ for story in stories for id_ in story.media)
        )
        seen = await self._stories.seen(viewer, stories)
        views = await self._stories.view_counts([story.id for story in stories])
        return [
            StoryAnswer(
                id=str(story.id),
                author=authors[story.author],
                content=self._present.content(story, media),
                visibility=story.visibility,  # type: ignore[arg-type]  # `Stories.create` takes no private one
                audience=list(map(str, story.audience)) if own and story.audience else None,
                mentions=list(map(str, story.mentioned)),
                attributes=read_attributes(story.attributes),
                labels=shown_labels(story.labels, viewer, story.author),
                created_at=time_of(story.created_at),
                expires_at=time_of(self._stories.expires_at_ms(story)),
                seen=is_seen,
                view_count=count if own else None,
            )
            for story, is_seen, count in zip(stories, seen, views, strict=True)
            for own in [viewer in (SYSTEM, story.author)]
        ]
