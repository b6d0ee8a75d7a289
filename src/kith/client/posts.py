"""Calls about posts and what people do with them. As in `graphs`, nothing is sent.

What a call changes of a post is given by name: what is left out (`UNSET`) stays, and None takes it away.
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
    """Post as the acting user. The same `key` posts once within 24 h, however often it is sent; one is made if not
    given, so that what this client sends again after a lost answer is not posted twice.

    `media`: what the acting user uploaded. `audience`: who may see it, where `visibility` is custom.
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
    """A post; ApiError 404 where there is none for the acting user."""
    return Call("GET", post_path(post), _post)


def lookup_posts(ids: Iterable[Id]) -> Generator[Call[Any], Any, list[Post | None]]:
    """For each id the post, or None where there is none for the acting user. Any number of ids."""
    found: list[Post | None] = []
    for batch in batches(ids, "ids", LOOKUP_MAX):
        answer = yield from Call("POST", f"{BASE}/posts/lookup", _posts, body={"ids": batch})
        found += whole(answer.posts, batch)
    return found


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
    """Change what is given of a post of the acting user, and nothing else. None takes link, media or location away."""
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
    """What `user` posted and the acting user may see, newest first. `since` (inclusive) and `until` (exclusive): only
    what was made between these times, in ms since the epoch.
    """
    return listed(f"{user_path(user)}/posts", _page, page_size, cursor).asking(since=since, until=until)


def mentions(user: Id, *, page_size: int = PAGE_SIZE, cursor: str | None = None) -> Call[Page[Post]]:
    """The posts that mention `user`, newest first; the user's own."""
    return listed(f"{user_path(user)}/mentions", _page, page_size, cursor)


def saved_posts(user: Id, *, page_size: int = PAGE_SIZE, cursor: str | None = None) -> Call[Page[Post]]:
    """What `user` saved, the newest save first; the user's own."""
    return listed(f"{user_path(user)}/saved", _page, page_size, cursor)


def post_likes(post: Id, *, page_size: int = PAGE_SIZE, cursor: str | None = None) -> Call[Page[ListedUser]]:
    """Who likes a post, the newest like first."""
    return listed(f"{post_path(post)}/likes", _likes, page_size, cursor)


# --- what people do with posts; repeating any of it changes nothing


def like_post(post: Id) -> Call[Liked]:
    """Like a post."""
    return Call("POST", f"{post_path(post)}/like", _liked)


def unlike_post(post: Id) -> Call[Liked]:
    """Take a like back."""
    return Call("DELETE", f"{post_path(post)}/like", _liked)


def save_post(post: Id) -> Call[Saved]:
    """Save a post."""
    return Call("POST", f"{post_path(post)}/save", _saved)


def unsave_post(post: Id) -> Call[Saved]:
    """No longer keep a post saved."""
    return Call("DELETE", f"{post_path(post)}/save", _saved)


def share_post(post: Id) -> Call[Shared]:
    """Share a post."""
    return Call("POST", f"{post_path(post)}/share", _shared)


def unshare_post(post: Id) -> Call[Shared]:
    """Take a share back."""
    return Call("DELETE", f"{post_path(post)}/share", _shared)


def view_post(post: Id) -> Call[Viewed]:
    """Tell that the acting user has seen a post; they count once."""
    return Call("POST", f"{post_path(post)}/view", _viewed)


def view_posts(ids: Iterable[Id]) -> Generator[Call[Any], Any, list[Viewed | None]]:
    """The same of many, one write a hundred: for each id the answer, or None where the acting user may not see it."""
    found: list[Viewed | None] = []
    for batch in batches(ids, "ids", LOOKUP_MAX):
        answer = yield from Call("POST", f"{BASE}/posts/view", _all_viewed, body={"ids": batch})
        found += whole(answer.posts, batch)
    return found


def hide_post(post: Id) -> Call[Hidden]:
    """Hide a post from the acting user's feed; nobody else learns of it."""
    return Call("POST", f"{post_path(post)}/hide", _hidden)


def unhide_post(post: Id) -> Call[Hidden]:
    """Show a post in the acting user's feed again."""
    return Call("DELETE", f"{post_path(post)}/hide", _hidden)


def post_path(post: Id) -> str:
    """Where a post is."""
    return f"{BASE}/posts/{checked_id(post, 'post')}"


def content_of(text: str, link: str | None, media: Iterable[Id]) -> dict[str, Any]:
    """What a new post or story says, as requests have it."""
    content = {"text": text, "mediaIds": checked_ids(media, "media")}
    return content if link is None else {**content, "link": link}
