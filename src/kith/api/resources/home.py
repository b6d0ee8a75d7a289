"""/feed: the home feed (article 001), and an explanation of a post's place in it."""

from __future__ import annotations

import contextlib
import re
import secrets
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from kith.api.answers import Pagination, Time
from kith.api.call import Call
from kith.api.operations import Header, get
from kith.api.parameters import Cursor, Id
from kith.api.post_encoder import PostEncoder
from kith.api.presenter import PostAnswer
from kith.core.errors import BadRequest, FeedUnavailable, Unavailable
from kith.core.paging import LIMIT_DEFAULT
from kith.home.home import Home
from kith.home.slate import unpack
from kith.posts.posts import Posts

FEED_LIMIT_MAX = 50
REQUEST_ID_CHARS_MAX = 64
RequestId = Annotated[
    str | None,
    Header("X-Request-Id"),
    Meta(
        description=f"Your id for this request: 1 to {REQUEST_ID_CHARS_MAX} printable ASCII characters, no spaces. "
        "The served posts are logged under it; `meta.requestId` returns the id that was used."
    ),
]
FeedType = Literal["ranked", "latest"]
FeedTypeParameter = Annotated[
    FeedType,
    Meta(description="`ranked`: best first; `latest`: newest first, a pinned post at the time of its last pin."),
]
FeedLimit = Annotated[
    int | None, Meta(description=f"Posts a page, 1 to {FEED_LIMIT_MAX}; {LIMIT_DEFAULT} unless given.")
]
_encode = msgspec.json.Encoder().encode
_REQUEST_ID = re.compile(rf"[!-~]{{1,{REQUEST_ID_CHARS_MAX}}}")


class FeedMeta(msgspec.Struct, frozen=True, rename="camel"):
    """How the page was made. `requestId`: the name under which it is logged; yours if it is valid.

    `degraded`: parts that were unavailable. What the page does show is correct.
    """

    feed_type: FeedType
    generated_at: Time
    request_id: str
    degraded: list[str]


class FeedAnswer(msgspec.Struct, frozen=True):
    """A page of home. A page may be short or empty although more follow."""

    posts: list[PostAnswer]
    pagination: Pagination
    meta: FeedMeta


class ScorePart(msgspec.Struct, frozen=True):
    """One feature of a post: its value (0 to 1), its weight, and what it contributes to the score."""

    name: str
    value: float
    weight: float
    adds: float


class WhyAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """What decides the place of a post in the acting user's ranked home, at this moment.

    `score` is the sum of the contributions of all `parts`, times `damping`. `damping` is below 1 after "see fewer", and
    for a user's own post that the app limits. `excludedBy`: why the post is not shown whatever its score (not_followed,
    muted, hidden, copy), or is placed after unseen posts (seen). `copyOf`: the post that is shown instead of this copy.
    """

    id: str
    score: float
    reason: str
    parts: list[ScorePart]
    damping: float
    excluded_by: list[str]
    copy_of: str | None


class HomeResource:
    """The acting user's home. `note` is called with the id of each user who reads their home."""

    def __init__(self, home: Home, posts: Posts, post_encoder: PostEncoder, note: Callable[[int], None]) -> None:
        self._home, self._posts, self._post_encoder, self._note = home, posts, post_encoder, note

    @get("/feed", "The acting user's home", callers="acting", quota="feed", answers=FeedAnswer)
    async def feed(
        self,
        call: Call,
        named: RequestId = None,
        type: FeedTypeParameter = "ranked",
        limit: FeedLimit = None,
        cursor: Cursor = None,
        refresh: Annotated[bool, Meta(description="Read the outboxes instead of the timeline.")] = False,
    ) -> bytes:
        """Posts of the users whom the acting user follows, posts pinned on boards that they follow, and their own
        posts. Each post appears once, however far they scroll.

        The ranked feed shows unseen posts first, then posts that the user saw before, marked `seen`. A page has at most
        2 posts per author while other authors have posts left. Of several copies of a post one is shown; it names the
        others in `copies`. New posts do not reorder pages that were already read.
        """
        limit = LIMIT_DEFAULT if limit is None else limit
        if not 1 <= limit <= FEED_LIMIT_MAX:
            raise BadRequest(f"limit must be from 1 to {FEED_LIMIT_MAX}", limit=limit)
        self._note(call.acting_user)
        request_id = named if named is not None and _REQUEST_ID.fullmatch(named) else secrets.token_hex(8)
        with _unavailable():
            if type == "ranked":
                posts, following, degraded = await self._ranked(call, limit, cursor, refresh, request_id)
            else:
                posts, following, degraded = await self._latest(call, limit, cursor, refresh)
        pagination = Pagination(next_cursor=following, prev_cursor=None, has_more=following is not None)
        meta = FeedMeta(type, datetime.now(UTC), request_id, degraded)
        return b'{"posts":%b,"pagination":%b,"meta":%b}' % (posts, _encode(pagination), _encode(meta))

    @get("/posts/{post_id}/why", "Why a post has its place in my home", callers="acting", quota="feed")
    async def why_post(self, call: Call, post_id: Id) -> WhyAnswer:
        """404 if the post is hidden from the acting user or does not exist."""
        post = await self._posts.get(call.acting_user, post_id)
        why = await self._home.why(call.acting_user, post)
        return WhyAnswer(
            str(post.id),
            round(why.placed.score, 4),
            why.placed.reason,
            [ScorePart(name, *(round(number, 4) for number in numbers)) for name, *numbers in why.parts],
            round(why.damping, 4),
            why.excluded_by,
            None if why.copy_of is None else str(why.copy_of),
        )

    async def _latest(
        self, call: Call, limit: int, cursor: str | None, refresh: bool
    ) -> tuple[bytes, str | None, list[str]]:
        reader, list_key, must_reflect = call.acting_user, f"feed latest {call.acting_user}", call.must_reflect()
        window, encoder = call.window(list_key, limit, cursor), self._post_encoder.of(reader)
        page = await self._home.latest(
            reader, window, must_reflect=must_reflect, refresh=refresh, prefetch=encoder.read
        )
        following = None if page.rest is None else call.next_cursor(list_key, page.rest, page.until)
        return await encoder.encoded(page), following, page.degraded

    async def _ranked(
        self, call: Call, limit: int, cursor: str | None, refresh: bool, request_id: str
    ) -> tuple[bytes, str | None, list[str]]:
        reader, list_key, must_reflect = call.acting_user, f"feed ranked {call.acting_user}", call.must_reflect()
        slate, encoder = None if not cursor else unpack(call.unseal(list_key, cursor)), self._post_encoder.of(reader)
        page = await self._home.ranked(
            reader, limit, slate, request=request_id, must_reflect=must_reflect, refresh=refresh, prefetch=encoder.read
        )
        following = None if page.rest is None else call.seal(list_key, page.rest.pack())
        return await encoder.encoded(page), following, page.degraded


@contextlib.contextmanager
def _unavailable() -> Iterator[None]:
    """Turns every error that prevents a feed into FEED_UNAVAILABLE, the one error that the article names."""
    try:
        yield
    except Unavailable as error:
        raise FeedUnavailable(f"no feed can be made now; try again. {error.for_clients}", cause=error.code) from error
