"""The rules of posts without a store: what a post may hold, and who may see it."""

from __future__ import annotations

from itertools import product
from typing import Any

import msgspec
import pytest
from cast import ALICE, BOB, CAROL, START_MS
from hypothesis import given
from hypothesis import strategies as st

from kith.core.clock import hlc_of
from kith.core.errors import InvalidContent
from kith.core.ids import NodeId
from kith.core.labels import HIDE, LIMIT, SENSITIVE
from kith.graph.edge import State
from kith.media.media import MediaType
from kith.people.privacy import SYSTEM, Viewer
from kith.posts.post import (
    AUDIENCE_MAX,
    LINK_CHARS_MAX,
    MENTIONS_MAX,
    PLACE_CHARS_MAX,
    TEXT_CHARS_MAX,
    Draft,
    Location,
    Post,
    PostEdit,
    canonical_draft,
    check_draft,
    edited,
    emptied,
    post_from,
    post_record,
    read_post,
)
from kith.posts.visibility import Standing, may_see, may_see_comment
from kith.records.fields import ATTRIBUTES_BYTES_MAX, ATTRIBUTES_DEPTH_MAX, pack_attributes

LINK = "https://example.com/a?b=c"
GOOD: dict[str, tuple[dict[str, Any], str]] = {
    "text": ({"text": "x"}, "text"),
    "the longest text": ({"text": "é" * TEXT_CHARS_MAX}, "text"),
    "any script": ({"text": "🦊\n\tمرحبا"}, "text"),
    "link": ({"link": LINK}, "link"),
    "text and link": ({"text": "look", "link": LINK}, "link"),
    "image": ({"media": (1,)}, "image"),
    "video": ({"media": (1, 2), "type": "video"}, "video"),
    "image and link": ({"media": (1,), "link": LINK}, "image"),
    "custom": ({"text": "x", "visibility": "custom", "audience": (1,)}, "text"),
    "a place": ({"text": "x", "location": Location(-90, 180.0, "é" * PLACE_CHARS_MAX)}, "text"),
    "no comments, no sharing": ({"text": "x", "allow_comments": False, "allow_sharing": False}, "text"),
}
BAD: dict[str, dict[str, Any]] = {
    "north of the pole": {"text": "x", "location": Location(90.01, 0)},
    "beyond the date line": {"text": "x", "location": Location(0, -180.01)},
    "no number": {"text": "x", "location": Location(float("nan"), 0)},
    "infinite": {"text": "x", "location": Location(0, float("inf"))},
    "too long a name of a place": {"text": "x", "location": Location(0, 0, "x" * (PLACE_CHARS_MAX + 1))},
    "a place that is not UTF-8": {"text": "x", "location": Location(0, 0, "\ud800")},
    "empty": {},
    "blank": {"text": " \n\t"},
    "too long a text": {"text": "x" * (TEXT_CHARS_MAX + 1)},
    "far too long a text": {"text": "x" * 100_000},
    "a text that is not UTF-8": {"text": "\ud800"},
    "a script as link": {"link": "javascript:alert(1)"},
    "an ftp link": {"link": "ftp://example.com"},
    "a link without a host": {"link": "https://"},
    "a link with a space": {"link": "https://a b"},
    "too long a link": {"link": "http://" + "x" * LINK_CHARS_MAX},
    "type link without one": {"text": "x", "type": "link"},
    "type image without one": {"text": "x", "type": "image"},
    "type text with an image": {"text": "x", "media": (1,), "type": "text"},
    "type link with an image": {"link": LINK, "media": (1,), "type": "link"},
    "type video without one": {"text": "x", "type": "video"},
    "too many mentions": {"text": "x", "mentions": tuple(range(MENTIONS_MAX + 1))},
    "custom without an audience": {"text": "x", "visibility": "custom"},
    "public with an audience": {"text": "x", "visibility": "public", "audience": (1,)},
    "too large an audience": {"text": "x", "visibility": "custom", "audience": tuple(range(AUDIENCE_MAX + 1))},
}


def check(fields: dict[str, Any]) -> Draft:
    """The checked draft. Its media are videos if its type is video, and images otherwise."""
    types: list[MediaType] = ["video" if fields.get("type") == "video" else "image"] * len(fields.get("media", ()))
    return check_draft(Draft(**fields), types)


def post_of(**fields: Any) -> Post:
    """A post of Alice."""
    return post_from(9, ALICE, START_MS, check({"text": "hello", **fields}))


@pytest.mark.parametrize(("fields", "kind"), GOOD.values(), ids=GOOD)
def test_a_good_draft_gets_its_type(fields: dict[str, Any], kind: str) -> None:
    assert check(fields).type == kind


