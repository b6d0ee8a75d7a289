"""The fields of a post, their limits, and how a post becomes a record. Pure: nothing here reads or writes.

Every limit has a name, and InvalidContent says which limit was exceeded.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from kith.core.clock import Hlc
from kith.core.errors import InvalidContent
from kith.media.media import MediaType
from kith.records.fields import NO_ATTRIBUTES, check_text
from kith.records.store import Record, RecordKind

PostType = Literal["text", "link", "image", "video"]
Visibility = Literal["public", "friends", "private", "custom"]

TEXT_CHARS_MAX = 10_000
LINK_CHARS_MAX = 2_048
MEDIA_MAX = 20
MENTIONS_MAX = 50
AUDIENCE_MAX = 1_000
PLACE_CHARS_MAX = 100
LATITUDE_MAX, LONGITUDE_MAX = 90.0, 180.0
_LINK = re.compile(r"https?://[^\s/?#]+[^\s]*")


class Location(msgspec.Struct, frozen=True, array_like=True):
    """Where a post was made: degrees, and the name of the place."""

    latitude: float
    longitude: float
    name: str = ""


class Draft(msgspec.Struct, frozen=True, array_like=True):
    """What an author sends to create a post. `type` may be None; `check_draft` derives it.

    `audience`: who may see the post if its visibility is custom. `attributes`: the app's own JSON object.
    """

    type: PostType | None = None
    text: str = ""
    link: str | None = None
    media: tuple[int, ...] = ()
    visibility: Visibility = "public"
    audience: tuple[int, ...] = ()
    mentions: tuple[int, ...] = ()
    attributes: bytes = NO_ATTRIBUTES
    allow_comments: bool = True
    allow_sharing: bool = True
    location: Location | None = None


class PostEdit(msgspec.Struct, frozen=True):
    """The changes of an edit. UNSET fields stay as they are. The type is derived from media and link."""

    text: str | UnsetType = UNSET
    link: str | UnsetType | None = UNSET
    media: tuple[int, ...] | UnsetType = UNSET
    visibility: Visibility | UnsetType = UNSET
    audience: tuple[int, ...] | UnsetType = UNSET
    mentions: tuple[int, ...] | UnsetType = UNSET
    attributes: bytes | UnsetType = UNSET
    allow_comments: bool | UnsetType = UNSET
    allow_sharing: bool | UnsetType = UNSET
    location: Location | UnsetType | None = UNSET


class Post(msgspec.Struct, frozen=True, array_like=True):
    """A post, as stored: an array in this order. New fields come last and have a default."""

    id: int
    author: int
    created_at: int  # ms since the epoch; its place in the author's outbox
    type: PostType
    text: str
    link: str | None
    media: tuple[int, ...]
    visibility: Visibility
    audience: tuple[int, ...]
    mentions: tuple[int, ...]
    attributes: bytes
    edited_at: int = 0  # ms since the epoch; 0: never
    deleted: bool = False
    allow_comments: bool = True
    allow_sharing: bool = True
    location: Location | None = None
    labels: int = 0
    """See `core.labels`. As stored: the post's own. As read through `Posts.visible`: its author's, too."""
    named: tuple[int, ...] = ()
    """The users whom its text mentions by `@username`. `mentions` are the users whom the client named by id."""
    audience_at: int = 0  # ms since the epoch: when an edit last changed visibility or audience; 0: never

    @property
    def mentioned(self) -> tuple[int, ...]:
        """All users whom the post mentions."""
        return tuple(dict.fromkeys((*self.mentions, *self.named))) if self.named else self.mentions


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Post).decode


def post_record(post: Post, version: Hlc, kind: RecordKind = RecordKind.POST) -> Record:
    """The record of a post. `kind`: another kind that is stored like a post."""
    return Record(kind, post.id, version, _encode(post))


def read_post(record: Record) -> Post:
    """The post of a record."""
    return _decode(record.data)


def canonical_draft(draft: Draft) -> bytes:
    """Bytes that are equal for equal drafts only, whatever the order of audience, mentions and attributes."""
    audience, mentions = tuple(sorted(draft.audience)), tuple(sorted(draft.mentions))
    try:
        return _encode(msgspec.structs.replace(draft, audience=audience, mentions=mentions))
    except UnicodeEncodeError:
        raise InvalidContent("this is not valid UTF-8") from None


def check_draft(draft: Draft, media_types: Sequence[MediaType] = ()) -> Draft:
    """The draft with its type set; InvalidContent if it breaks a rule. `media_types`: the types of its media."""
    inferred = type_of(draft, media_types)
    kind: PostType = draft.type or inferred
    check_text(draft.text, needed=not (draft.link or draft.media), chars_max=TEXT_CHARS_MAX)
    if draft.link is not None and (len(draft.link) > LINK_CHARS_MAX or not _LINK.fullmatch(draft.link)):
        raise InvalidContent(f"link must be a http or https address of at most {LINK_CHARS_MAX} characters")
    if kind == "link" and draft.link is None:
        raise InvalidContent("a post of type link needs a link")
    if kind != inferred and (draft.media or kind in ("image", "video")):
        raise InvalidContent(
            f"this is a post of type {inferred} by what it shows, not {kind}; leave the type out, or change mediaIds",
            type=kind,
        )
    for name, values, values_max in (
        ("mentions", draft.mentions, MENTIONS_MAX),
        ("audience", draft.audience, AUDIENCE_MAX),
    ):
        if len(values) > values_max:
            raise InvalidContent(f"{name} takes at most {values_max} ids", field=name, max=values_max)
    if (draft.visibility == "custom") != bool(draft.audience):
        raise InvalidContent("visibility custom needs an audience of user ids, and others take none")
    if draft.location is not None:
        check_location(draft.location)
    return msgspec.structs.replace(draft, type=kind)


def type_of(draft: Draft, media_types: Sequence[MediaType]) -> PostType:
    """The type of a draft by its content. It is `video` if one of its media is a video."""
    if draft.media:
        return "video" if "video" in media_types else "image"
    return "link" if draft.link else "text"


def check_location(location: Location) -> None:
    """InvalidContent unless the degrees are valid and the name is short enough."""
    for field, value, value_max in (
        ("latitude", location.latitude, LATITUDE_MAX),
        ("longitude", location.longitude, LONGITUDE_MAX),
    ):
        if not -value_max <= value <= value_max:
            raise InvalidContent(f"{field} must be from {-value_max:g} to {value_max:g} degrees", field=field)
    check_text(location.name, needed=False, chars_max=PLACE_CHARS_MAX, field="location.name")


def post_from(id_: int, author: int, created_at: int, draft: Draft) -> Post:
    """The post of a checked draft."""
    if draft.type is None:
        raise ValueError("this draft was not checked")
    return Post(
        id_, author, created_at, draft.type, draft.text, draft.link, draft.media, draft.visibility, draft.audience,
        draft.mentions, draft.attributes, allow_comments=draft.allow_comments, allow_sharing=draft.allow_sharing,
        location=draft.location,
    )  # fmt: skip


def edited(post: Post, change: PostEdit, at_ms: int, media_types: Sequence[MediaType] = ()) -> Post:
    """The post after `change`, or the same object if nothing changes; InvalidContent if it would break a rule.

    `media_types`: the types of the new media.
    """
    changes = {name: value for name, value in msgspec.structs.asdict(change).items() if value is not UNSET}
    if changes.get("visibility", post.visibility) != "custom":
        changes.setdefault("audience", ())
    fields = {name: getattr(post, name) for name in Draft.__struct_fields__}
    if any(name in changes and changes[name] != fields[name] for name in ("media", "link")):
        changes["type"] = None
    if "media" not in changes and post.type in ("image", "video"):
        media_types = [post.type]
    draft = check_draft(Draft(**{**fields, **changes}), media_types)
    if draft == Draft(**fields):
        return post
    times = {"edited_at": at_ms, "audience_at": post.audience_at if has_same_audience(draft, post) else at_ms}
    return msgspec.structs.replace(post, **{**msgspec.structs.asdict(draft), **times})


def has_same_audience(one: Draft | Post, other: Draft | Post) -> bool:
    """Whether two versions of a post have the same visibility and audience."""
    return (one.visibility, {*one.audience}) == (other.visibility, {*other.audience})


def with_labels(post: Post, labels: int) -> Post:
    """The post with its author's labels as well, or the same object if they add none."""
    return post if post.labels | labels == post.labels else msgspec.structs.replace(post, labels=post.labels | labels)


def emptied(post: Post) -> Post:
    """What remains of a deleted post: its author, time and labels, and its audience, which must be notified."""
    return Post(
        post.id, post.author, post.created_at, post.type, "", None, (), post.visibility, post.audience, (),
        NO_ATTRIBUTES, deleted=True, labels=post.labels,
    )  # fmt: skip
