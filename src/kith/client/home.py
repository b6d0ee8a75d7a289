"""Calls about the home feed and its ranking. As in `graphs`, nothing is sent here."""

from __future__ import annotations

from typing import Literal

import msgspec

from kith.client.answers import Id, Pagination
from kith.client.asking import BASE, header_value, reader, user_path
from kith.client.objects import FeedMeta, FeedPage, Fewer, Post, Why
from kith.client.posts import post_path
from kith.client.wire import Call

FEED_PAGE_SIZE = 20  # the service's maximum is 50


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
    """The acting user's home feed: `ranked` (best first) or `latest` (newest first; a pinned post at the time of
    its last pin). Each post comes once.

    `page_size`: 1 to 50. `refresh`: bypass the cached timeline and read the authors' own lists. `request_id`: your id
    of the request; the service logs the posts that it served under it. `meta.degraded` of a page names what was not
    available.
    """
    headers = {} if request_id is None else {"X-Request-Id": header_value(request_id, "request_id")}
    call = Call("GET", f"{BASE}/feed", _page, headers=headers)
    return call.asking(type=type, limit=page_size, refresh="true" if refresh else None, cursor=cursor)


def why_post(post: Id) -> Call[Why]:
    """Explain the place of a post in the acting user's ranked home: its score and what it consists of."""
    return Call("GET", f"{post_path(post)}/why", _why)


def see_fewer(user: Id) -> Call[Fewer]:
    """Rank the posts of `user` lower for the acting user. The effect fades over months. Nobody else is notified."""
    return Call("POST", f"{user_path(user)}/see-fewer", _fewer)


def see_as_before(user: Id) -> Call[Fewer]:
    """Undo `see_fewer`."""
    return Call("DELETE", f"{user_path(user)}/see-fewer", _fewer)


def _page(content: bytes) -> FeedPage:
    answer = _feed(content)
    return FeedPage(items=answer.posts, pagination=answer.pagination, meta=answer.meta)
