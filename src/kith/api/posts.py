"""/posts: making, reading, editing and deleting posts, and what people do with them (article 001)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import msgspec
from litestar import Response, delete, get, patch, post
from litestar.params import HeaderParameter
from msgspec import UNSET, UnsetType

from kith.api.answers import Call, LookupRequest, check_lookup, ranged
from kith.api.graphs import Cursor, ObjectLimit, PathId, Since, Until, token_header
from kith.api.presenting import (
    AuthorAnswer,
    ContentAnswer,
    PostAnswer,
    PostsAnswer,
    authors_and_media,
    content_of,
    present_posts,
    time_of,
)
from kith.core.ids import parse_id
from kith.graph.graphs import HIDES, LIKES, SAVES, SHARES, VIEWS
from kith.posts.engagement import Engaged
from kith.posts.post import Draft, Location, PostEdit, PostType, Visibility
from kith.records.fields import pack_attributes

IdempotencyKey = Annotated[
    str | None,
    HeaderParameter(
        name="Idempotency-Key",
        description="Repeating the same content with the same key within 24 h makes nothing a second time.",
        required=False,
    ),
]


class ContentRequest(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """What a post says. `mediaIds`: uploads of the author. `type` follows from the rest; given, it must fit."""

    text: str = ""
    type: PostType | None = None
    link: str | None = None
    media_ids: list[int | str] = []


class LocationRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Where a post is from: degrees north and east, and what people call the place."""

    latitude: float
    longitude: float
    name: str = ""


