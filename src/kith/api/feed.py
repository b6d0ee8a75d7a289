"""/feed: the home feed (article 001), and why a post stands where it does in it."""

from __future__ import annotations

import contextlib
import re
import secrets
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import msgspec
from litestar import Request, Response, delete, get, post
from litestar.params import HeaderParameter, Parameter

from kith.access.guard import Caller
from kith.api.answers import Call
from kith.api.backend import TOKEN_HEADER, Backend, Pagination
from kith.api.graphs import Cursor, PathId, token_header
from kith.api.presenting import PostAnswer, RankingAnswer, present_posts
from kith.core.errors import BadRequest, FeedUnavailable, NotFound, Unavailable
from kith.core.ids import parse_id
from kith.core.paging import LIMIT_DEFAULT
from kith.home.slate import unpack
from kith.people.relations import RelationWritten

FEED = "/api/v1/feed"
FEED_LIMIT_MAX = 50
REQUEST_ID_CHARS_MAX = 64
RequestId = Annotated[
    str | None,
    HeaderParameter(
        name="X-Request-Id",
        description=f"Your name for this request: 1 to {REQUEST_ID_CHARS_MAX} printable ASCII characters, no spaces. "
        "What was served is logged under it; `meta.requestId` says what name was used.",
        required=False,
    ),
]
FeedType = Literal["ranked", "latest"]
_PLAIN = re.compile(r"type=(ranked|latest)|limit=(0|[1-9][0-9]{0,2})|cursor=[A-Za-z0-9_-]+|refresh=(true|false)")
_REQUEST_ID = re.compile(rf"[!-~]{{1,{REQUEST_ID_CHARS_MAX}}}")
FeedLimit = Annotated[
    int | None, Parameter(description=f"Posts a page, 1 to {FEED_LIMIT_MAX}; {LIMIT_DEFAULT} unless given.")
]


class FeedMeta(msgspec.Struct, frozen=True, rename="camel"):
    """How the page was made. `requestId`: what it is logged under, yours where that can be used.

    `degraded`: parts that were not available; what is there is right.
    """

    feed_type: FeedType
    generated_at: datetime
    request_id: str
    degraded: list[str]


class FeedAnswer(msgspec.Struct, frozen=True):
    """A page of home. It may be short, even empty, and still have more."""

    posts: list[PostAnswer]
    pagination: Pagination
    meta: FeedMeta


class Part(msgspec.Struct, frozen=True):
    """One feature of a post: its value (0 to 1), its weight, and what it adds to the score."""

    name: str
    value: float
    weight: float
    adds: float


class WhyAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """What decides the place of a post in the acting user's ranked home, as of now.

    `score` is the sum of what the `parts` add, times `damping` (below 1 after "see fewer", and where the app limits a
    post of one's own). `excludedBy`: what keeps it out whatever its score (not_followed, muted, hidden, seen).
    """

    id: str
    score: float
    reason: str
    parts: list[Part]
    damping: float
    excluded_by: list[str]


class FewerAnswer(msgspec.Struct, frozen=True):
    """Whether the acting user sees fewer posts of an author for a time. Nobody else learns of it."""

    fewer: bool


@get("/feed", summary="The acting user's home", name="feed")
async def feed(
    request: Request[Any, Any, Any],
    call: Call,
    named: RequestId = None,
    type: Annotated[FeedType, Parameter(description="`ranked`: best first; `latest`: newest first.")] = "ranked",
    limit: FeedLimit = None,
    cursor: Cursor = None,
    refresh: Annotated[bool, Parameter(description="Read past the timeline, from the outboxes.")] = False,
) -> FeedAnswer:
    """Posts of those whom the acting user follows, and their own, each once, however far one scrolls.

    Ranked: unseen posts, at most 2 an author on a page, near-duplicates once; new posts do not move what was paged.
    """
    asked = Asked(type, LIMIT_DEFAULT if limit is None else limit, cursor, refresh)
    return await _home(call, asked, request.headers.get(TOKEN_HEADER), named)


class Asked(msgspec.Struct, frozen=True):
    """What a query asks for."""

    type: FeedType = "ranked"
    limit: int = LIMIT_DEFAULT
    cursor: str | None = None
    refresh: bool = False


def read_plain(query: str) -> Asked | None:
    """A query written as most are; None for any other, which the framework takes, as it can say what is wrong."""
    if not query:
        return Asked()
    parts = query.split("&")
    given = dict(part.split("=") for part in parts) if all(map(_PLAIN.fullmatch, parts)) else {}
    return msgspec.convert(given, Asked, strict=False) if len(given) == len(parts) else None


async def answer_plain(backend: Backend, caller: Caller, asked: Asked, header: Callable[[str], str | None]) -> bytes:
    """The body of an answer, for the front door."""
    charge = backend.quotas.take(caller, "feed")
    try:
        answer = await _home(Call(backend, caller), asked, header(TOKEN_HEADER), header("x-request-id"))
    except BaseException as error:
        if charge is not None:
            backend.quotas.give_back(charge, error)
        raise
    return msgspec.json.encode(answer)


