"""/posts: creates, reads, edits and deletes posts (article 001)."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from kith.access.policy import ReadPolicy, check_own_read
from kith.api.answers import LookupRequest, Time, check_lookup, ids_of, with_bounds
from kith.api.call import Call
from kith.api.operations import delete, get, patch, post, post_query
from kith.api.parameters import Cursor, Id, IdempotencyKey, ObjectLimit, Since, Until
from kith.api.post_encoder import PostEncoder
from kith.api.presenter import AuthorAnswer, ContentAnswer, PostAnswer, PostsAnswer, Presenter, time_of
from kith.core.gathering import gather
from kith.posts.post import Draft, Location, PostEdit, PostType, Visibility
from kith.posts.posts import Posts
from kith.records.fields import pack_attributes

_encode = msgspec.json.Encoder().encode


class ContentRequest(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """The content of a post. `mediaIds`: uploads of the author. `type` is derived from the other fields; if you send
    it, it must match them.
    """

    text: str = ""
    type: PostType | None = None
    link: str | None = None
    media_ids: list[int | str] = []


class LocationRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Where a post is from: degrees north and east, and the name of the place."""

    latitude: float
    longitude: float
    name: str = ""


class DraftRequest(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """The fields that posts and stories share."""

    content: ContentRequest
    visibility: Visibility = "public"
    audience: list[int | str] = []
    mentions: list[int | str] = []
    attributes: dict[str, Any] = {}

    def draft(self) -> Draft:
        """The draft as the services take it."""
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
    """A new post. `audience`: the users who may see it if `visibility` is `custom`. `attributes`: any data of
    your app.
    """

    allow_comments: bool = True
    allow_sharing: bool = True
    location: LocationRequest | None = None


class ContentChange(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """The content to change. Fields that are left out keep their value; null removes the link or the media."""

    text: str | UnsetType = UNSET
    link: str | UnsetType | None = UNSET
    media_ids: list[int | str] | UnsetType | None = UNSET


class PostChange(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """The fields of a post to change. Fields that are left out keep their value; a null `location` removes the
    location.
    """

    content: ContentChange | UnsetType = UNSET
    visibility: Visibility | UnsetType = UNSET
    audience: list[int | str] | UnsetType = UNSET
    mentions: list[int | str] | UnsetType = UNSET
    attributes: dict[str, Any] | UnsetType = UNSET
    allow_comments: bool | UnsetType = UNSET
    allow_sharing: bool | UnsetType = UNSET
    location: LocationRequest | UnsetType | None = UNSET


class PostCreated(msgspec.Struct, frozen=True, rename="camel"):
    """A post that is stored. `fanoutStatus`: `pending` while it is being delivered to the followers' feeds."""

    id: str
    author: AuthorAnswer
    content: ContentAnswer
    created_at: Time
    visibility: Visibility
    fanout_status: str = "pending"


class PostsLookedUp(msgspec.Struct, frozen=True):
    """One answer per id, in the order of the request."""

    posts: list[PostAnswer | None]


class PostsResource:
    """All posts, limited to those that the caller may see."""

    def __init__(self, posts: Posts, access: ReadPolicy, present: Presenter, post_encoder: PostEncoder) -> None:
        self._posts, self._access, self._present, self._post_encoder = posts, access, present, post_encoder

    @post("/posts", "Create a post", status=201, callers="acting", quota="posts")
    async def create_post(self, call: Call, body: PostRequest, idempotency_key: IdempotencyKey = None) -> PostCreated:
        """The post is stored before the answer; it reaches feeds afterwards (`fanoutStatus`)."""
        draft = msgspec.structs.replace(
            body.draft(),
            allow_comments=body.allow_comments,
            allow_sharing=body.allow_sharing,
            location=_location(body.location),
        )
        created, (authors, media) = await gather(
            self._posts.store.immediate,
            call.perform_write(self._posts.create(call.acting_user, draft, idempotency_key)),
            self._present.authors_and_media([call.acting_user], draft.media),
        )
        if created.media != draft.media:  # it is the post of an earlier request, and was changed since
            authors, media = await self._present.authors_and_media([call.acting_user], created.media)
        content = self._present.content(created, media)
        return PostCreated(
            str(created.id), authors[created.author], content, time_of(created.created_at), created.visibility
        )

    @get("/posts/{post_id}", "A post", answers=PostAnswer)
    async def get_post(self, call: Call, post_id: Id) -> bytes:
        """404 if the post does not exist, is deleted, or is hidden from the acting user."""
        if call.caller.user is not None and self._post_encoder.immediate:
            return await self._post_encoder.one(call.caller.user, post_id)
        (answer,) = await self._present.posts_if_visible(call.viewer, await self._posts.read([post_id]))
        if answer is None:
            raise self._posts.missing(post_id)
        return _encode(answer)

    @post_query("/posts/lookup", "Many posts by id")
    async def lookup_posts(self, call: Call, body: LookupRequest) -> PostsLookedUp:
        """One answer per id, in the order of the request: null where GET would answer 404. At most 100 ids."""
        posts = await self._posts.read(check_lookup(body.ids))
        return PostsLookedUp(await self._present.posts_if_visible(call.viewer, posts))

    @patch("/posts/{post_id}", "Change a post", callers="acting")
    async def edit_post(self, call: Call, post_id: Id, body: PostChange) -> PostAnswer:
        """Only the author may change a post."""
        content = body.content or ContentChange()
        change = PostEdit(
            content.text,
            content.link,
            UNSET if content.media_ids is UNSET else ids_of(content.media_ids or [], "mediaIds"),
            body.visibility,
            UNSET if body.audience is UNSET else ids_of(body.audience, "audience"),
            UNSET if body.mentions is UNSET else ids_of(body.mentions, "mentions"),
            UNSET if body.attributes is UNSET else pack_attributes(body.attributes),
            body.allow_comments,
            body.allow_sharing,
            UNSET if body.location is UNSET else _location(body.location),
        )
        edited, mark = await self._posts.edit(call.acting_user, post_id, change)
        call.note_write(mark)
        return (await self._present.posts(call.viewer, [edited]))[0]

    @delete("/posts/{post_id}", "Delete a post", status=204, callers="acting")
    async def delete_post(self, call: Call, post_id: Id) -> None:
        """Permanent, content included. Only the author may delete a post."""
        call.note_write(await self._posts.delete(call.acting_user, post_id))

    @get("/users/{user_id}/posts", "The posts of a user")
    async def user_posts(
        self,
        call: Call,
        user_id: Id,
        limit: ObjectLimit = None,
        cursor: Cursor = None,
        since: Since = None,
        until: Until = None,
    ) -> PostsAnswer:
        """Newest first, without posts that the acting user may not see. If they may see few of very many posts, a page
        may be short or empty although more follow.
        """
        list_key = with_bounds(f"posts {user_id}", since, until)
        window = call.window_of_objects(list_key, limit, cursor, since, until)
        details, prefetch = self._present.prefetch_details(call.viewer)
        _, (posts, page) = await gather(
            self._posts.store.immediate,
            self._access.check_may_see_lists(call.caller, user_id),
            self._posts.outbox(call.viewer, user_id, window, prefetch),
        )
        return PostsAnswer(
            await self._present.posts(call.viewer, posts, known=details), call.pagination(list_key, page)
        )

    @get("/users/{user_id}/mentions", "Posts that mention a user")
    async def mentions(self, call: Call, user_id: Id, limit: ObjectLimit = None, cursor: Cursor = None) -> PostsAnswer:
        """Only the user may read this list. Newest first, without posts that they may not see."""
        check_own_read(call.caller, user_id)
        list_key = f"mentions {user_id}"
        window, (details, prefetch) = (
            call.window_of_objects(list_key, limit, cursor),
            self._present.prefetch_details(call.viewer),
        )
        posts, page = await self._posts.mentioning(call.viewer, user_id, window, prefetch)
        return PostsAnswer(
            await self._present.posts(call.viewer, posts, known=details), call.pagination(list_key, page)
        )


def _location(request: LocationRequest | None) -> Location | None:
    return None if request is None else Location(request.latitude, request.longitude, request.name)
