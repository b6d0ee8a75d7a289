"""/posts/{id}/like, save, share, view and hide (article 001), and the lists of likers and saved posts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TypeVar

import msgspec

from kith.access.policy import check_own_read
from kith.api.answers import LookupRequest, Time, check_lookup
from kith.api.call import Call
from kith.api.operations import delete, get, post
from kith.api.parameters import Cursor, Id, ObjectLimit
from kith.api.presenter import PostsAnswer, Presenter, UsersAnswer, time_of
from kith.graph.graphs import HIDES, LIKES, SAVES, SHARES, VIEWS
from kith.posts.engagement import Engagement, EngagementWritten

Shape = TypeVar("Shape")


class Liked(msgspec.Struct, frozen=True, rename="camel"):
    """Whether the acting user likes it, how many users do, and when the acting user's like last changed."""

    liked: bool
    like_count: int
    timestamp: Time


class Saved(msgspec.Struct, frozen=True, rename="camel"):
    """Whether the acting user has saved it, how many users have, and when the acting user's save last changed."""

    saved: bool
    save_count: int
    timestamp: Time


class Shared(msgspec.Struct, frozen=True, rename="camel"):
    """Whether the acting user has shared it, how many users have, and when the acting user's share last changed."""

    shared: bool
    share_count: int
    timestamp: Time


class Viewed(msgspec.Struct, frozen=True, rename="camel"):
    """The acting user has seen it; how many users have; when the acting user first did."""

    viewed: bool
    view_count: int
    timestamp: Time


class PostsViewed(msgspec.Struct, frozen=True):
    """One answer per id, in the order of the request."""

    posts: list[Viewed | None]


class Hidden(msgspec.Struct, frozen=True):
    """Whether the post is hidden from the acting user's feed, and when that changed. Nobody else can see it."""

    hidden: bool
    timestamp: Time


class EngagementResource:
    """What users do with posts. Every operation is idempotent: repeating it, or undoing what was never done, changes
    nothing.
    """

    def __init__(self, engagement: Engagement, present: Presenter) -> None:
        self._engagement, self._present = engagement, present

    @post("/posts/{post_id}/like", "Like a post", callers="acting", quota="engagement")
    async def like_post(self, call: Call, post_id: Id) -> Liked:
        """Repeating it changes nothing."""
        return counted(call, Liked, await self._engagement.add(LIKES, call.acting_user, post_id))

    @delete("/posts/{post_id}/like", "Remove a like", callers="acting")
    async def unlike_post(self, call: Call, post_id: Id) -> Liked:
        """Repeating it changes nothing."""
        return counted(call, Liked, await self._engagement.drop(LIKES, call.acting_user, post_id))

    @get("/posts/{post_id}/likes", "Who likes a post")
    async def post_likes(
        self, call: Call, post_id: Id, limit: ObjectLimit = None, cursor: Cursor = None
    ) -> UsersAnswer:
        """Newest like first, for everyone who may see the post. Users with a block between them and the acting user are
        left out.
        """
        list_key = f"likes {post_id}"
        page = await self._engagement.likers(call.viewer, post_id, call.window_of_objects(list_key, limit, cursor))
        return UsersAnswer(await self._present.users(page), call.pagination(list_key, page))

    @get("/users/{user_id}/saved", "The posts that a user saved")
    async def saved_posts(
        self, call: Call, user_id: Id, limit: ObjectLimit = None, cursor: Cursor = None
    ) -> PostsAnswer:
        """Only the user may read this list. Newest save first, without posts that they may no longer see."""
        check_own_read(call.caller, user_id)
        list_key = f"saved {user_id}"
        window, (details, prefetch) = (
            call.window_of_objects(list_key, limit, cursor),
            self._present.prefetch_details(call.viewer),
        )
        posts, page = await self._engagement.saved(call.viewer, user_id, window, prefetch)
        return PostsAnswer(
            await self._present.posts(call.viewer, posts, known=details), call.pagination(list_key, page)
        )

    @post("/posts/{post_id}/save", "Save a post", callers="acting", quota="engagement")
    async def save_post(self, call: Call, post_id: Id) -> Saved:
        """Repeating it changes nothing."""
        return counted(call, Saved, await self._engagement.add(SAVES, call.acting_user, post_id))

    @delete("/posts/{post_id}/save", "Unsave a post", callers="acting")
    async def unsave_post(self, call: Call, post_id: Id) -> Saved:
        """Repeating it changes nothing."""
        return counted(call, Saved, await self._engagement.drop(SAVES, call.acting_user, post_id))

    @post("/posts/{post_id}/share", "Share a post", callers="acting", quota="engagement")
    async def share_post(self, call: Call, post_id: Id) -> Shared:
        """Repeating it changes nothing."""
        return counted(call, Shared, await self._engagement.add(SHARES, call.acting_user, post_id))

    @delete("/posts/{post_id}/share", "Remove a share", callers="acting")
    async def unshare_post(self, call: Call, post_id: Id) -> Shared:
        """Repeating it changes nothing."""
        return counted(call, Shared, await self._engagement.drop(SHARES, call.acting_user, post_id))

    @post("/posts/{post_id}/view", "Record a view of a post", callers="acting")
    async def view_post(self, call: Call, post_id: Id) -> Viewed:
        """A user counts once, however often they view the post."""
        return counted(call, Viewed, await self._engagement.add(VIEWS, call.acting_user, post_id))

    @post("/posts/view", "Record views of many posts", callers="acting")
    async def view_posts(self, call: Call, body: LookupRequest) -> PostsViewed:
        """Marks up to 100 posts, such as a whole page, in one write. One answer per id, in the order of the request:
        null where the single route would answer 404.
        """
        views, mark = await self._engagement.add_many(VIEWS, call.acting_user, check_lookup(body.ids))
        call.note_write(mark)
        return PostsViewed(
            [None if view is None else Viewed(view.holds, view.total, time_of(view.at_ms)) for view in views]
        )

    @post("/posts/{post_id}/hide", "Hide a post from my feed", callers="acting")
    async def hide_post(self, call: Call, post_id: Id) -> Hidden:
        """Repeating it changes nothing."""
        return _hidden(call, await self._engagement.add(HIDES, call.acting_user, post_id))

    @delete("/posts/{post_id}/hide", "Show a post again", callers="acting")
    async def unhide_post(self, call: Call, post_id: Id) -> Hidden:
        """Repeating it changes nothing."""
        return _hidden(call, await self._engagement.drop(HIDES, call.acting_user, post_id))


def counted(call: Call, shape: Callable[[bool, int, datetime], Shape], engaged: EngagementWritten) -> Shape:
    """The answer of an operation with a count: whether the edge exists, the count, and when the edge changed."""
    call.note_write(engaged.mark)
    return shape(engaged.holds, engaged.total, time_of(engaged.at_ms))


def _hidden(call: Call, engaged: EngagementWritten) -> Hidden:
    call.note_write(engaged.mark)
    return Hidden(engaged.holds, time_of(engaged.at_ms))