async def _home(call: Call, asked: Asked, token: str | None, named: str | None) -> FeedAnswer:
    """A page of the acting user's home. `named`: what the client calls the request."""
    kind, limit, cursor, refresh = asked.type, asked.limit, asked.cursor, asked.refresh
    if not 1 <= limit <= FEED_LIMIT_MAX:
        raise BadRequest(f"limit must be from 1 to {FEED_LIMIT_MAX}", limit=limit)
    seen = 0 if token is None else call.backend.tokens.read(token).sequence
    request_id = named if named is not None and _REQUEST_ID.fullmatch(named) else secrets.token_hex(8)
    show = _ranked if kind == "ranked" else _latest
    with unavailable():
        posts, following, degraded = await show(call, limit, cursor, seen, refresh, request_id)
    return FeedAnswer(
        posts,
        Pagination(next_cursor=following, prev_cursor=None, has_more=following is not None),
        FeedMeta(kind, datetime.now(UTC), request_id, degraded),
    )


async def _latest(
    call: Call, limit: int, cursor: str | None, seen: int, refresh: bool, request_id: str
) -> tuple[list[PostAnswer], str | None, list[str]]:
    reader, query = call.acting, f"feed latest {call.acting}"
    page = await call.backend.feed.latest(reader, call.window(query, limit, cursor), seen=seen, refresh=refresh)
    following = None if page.end is None else call.backend.cursors.next(f"{call.caller.reader()} {query}", page.end)
    return await present_posts(call, page.posts), following, page.degraded


async def _ranked(
    call: Call, limit: int, cursor: str | None, seen: int, refresh: bool, request_id: str
) -> tuple[list[PostAnswer], str | None, list[str]]:
    reader, cursors = call.acting, call.backend.cursors
    query = f"{call.caller.reader()} feed ranked {reader}"
    slate = None if not cursor else unpack(cursors.open(cursor, query))
    page = await call.backend.feed.ranked(reader, limit, slate, request=request_id, seen=seen, refresh=refresh)
    rankings = {id_: RankingAnswer(round(placed.score, 4), placed.reason) for id_, placed in page.placed.items()}
    following = None if page.rest is None else cursors.seal(query, page.rest.pack())
    return await present_posts(call, page.posts, rankings), following, page.degraded


@get("/posts/{post_id:str}/why", summary="Why a post stands where it does in my home", name="why_post")
async def why_post(call: Call, post_id: PathId) -> WhyAnswer:
    """404 for what is not there for the acting user."""
    found = await call.backend.objects.get(call.acting, parse_id(post_id))
    why = await call.backend.feed.why(call.acting, found)
    return WhyAnswer(
        str(found.id),
        round(why.placed.score, 4),
        why.placed.reason,
        [Part(name, *(round(number, 4) for number in numbers)) for name, *numbers in why.parts],
        round(why.damping, 4),
        why.excluded_by,
    )


@post("/users/{user_id:str}/see-fewer", summary="See fewer posts of a user", status_code=200, name="see_fewer")
async def see_fewer(call: Call, user_id: PathId) -> Response[FewerAnswer]:
    """Their posts rank lower from now on, which fades over the months. Saying it again begins anew."""
    return _fewer(call, await call.backend.relations.see_fewer(call.acting, parse_id(user_id)))


@delete("/users/{user_id:str}/see-fewer", summary="See a user's posts as before", status_code=200, name="see_as_before")
async def see_as_before(call: Call, user_id: PathId) -> Response[FewerAnswer]:
    """Repeating it changes nothing."""
    return _fewer(call, await call.backend.relations.see_as_before(call.acting, parse_id(user_id)))


def _fewer(call: Call, written: RelationWritten) -> Response[FewerAnswer]:
    return Response(FewerAnswer(written.holds), headers=token_header(call.backend.token(written.mark)))


@get("/feed/stream", summary="What changes, as it happens", name="feed_stream", media_type="text/event-stream")
async def feed_stream(
    call: Call,
    posts: Annotated[
        str | None,
        Parameter(description="Ids of posts on the screen, by commas: they are watched. Otherwise the newest at home."),
    ] = None,
    last_event_id: Annotated[
        str | None,
        Parameter(query="lastEventId", description="Where to resume, for clients that cannot set Last-Event-ID."),
    ] = None,
) -> str:
    """Server-Sent Events for the acting user, until either side ends it.

    `new_post` {postId, authorId, preview, labels}: by those whom they follow, or by them; blur the preview of what is
    `sensitive`. `engagement_update` {postId, likeCount, commentCount, shareCount, viewCount}: of posts that are watched
    (those named, those told of here, their own newest), once a second at most. `post_removed` {postId, reason}. `reset`
    {reason}: what was missed cannot be told, load the feed anew; the stream ends, and the next one goes on from there.
    Every event has an id: a client that comes back with it in Last-Event-ID misses nothing, whichever process it meets.
    """
    raise NotFound("the front door answers streams (`api.stream`); this stands for it in the document")


@contextlib.contextmanager
def unavailable() -> Iterator[None]:
    """Whatever keeps a feed from being made at all, as the one error that the article names for it."""
    try:
        yield
    except Unavailable as error:
        raise FeedUnavailable(f"no feed can be made now; try again. {error.message}", cause=error.code) from error


ROUTES = [feed, why_post, see_fewer, see_as_before, feed_stream]
