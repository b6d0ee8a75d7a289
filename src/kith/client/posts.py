"""Calls about posts and what people do with them. As in `graphs`, nothing is sent here.

Fields to change are passed by name. A field left out (`UNSET`) stays as it is; None removes it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from kith.client.answers import Id, Page
from kith.client.asking import (
    BASE,
    LOOKUP_MAX,
    PAGE_SIZE,
    batches,
    checked_id,
    checked_ids,
    given,
    listed,
    nothing,
    once,
    reader,
    user_path,
    whole,
)
from kith.client.objects import (
    Hidden,
    Liked,
    ListedUser,
    Location,
    Post,
    PostCreated,
    Saved,
    Shared,
    Viewed,
    Visibility,
)
from kith.client.wire import Call


class _Posts(msgspec.Struct):
    posts: list[Post | None]


class _PostsViewed(msgspec.Struct):
    posts: list[Viewed | None]


_post = reader(Post)
_posts = reader(_Posts)
_page = reader(Page[Post])
_likes = reader(Page[ListedUser])
_created = reader(PostCreated)
_liked = reader(Liked)
_saved = reader(Saved)
_shared = reader(Shared)
_viewed = reader(Viewed)
_all_viewed = reader(_PostsViewed)
_hidden = reader(Hidden)


def create_post(
    text: str = "",
    *,
    link: str | None = None,
    media: Sequence[Id] = (),
    visibility: Visibility = "public",
    audience: Sequence[Id] = (),
    mentions: Sequence[Id] = (),
    attributes: dict[str, Any] | None = None,
    allow_comments: bool = True,
    allow_sharing: bool = True,
    location: Location | None = None,
    key: str | None = None,
) -> Call[PostCreated]:
    """Create a post of the acting user.

    `media`: ids of uploads of the acting user. `audience`: who may see the post if `visibility` is `custom`. `key`: the
    idempotency key; random by default, so that a retry of this client posts nothing twice. Within 24 h the same key
    creates one post, however often it is sent.
    """
    body = {
        "content": content_of(text, link, media),
        "visibility": visibility,
        "audience": checked_ids(audience, "audience"),
        "mentions": checked_ids(mentions, "mentions"),
        "attributes": attributes or {},
        "allowComments": allow_comments,
        "allowSharing": allow_sharing,
        "location": location,
    }
    return Call("POST", f"{BASE}/posts", _created, body=body, headers=once(key))


def post(post: Id) -> Call[Post]:
    """A post; ApiError 404 if there is none that the acting user may see."""
    return Call("GET", post_path(post), _post)


def lookup_posts(ids: Iterable[Id]) -> Generator[Call[Any], Any, list[Post | None]]:
    """The post of each id, or None if the acting user may not see it. Any number of ids."""
    posts: list[Post | None] = []
    for batch in batches(ids, "ids", LOOKUP_MAX):
        answer = yield from Call("POST", f"{BASE}/posts/lookup", _posts, body={"ids": batch})
        posts += whole(answer.posts, batch)
    return posts


def edit_post(
    post: Id,
    *,
    text: str | UnsetType = UNSET,
    link: str | UnsetType | None = UNSET,
    media: Sequence[Id] | UnsetType | None = UNSET,
    visibility: Visibility | UnsetType = UNSET,
    audience: Sequence[Id] | UnsetType = UNSET,
    mentions: Sequence[Id] | UnsetType = UNSET,
    attributes: dict[str, Any] | UnsetType = UNSET,
    allow_comments: bool | UnsetType = UNSET,
    allow_sharing: bool | UnsetType = UNSET,
    location: Location | UnsetType | None = UNSET,
) -> Call[Post]:
    """Change the given fields of a post of the acting user, and no others. None removes link, media or location."""
    content = given(text=text, link=link, mediaIds=media if not media else checked_ids(media, "media"))
    changes = given(
        content=content or UNSET,
        visibility=visibility,
        audience=audience if audience is UNSET else checked_ids(audience, "audience"),
        mentions=mentions if mentions is UNSET else checked_ids(mentions, "mentions"),
        attributes=attributes,
        allowComments=allow_comments,
        allowSharing=allow_sharing,
        location=location,
    )
    return Call("PATCH", post_path(post), _post, body=changes)


def delete_post(post: Id) -> Call[None]:
    """Delete a post of the acting user, for good."""
    return Call("DELETE", post_path(post), nothing, deletes=True)


def user_posts(
    user: Id,
    *,
    since: int | None = None,
    until: int | None = None,
    page_size: int = PAGE_SIZE,
    cursor: str | None = None,
) -> Call[Page[Post]]:
    """The posts of `user` that the acting user may see, newest first.

    `since` (inclusive) and `until` (exclusive): only posts created between these times, in ms since the epoch.
    """
    return listed(f"{user_path(user)}/posts", _page, page_size, cursor).asking(since=since, until=until)


def mentions(user: Id, *, page_size: int = PAGE_SIZE, cursor: str | None = None) -> Call[Page[Post]]:
    """The posts that mention `user`, newest first. Only `user` may read them."""
    return listed(f"{user_path(user)}/mentions", _page, page_size, cursor)


def saved_posts(user: Id, *, page_size: int = PAGE_SIZE, cursor: str | None = None) -> Call[Page[Post]]:
    """The posts that `user` saved, newest save first. Only `user` may read them."""
    return listed(f"{user_path(user)}/saved", _page, page_size, cursor)


def post_likes(post: Id, *, page_size: int = PAGE_SIZE, cursor: str | None = None) -> Call[Page[ListedUser]]:
    """The users who like a post, newest like first."""
    return listed(f"{post_path(post)}/likes", _likes, page_size, cursor)


# --- what people do with posts; every call here is idempotent


def like_post(post: Id) -> Call[Liked]:
    """Like a post."""
    return Call("POST", f"{post_path(post)}/like", _liked)


def unlike_post(post: Id) -> Call[Liked]:
    """Undo `like_post`."""
    return Call("DELETE", f"{post_path(post)}/like", _liked)


def save_post(post: Id) -> Call[Saved]:
    """Save a post."""
    return Call("POST", f"{post_path(post)}/save", _saved)


def unsave_post(post: Id) -> Call[Saved]:
    """Undo `save_post`."""
    return Call("DELETE", f"{post_path(post)}/save", _saved)


def share_post(post: Id) -> Call[Shared]:
    """Share a post."""
    return Call("POST", f"{post_path(post)}/share", _shared)


def unshare_post(post: Id) -> Call[Shared]:
    """Undo `share_post`."""
    return Call("DELETE", f"{post_path(post)}/share", _shared)


def view_post(post: Id) -> Call[Viewed]:
    """Record that the acting user has seen a post. Each user counts once."""
    return Call("POST", f"{post_path(post)}/view", _viewed)


def view_posts(ids: Iterable[Id]) -> Generator[Call[Any], Any, list[Viewed | None]]:
    """`view_post` for many posts, 100 in a request and a write. None for each post that the acting user may not see."""
    views: list[Viewed | None] = []
    for batch in batches(ids, "ids", LOOKUP_MAX):
        answer = yield from Call("POST", f"{BASE}/posts/view", _all_viewed, body={"ids": batch})
        views += whole(answer.posts, batch)
    return views


def hide_post(post: Id) -> Call[Hidden]:
    """Hide a post from the acting user's feed. Nobody else is notified."""
    return Call("POST", f"{post_path(post)}/hide", _hidden)


def unhide_post(post: Id) -> Call[Hidden]:
    """Undo `hide_post`."""
    return Call("DELETE", f"{post_path(post)}/hide", _hidden)


def post_path(post: Id) -> str:
    """The path of a post."""
    return f"{BASE}/posts/{checked_id(post, 'post')}"


def content_of(text: str, link: str | None, media: Iterable[Id]) -> dict[str, Any]:
    """The content of a new post or story, as requests carry it."""
    content = {"text": text, "mediaIds": checked_ids(media, "media")}
    return content if link is None else {**content, "link": link}
