"""Calls about the home feed, and what the acting user says of it. As in `graphs`, nothing is sent."""

from __future__ import annotations

from typing import Literal

import msgspec

from kith.client.answers import Id, Pagination
from kith.client.asking import BASE, header_value, reader, user_path
from kith.client.objects import FeedMeta, FeedPage, Fewer, Post, Why
from kith.client.posts import post_path
from kith.client.wire import Call

FEED_PAGE_SIZE = 20  # the service gives 50 at most


class _Feed(msgspec.Struct):
    posts: list[Post]
    pagination: Pagination
    meta: FeedMeta


_feed = reader(_Feed)
_why = reader(Why)
_fewer = reader(Fewer)


def feed(
    type: Literal["ranked", "latest"] = "ranked",
    *,
    refresh: bool = False,
    request_id: str | None = None,
    page_size: int = FEED_PAGE_SIZE,
    cursor: str | None = None,
) -> Call[FeedPage]:
    """The acting user's home: `ranked`, best first, or `latest`, newest first. Each post comes once.

    `page_size`: 1 to 50. `refresh`: read past the timeline, from the authors' own lists. `request_id`: your name for
    the request, under which the service logs what it served. A page says in `meta.degraded` what was not available.
    """
    headers = {} if request_id is None else {"X-Request-Id": header_value(request_id, "request_id")}
    call = Call("GET", f"{BASE}/feed", _page, headers=headers)
    return call.asking(type=type, limit=page_size, refresh="true" if refresh else None, cursor=cursor)


def why_post(post: Id) -> Call[Why]:
    """What decides the place of a post in the acting user's ranked home."""
    return Call("GET", f"{post_path(post)}/why", _why)


def see_fewer(user: Id) -> Call[Fewer]:
    """Rank the posts of `user` lower for the acting user, which fades over the months. Nobody else learns of it."""
    return Call("POST", f"{user_path(user)}/see-fewer", _fewer)


def see_as_before(user: Id) -> Call[Fewer]:
    """Rank the posts of `user` as before `see_fewer`."""
    return Call("DELETE", f"{user_path(user)}/see-fewer", _fewer)


def _page(content: bytes) -> FeedPage:
    found = _feed(content)
    return FeedPage(items=found.posts, pagination=found.pagination, meta=found.meta)