class DraftRequest(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """What posts and stories begin with."""

    content: ContentRequest
    visibility: Visibility = "public"
    audience: list[int | str] = []
    mentions: list[int | str] = []
    attributes: dict[str, Any] = {}

    def draft(self) -> Draft:
        """The same as the services take it."""
        content = self.content
        return Draft(
            content.type,
            content.text,
            content.link,
            ids_of(content.media_ids, "mediaIds"),
            self.visibility,
            ids_of(self.audience, "audience"),
            ids_of(self.mentions, "mentions"),
            pack_attributes(self.attributes),
        )


class PostRequest(DraftRequest, forbid_unknown_fields=True, rename="camel"):
    """A new post. `audience`: users who may see it, where `visibility` is custom. `attributes`: your app's own."""

    allow_comments: bool = True
    allow_sharing: bool = True
    location: LocationRequest | None = None


class ContentChange(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """What to change of what a post says; what is left out stays, null takes link and media away."""

    text: str | UnsetType = UNSET
    link: str | UnsetType | None = UNSET
    media_ids: list[int | str] | UnsetType | None = UNSET


class PostChange(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """What to change of a post; what is left out stays. A `location` of null takes it away."""

    content: ContentChange | UnsetType = UNSET
    visibility: Visibility | UnsetType = UNSET
    audience: list[int | str] | UnsetType = UNSET
    mentions: list[int | str] | UnsetType = UNSET
    attributes: dict[str, Any] | UnsetType = UNSET
    allow_comments: bool | UnsetType = UNSET
    allow_sharing: bool | UnsetType = UNSET
    location: LocationRequest | UnsetType | None = UNSET


class PostCreated(msgspec.Struct, frozen=True, rename="camel"):
    """A post that is stored; its way into the followers' feeds has begun."""

    id: str
    author: AuthorAnswer
    content: ContentAnswer
    created_at: datetime
    visibility: Visibility
    fanout_status: str = "pending"


class PostsLookedUp(msgspec.Struct, frozen=True):
    """One answer an id."""

    posts: list[PostAnswer | None]


class Liked(msgspec.Struct, frozen=True, rename="camel"):
    """Whether the acting user likes it, how many do, and when that changed."""

    liked: bool
    like_count: int
    timestamp: datetime


class Saved(msgspec.Struct, frozen=True, rename="camel"):
    """Whether the acting user has saved it, how many have, and when that changed."""

    saved: bool
    save_count: int
    timestamp: datetime


class Shared(msgspec.Struct, frozen=True, rename="camel"):
    """Whether the acting user has shared it, how many have, and when that changed."""

    shared: bool
    share_count: int
    timestamp: datetime


class Viewed(msgspec.Struct, frozen=True, rename="camel"):
    """That the acting user has seen it, how many have, and when they first did."""

    viewed: bool
    view_count: int
    timestamp: datetime


class PostsViewed(msgspec.Struct, frozen=True):
    """One answer an id."""

    posts: list[Viewed | None]


class Hidden(msgspec.Struct, frozen=True):
    """Whether the acting user no longer wants to see it, and when that changed. Nobody else learns of it."""

    hidden: bool
    timestamp: datetime


@post("/posts", summary="Make a post", status_code=201, name="create_post")
async def create_post(call: Call, data: PostRequest, idempotency_key: IdempotencyKey = None) -> Response[PostCreated]:
    """Stored when answered; feeds follow (`fanoutStatus`)."""
    draft = msgspec.structs.replace(
        data.draft(),
        allow_comments=data.allow_comments,
        allow_sharing=data.allow_sharing,
        location=_location(data.location),
    )
    made, mark = await call.backend.objects.create(call.acting, draft, idempotency_key)
    authors, media = await authors_and_media(call, [made.author], made.media)
    content = content_of(call, made, media)
    answer = PostCreated(str(made.id), authors[made.author], content, time_of(made.created_at), made.visibility)
    return Response(answer, status_code=201, headers=token_header(call.backend.token(mark)))


@get("/posts/{post_id:str}", summary="A post", name="get_post")
async def get_post(call: Call, post_id: PathId) -> PostAnswer:
    """404 for what does not exist, is deleted, or is not there for the acting user."""
    return await _shown(call, post_id)


@post("/posts/lookup", summary="Many posts by id", status_code=200, name="lookup_posts")
async def lookup_posts(call: Call, data: LookupRequest) -> PostsLookedUp:
    """One answer an id, in their order: null where GET would answer 404. 100 ids at most."""
    found = await call.backend.objects.visible(call.caller.user, check_lookup(data.ids))
    shown = iter(await present_posts(call, [post for post in found if post is not None]))
    return PostsLookedUp([None if post is None else next(shown) for post in found])


@patch("/posts/{post_id:str}", summary="Change a post", name="edit_post")
async def edit_post(call: Call, post_id: PathId, data: PostChange) -> Response[PostAnswer]:
    """Its author only."""
    content = data.content or ContentChange()
    change = PostEdit(
        content.text,
        content.link,
        UNSET if content.media_ids is UNSET else ids_of(content.media_ids or [], "mediaIds"),
        data.visibility,
        UNSET if data.audience is UNSET else ids_of(data.audience, "audience"),
        UNSET if data.mentions is UNSET else ids_of(data.mentions, "mentions"),
        UNSET if data.attributes is UNSET else pack_attributes(data.attributes),
        data.allow_comments,
        data.allow_sharing,
        UNSET if data.location is UNSET else _location(data.location),
    )
    edited, mark = await call.backend.objects.edit(call.acting, parse_id(post_id), change)
    (answer,) = await present_posts(call, [edited])
    return Response(answer, headers=token_header(call.backend.token(mark)))


@delete("/posts/{post_id:str}", summary="Delete a post", status_code=204, name="delete_post")
async def delete_post(call: Call, post_id: PathId) -> Response[None]:
    """For good, what it said included. Its author only."""
    mark = await call.backend.objects.delete(call.acting, parse_id(post_id))
    return Response(None, status_code=204, headers=token_header(call.backend.token(mark)))


@get("/users/{user_id:str}/posts", summary="What a user posted", name="user_posts")
async def user_posts(
    call: Call,
    user_id: PathId,
    limit: ObjectLimit = None,
    cursor: Cursor = None,
    since: Since = None,
    until: Until = None,
) -> PostsAnswer:
    """Newest first: what of it the acting user may see. Where that is very little of much a page may be short, even
    empty, and still have more.
    """
    author, viewer, query = parse_id(user_id), call.caller.user, ranged(f"posts {user_id}", since, until)
    if viewer is not None:
        await call.backend.privacy.check_may_see(viewer, author)
    window = call.window_of_objects(query, limit, cursor, since, until)
    posts, page = await call.backend.objects.outbox(viewer, author, window)
    return PostsAnswer(await present_posts(call, posts), call.backend.paging(call.caller, query, page))


@post("/posts/{post_id:str}/like", summary="Like a post", status_code=200, name="like_post")
async def like_post(call: Call, post_id: PathId) -> Response[Liked]:
    """Repeating it changes nothing."""
    return liked(call, await call.backend.engagement.add(LIKES, call.acting, parse_id(post_id)))


@delete("/posts/{post_id:str}/like", summary="Take a like back", status_code=200, name="unlike_post")
async def unlike_post(call: Call, post_id: PathId) -> Response[Liked]:
    """Repeating it changes nothing."""
    return liked(call, await call.backend.engagement.drop(LIKES, call.acting, parse_id(post_id)))


@post("/posts/{post_id:str}/save", summary="Save a post", status_code=200, name="save_post")
async def save_post(call: Call, post_id: PathId) -> Response[Saved]:
    """Repeating it changes nothing."""
    return _answer(call, Saved, await call.backend.engagement.add(SAVES, call.acting, parse_id(post_id)))


@delete("/posts/{post_id:str}/save", summary="Unsave a post", status_code=200, name="unsave_post")
async def unsave_post(call: Call, post_id: PathId) -> Response[Saved]:
    """Repeating it changes nothing."""
    return _answer(call, Saved, await call.backend.engagement.drop(SAVES, call.acting, parse_id(post_id)))


@post("/posts/{post_id:str}/share", summary="Share a post", status_code=200, name="share_post")
async def share_post(call: Call, post_id: PathId) -> Response[Shared]:
    """Repeating it changes nothing."""
    return _answer(call, Shared, await call.backend.engagement.add(SHARES, call.acting, parse_id(post_id)))


@delete("/posts/{post_id:str}/share", summary="Take a share back", status_code=200, name="unshare_post")
async def unshare_post(call: Call, post_id: PathId) -> Response[Shared]:
    """Repeating it changes nothing."""
    return _answer(call, Shared, await call.backend.engagement.drop(SHARES, call.acting, parse_id(post_id)))


@post("/posts/{post_id:str}/view", summary="Tell that a post was seen", status_code=200, name="view_post")
async def view_post(call: Call, post_id: PathId) -> Response[Viewed]:
    """A user counts once, however often they look."""
    return _answer(call, Viewed, await call.backend.engagement.add(VIEWS, call.acting, parse_id(post_id)))


@post("/posts/view", summary="Tell that many posts were seen", status_code=200, name="view_posts")
async def view_posts(call: Call, data: LookupRequest) -> Response[PostsViewed]:
    """All of a page in one write. One answer an id, in their order: null where the other route would answer 404.
    100 ids at most.
    """
    seen, mark = await call.backend.engagement.add_many(VIEWS, call.acting, check_lookup(data.ids))
    posts = [None if one is None else Viewed(one.holds, one.total, time_of(one.at_ms)) for one in seen]
    return Response(PostsViewed(posts), headers=token_header(call.backend.token(mark)))


@post("/posts/{post_id:str}/hide", summary="Hide a post from my feed", status_code=200, name="hide_post")
async def hide_post(call: Call, post_id: PathId) -> Response[Hidden]:
    """Repeating it changes nothing."""
    return _hidden(call, await call.backend.engagement.add(HIDES, call.acting, parse_id(post_id)))


@delete("/posts/{post_id:str}/hide", summary="Show a post again", status_code=200, name="unhide_post")
async def unhide_post(call: Call, post_id: PathId) -> Response[Hidden]:
    """Repeating it changes nothing."""
    return _hidden(call, await call.backend.engagement.drop(HIDES, call.acting, parse_id(post_id)))


def liked(call: Call, engaged: Engaged) -> Response[Liked]:
    """The answer to a like of anything."""
    return _answer(call, Liked, engaged)


def _answer(call: Call, shape: Any, engaged: Engaged) -> Response[Any]:
    body = shape(engaged.holds, engaged.total, time_of(engaged.at_ms))
    return Response(body, headers=token_header(call.backend.token(engaged.mark)))


def _hidden(call: Call, engaged: Engaged) -> Response[Hidden]:
    return Response(
        Hidden(engaged.holds, time_of(engaged.at_ms)), headers=token_header(call.backend.token(engaged.mark))
    )


def ids_of(raw: list[int | str], field: str) -> tuple[int, ...]:
    """Ids of a request, each once, in their order."""
    return tuple(dict.fromkeys(parse_id(one, field) for one in raw))


def _location(asked: LocationRequest | None) -> Location | None:
    return None if asked is None else Location(asked.latitude, asked.longitude, asked.name)


async def _shown(call: Call, post_id: str) -> PostAnswer:
    found = await call.backend.objects.get(call.caller.user, parse_id(post_id))
    return (await present_posts(call, [found]))[0]


ROUTES = [
    create_post, get_post, lookup_posts, edit_post, delete_post, user_posts, like_post, unlike_post, save_post,
    unsave_post, share_post, unshare_post, view_post, view_posts, hide_post, unhide_post,
]  # fmt: skip