@pytest.mark.parametrize("fields", BAD.values(), ids=BAD)
def test_a_bad_draft_is_refused_with_a_reason(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidContent) as refused:
        check(fields)
    assert len(refused.value.message) > 15


@pytest.mark.parametrize(
    "attributes",
    [{"x": "y" * ATTRIBUTES_BYTES_MAX}, {"x": "\ud800"}, {"x": [1] * 3_000}],
    ids=["too long a text", "not UTF-8", "too long a list"],
)
def test_attributes_beyond_their_bounds_are_refused(attributes: dict[str, Any]) -> None:
    with pytest.raises(InvalidContent):
        pack_attributes(attributes)


def test_attributes_at_their_bound_are_kept() -> None:
    assert len(pack_attributes({"x": "y" * (ATTRIBUTES_BYTES_MAX - 8)})) == ATTRIBUTES_BYTES_MAX


@given(text=st.text(min_size=1, max_size=50), media=st.lists(st.integers(0, 2**63 - 1), max_size=3, unique=True))
def test_a_post_reads_as_it_was_stored(text: str, media: list[int]) -> None:
    post = post_from(2**62, 2**63 - 1, START_MS, Draft("image", text, LINK, tuple(media), "custom", (0, 2**63 - 1)))
    assert read_post(post_record(post, hlc_of(START_MS))) == post


def test_different_drafts_have_different_canonical_bytes() -> None:
    drafts = [Draft(**fields) for fields, _ in GOOD.values()] + [
        Draft(text="x", attributes=b'{"a":1}'),
        Draft(text="x", mentions=(1,)),
    ]
    assert len({canonical_draft(draft) for draft in drafts}) == len(drafts)


def test_an_edit_changes_only_the_given_fields_and_checks_the_whole_post() -> None:
    post = post_of(visibility="custom", audience=(BOB,))
    for same in (
        PostEdit(),
        PostEdit(text=post.text, visibility="custom"),
        PostEdit(link=None, media=(), location=None),
    ):
        assert edited(post, same, 5) is post, "nothing was changed"
    changed = edited(post, PostEdit(text="new", mentions=(CAROL,)), 5)
    assert (changed.text, changed.mentions, changed.audience, changed.edited_at) == ("new", (CAROL,), (BOB,), 5)
    assert (changed.id, changed.author, changed.created_at) == (post.id, post.author, post.created_at)
    assert edited(post, PostEdit(visibility="public"), 5).audience == ()
    here = edited(post, PostEdit(location=Location(1, 2, "here"), allow_comments=False), 5)
    assert (here.location, here.allow_comments, here.allow_sharing) == (Location(1, 2, "here"), False, True)
    assert edited(here, PostEdit(text="x"), 6).location == here.location
    assert edited(here, PostEdit(location=None), 6).location is None
    assert edited(msgspec.structs.replace(post, labels=HIDE), PostEdit(text="x"), 6).labels == HIDE
    for change in (
        PostEdit(text=""),
        PostEdit(visibility="friends", audience=(BOB,)),
        PostEdit(audience=()),
        PostEdit(text="", link=None, media=()),
        PostEdit(location=Location(91, 0)),
    ):
        with pytest.raises(InvalidContent):
            edited(post, change, 5)


def test_a_deleted_post_keeps_nothing_of_its_content() -> None:
    secret = "a secret that must not stay"
    post = post_of(
        text=secret, link=LINK, mentions=(BOB,), attributes=b'{"s":"secret"}', location=Location(1, 2, "secret")
    )
    left = post_record(emptied(post), hlc_of(START_MS)).data
    assert b"secret" not in left
    assert b"example" not in left
    assert (emptied(post).deleted, emptied(post).author) == (True, ALICE)


# --- who may see it ----------------------------------------------------------------------------------------

FOLLOWED, FRIEND = Standing(followed=True), Standing(followed=True, follows_back=True)


SEEN: dict[str, tuple[str, NodeId, Standing, bool]] = {
    "public": ("public", BOB, Standing(), True),
    "public, a private account": ("public", BOB, Standing(private=True), False),
    "public, a private account, followed": ("public", BOB, Standing(private=True, followed=True), True),
    "public, a private account that only follows back": (
        "public",
        BOB,
        Standing(private=True, follows_back=True),
        False,
    ),
    "friends, a stranger": ("friends", BOB, Standing(), False),
    "friends, followed": ("friends", BOB, FOLLOWED, False),
    "friends, follows back": ("friends", BOB, Standing(follows_back=True), False),
    "friends, both": ("friends", BOB, FRIEND, True),
    "private, a friend": ("private", BOB, FRIEND, False),
    "custom, in the audience": ("custom", BOB, Standing(), True),
    "custom, a friend not in the audience": ("custom", CAROL, FRIEND, False),
    "custom, in the audience of a private account": ("custom", BOB, Standing(private=True), False),
}


