"""/feed: the home feed (article 001)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import msgspec
from litestar import Request, get
from litestar.params import Parameter

from kith.api.answers import Call
from kith.api.backend import TOKEN_HEADER, Pagination
from kith.api.graphs import Cursor
from kith.api.presenting import PostAnswer, present_posts
from kith.core.errors import BadRequest
from kith.core.paging import LIMIT_DEFAULT

FEED_LIMIT_MAX = 50
FeedLimit = Annotated[
    int | None, Parameter(description=f"Posts a page, 1 to {FEED_LIMIT_MAX}; {LIMIT_DEFAULT} unless given.")
]


class FeedMeta(msgspec.Struct, frozen=True, rename="camel"):
    """How the page was made. `degraded`: parts that were not available; the page is right, and was slower."""

    feed_type: Literal["latest"]
    generated_at: datetime
    degraded: list[str]


class FeedAnswer(msgspec.Struct, frozen=True):
    """A page of home, newest first. `hasMore` may lead to an empty last page."""

    posts: list[PostAnswer]
    pagination: Pagination
    meta: FeedMeta


@get("/feed", summary="The acting user's home", name="feed")
async def feed(
    request: Request[Any, Any, Any],
    call: Call,
    limit: FeedLimit = None,
    cursor: Cursor = None,
    refresh: Annotated[bool, Parameter(description="Read past the timeline, from the outboxes.")] = False,
) -> FeedAnswer:
    """Posts of those whom the acting user follows, and their own: newest first, each once, however far one scrolls."""
    viewer, backend = call.acting, call.backend
    if limit is not None and not 1 <= limit <= FEED_LIMIT_MAX:
        raise BadRequest(f"limit must be from 1 to {FEED_LIMIT_MAX}", limit=limit)
    query = f"feed latest {viewer}"
    token = request.headers.get(TOKEN_HEADER)
    page = await backend.feed.latest(
        viewer,
        call.window(query, limit, cursor),
        seen=0 if token is None else backend.tokens.read(token).sequence,
        refresh=refresh,
    )
    posts = await present_posts(call, page.posts)
    following = None if page.end is None else backend.cursors.next(query, page.end)
    return FeedAnswer(
        posts,
        Pagination(next_cursor=following, prev_cursor=None, has_more=following is not None),
        FeedMeta("latest", datetime.now(UTC), page.degraded),
    )


ROUTES = [feed]