@pytest.mark.parametrize(("visibility", "viewer", "standing", "seen"), SEEN.values(), ids=SEEN)
def test_a_post_is_visible_as_its_author_chose(visibility: Any, viewer: NodeId, standing: Standing, seen: bool) -> None:
    post = post_of(visibility=visibility, audience=(BOB,) if visibility == "custom" else ())
    assert may_see(post, viewer, standing) is seen
    assert may_see(post, ALICE, Standing(private=True)), "authors see their own"
    assert may_see(post, SYSTEM, Standing(private=True, state=State.ARCHIVED)), "the back office sees all"


def test_a_visitor_sees_only_public_posts_of_unrestricted_accounts() -> None:
    for visibility in ("public", "friends", "private", "custom"):
        post = post_of(visibility=visibility, audience=(BOB,) if visibility == "custom" else ())
        assert may_see(post, None, Standing()) is (visibility == "public")
    for standing in (Standing(private=True), Standing(labels=HIDE), Standing(labels=LIMIT), Standing(State.ARCHIVED)):
        assert not may_see(post_of(), None, standing)
        assert not may_see_comment(False, ALICE, None, standing)


@pytest.mark.parametrize("on", ["post", "author", "both"])
def test_labelled_posts_are_visible_to_author_and_app_and_limited_ones_to_followers(on: str) -> None:
    def seen(labels: int, viewer: Viewer, standing: Standing) -> bool:
        post = msgspec.structs.replace(post_of(), labels=labels if on != "author" else 0)
        return may_see(post, viewer, standing._replace(labels=labels if on != "post" else 0))

    for labels in (HIDE, LIMIT, HIDE | LIMIT | SENSITIVE):
        assert seen(labels, SYSTEM, Standing())
        assert not seen(labels, None, Standing())
        assert seen(labels, ALICE, Standing())
        assert not seen(labels, BOB, Standing(follows_back=True))
        assert seen(labels, BOB, FOLLOWED) is (labels == LIMIT)
    assert seen(SENSITIVE, BOB, Standing())
    assert not seen(LIMIT, BOB, FOLLOWED._replace(blocked=True))


def test_labels_of_an_author_apply_to_their_comments() -> None:
    for labels, stranger, follower in ((HIDE, False, False), (LIMIT, False, True), (SENSITIVE, True, True)):
        assert may_see_comment(False, ALICE, BOB, Standing(labels=labels)) is stranger
        assert may_see_comment(False, ALICE, BOB, FOLLOWED._replace(labels=labels)) is follower
        assert may_see_comment(False, ALICE, ALICE, Standing(labels=labels))
        assert may_see_comment(False, ALICE, SYSTEM, Standing(labels=labels))


def test_blocks_deletion_and_deactivation_hide_posts_of_any_visibility() -> None:
    for visibility, state in product(("public", "friends", "private", "custom"), State):
        post = post_of(visibility=visibility, audience=(BOB,) if visibility == "custom" else ())
        assert not may_see(post, BOB, FRIEND._replace(blocked=True))
        if state != State.NORMAL:
            assert not may_see(post, BOB, FRIEND._replace(state=state))
        for viewer in (ALICE, BOB, SYSTEM, None):
            assert not may_see(emptied(post), viewer, FRIEND)
            assert not may_see(post, viewer, FRIEND._replace(state=State.REMOVED))


def test_a_comment_is_hidden_by_blocks_deletion_and_deactivation() -> None:
    assert may_see_comment(False, ALICE, BOB, Standing(private=True))
    assert may_see_comment(False, ALICE, SYSTEM, Standing(state=State.ARCHIVED))
    assert may_see_comment(False, ALICE, ALICE, Standing(state=State.ARCHIVED))
    assert not may_see_comment(False, ALICE, BOB, Standing(state=State.ARCHIVED))
    assert not may_see_comment(False, ALICE, BOB, Standing(blocked=True))
    for viewer in (ALICE, BOB, SYSTEM, None):
        assert not may_see_comment(True, ALICE, viewer, Standing())
        assert not may_see_comment(False, ALICE, viewer, Standing(state=State.REMOVED))


@pytest.mark.parametrize("kind", [list, dict])
def test_the_nesting_of_attributes_is_bounded(kind: type) -> None:
    value: Any = 1
    for _ in range(ATTRIBUTES_DEPTH_MAX):
        value = [value] if kind is list else {"a": value}
    assert pack_attributes({"a": value})
    with pytest.raises(InvalidContent, match="nested"):
        pack_attributes({"a": [value]})
