"""Both clients follow the contract for posts, comments, home, stories and moderation."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from fake_service import Connect, ContractRow, Service, ask, check_row, name_of, page

from kith.client import (
    ApiError,
    Author,
    BadRequest,
    Comment,
    Content,
    Engagement,
    Fewer,
    Hidden,
    Labels,
    Liked,
    Location,
    Media,
    Post,
    PostCreated,
    Ranking,
    Retry,
    Saved,
    Shared,
    Story,
    StoryViewer,
    StripEntry,
    Viewed,
    Why,
    WhyPart,
)
from kith.core.errors import BadId

BOB, CAROL, DANA = 2, 3, 2**63 - 1
IMAGE = {"id": "7", "type": "image", "url": "/media/x", "thumbnailUrl": "/media/y", "width": 3, "height": 4}
MADE = {
    "id": "9", "author": {"id": "2", "displayName": "Bob", "avatarUrl": "/media/b"}, "visibility": "public",
    "audience": None, "content": {"type": "image", "text": "", "link": None, "media": [IMAGE]}, "mentions": [str(DANA)],
    "attributes": {"a": 1}, "createdAt": "2023-11-14T22:13:20.001Z",
}  # fmt: skip
POST = MADE | {"engagement": {"likeCount": 3, "isLiked": True}, "editedAt": None}
STORY = MADE | {"expiresAt": "2023-11-15T22:13:20.001Z", "seen": True, "viewCount": None}
AT = datetime(2023, 11, 14, 22, 13, 20, 1000, UTC)
OF_IMAGE = Media(id=7, type="image", url="/media/x", thumbnail_url="/media/y", width=3, height=4)
OF_BOB = {
    "id": 9, "author": Author(id=BOB, display_name="Bob", avatar_url="/media/b"), "visibility": "public",
    "mentions": [DANA], "content": Content(type="image", media=[OF_IMAGE]), "attributes": {"a": 1}, "created_at": AT,
}  # fmt: skip
BOB_POST = Post(**OF_BOB, engagement=Engagement(like_count=3, is_liked=True))  # type: ignore[arg-type]
BOB_STORY = Story(**OF_BOB, expires_at=AT + timedelta(days=1), seen=True)  # type: ignore[arg-type]
LABELS = {"id": "9", "type": "post", "labels": ["hide"], "reason": "spam", "changedAt": None}
OF_POST = Labels(id=9, type="post", labels=["hide"], reason="spam")
WHEN = {"timestamp": "2023-11-14T22:13:20.001Z"}
CREATED = {name: MADE[name] for name in ("id", "author", "content", "visibility", "createdAt")}
COMMENT = {
    "id": "5", "post": "9", "replyTo": None, "author": MADE["author"], "text": "so true", "likeCount": 2,
    "replyCount": 1, "isLiked": True, "labels": [], "createdAt": MADE["createdAt"], "replies": [],
}  # fmt: skip
OF_COMMENT = Comment(
    id=5, post=9, author=OF_BOB["author"], text="so true", like_count=2, reply_count=1, is_liked=True, created_at=AT
)  # type: ignore[arg-type]
WHY = {
    "id": "9", "score": 0.5, "reason": "recent", "damping": 0.5, "excludedBy": ["seen"],
    "parts": [{"name": "recency", "value": 1.0, "weight": 0.4, "adds": 0.4}],
}  # fmt: skip
NEW_POST = {
    "content": {"text": "x", "mediaIds": []}, "visibility": "public", "audience": [], "mentions": [], "attributes": {},
    "allowComments": True, "allowSharing": True, "location": None,
}  # fmt: skip


def home(*posts: Any, degraded: tuple[str, ...] = (), next_cursor: str | None = None) -> dict[str, Any]:
    """A page of home as the service writes it."""
    meta = {"feedType": "ranked", "generatedAt": MADE["createdAt"], "requestId": "r", "degraded": degraded}
    return {"posts": posts, "pagination": page(next_cursor=next_cursor)["pagination"], "meta": meta}


# method, arguments, verb, path, body, answer, result
CONTRACT: list[ContractRow] = [
    ("create_post", ("x",), "POST", "/posts", NEW_POST, CREATED | {"fanoutStatus": "pending"},
     PostCreated(id=9, author=OF_BOB["author"], content=OF_BOB["content"], visibility="public",  # type: ignore[arg-type]
                 created_at=AT, fanout_status="pending")),
    ("post", ("9",), "GET", "/posts/9", None, POST, BOB_POST),
    ("edit_post", (9,), "PATCH", "/posts/9", {}, POST, BOB_POST),
    ("delete_post", (9,), "DELETE", "/posts/9", None, None, None),
    ("like_post", (9,), "POST", "/posts/9/like", None, WHEN | {"liked": True, "likeCount": 4},
     Liked(liked=True, like_count=4, timestamp=AT)),
    ("unlike_post", (9,), "DELETE", "/posts/9/like", None, WHEN | {"liked": False, "likeCount": 3},
     Liked(liked=False, like_count=3, timestamp=AT)),
    ("save_post", (9,), "POST", "/posts/9/save", None, WHEN | {"saved": True, "saveCount": 1},
     Saved(saved=True, save_count=1, timestamp=AT)),
    ("unsave_post", (9,), "DELETE", "/posts/9/save", None, WHEN | {"saved": False, "saveCount": 0},
     Saved(saved=False, save_count=0, timestamp=AT)),
    ("share_post", (9,), "POST", "/posts/9/share", None, WHEN | {"shared": True, "shareCount": 1},
     Shared(shared=True, share_count=1, timestamp=AT)),
    ("unshare_post", (9,), "DELETE", "/posts/9/share", None, WHEN | {"shared": False, "shareCount": 0},
     Shared(shared=False, share_count=0, timestamp=AT)),
    ("view_post", (9,), "POST", "/posts/9/view", None, WHEN | {"viewed": True, "viewCount": 8},
     Viewed(viewed=True, view_count=8, timestamp=AT)),
    ("hide_post", (9,), "POST", "/posts/9/hide", None, WHEN | {"hidden": True}, Hidden(hidden=True, timestamp=AT)),
    ("unhide_post", (9,), "DELETE", "/posts/9/hide", None, WHEN | {"hidden": False},
     Hidden(hidden=False, timestamp=AT)),
    ("create_comment", (9, "so true"), "POST", "/posts/9/comments", {"text": "so true"}, COMMENT, OF_COMMENT),
    ("delete_comment", (5,), "DELETE", "/comments/5", None, None, None),
    ("like_comment", (5,), "POST", "/comments/5/like", None, WHEN | {"liked": True, "likeCount": 3},
     Liked(liked=True, like_count=3, timestamp=AT)),
    ("unlike_comment", (5,), "DELETE", "/comments/5/like", None, WHEN | {"liked": False, "likeCount": 2},
     Liked(liked=False, like_count=2, timestamp=AT)),
    ("why_post", (9,), "GET", "/posts/9/why", None, WHY,
     Why(id=9, score=0.5, reason="recent", damping=0.5, excluded_by=["seen"],
         parts=[WhyPart(name="recency", value=1.0, weight=0.4, adds=0.4)])),
    ("see_fewer", (2,), "POST", "/users/2/see-fewer", None, {"fewer": True}, Fewer(fewer=True)),
    ("see_as_before", (2,), "DELETE", "/users/2/see-fewer", None, {"fewer": False}, Fewer(fewer=False)),
    ("media", (7,), "GET", "/media/7", None, IMAGE, OF_IMAGE),
    ("delete_media", (7,), "DELETE", "/media/7", None, None, None),
    ("labels", ("post", 9), "GET", "/labels/post/9", None, LABELS, OF_POST),
    ("put_labels", ("user", "2", ("hide",)), "PUT", "/labels/user/2",
     {"labels": ["hide"], "reason": ""}, LABELS, OF_POST),
    ("delete_labels", ("post", 9), "DELETE", "/labels/post/9", None, LABELS, OF_POST),
    ("lookup_posts", ([9, "5"],), "POST", "/posts/lookup", {"ids": [9, "5"]}, {"posts": [POST, None]},
     [BOB_POST, None]),
    ("view_posts", ([9, "5"],), "POST", "/posts/view", {"ids": [9, "5"]},
     {"posts": [{"viewed": True, "viewCount": 1, "timestamp": "2023-11-14T22:13:20.001Z"}, None]},
     [Viewed(viewed=True, view_count=1, timestamp=AT), None]),
    ("create_story", ("x",), "POST", "/stories",
     {"content": {"text": "x", "mediaIds": []}, "visibility": "public", "audience": [], "mentions": [],
      "attributes": {}}, STORY, BOB_STORY),
    ("story", (9,), "GET", "/stories/9", None, STORY, BOB_STORY),
    ("view_story", (9,), "POST", "/stories/9/view", None, {"viewed": True, "timestamp": "2023-11-14T22:13:20Z"}, None),
    ("delete_story", ("9",), "DELETE", "/stories/9", None, None, None),
]  # fmt: skip


@pytest.mark.parametrize("row", CONTRACT, ids=name_of)
def test_each_method_sends_and_reads_what_the_contract_says(connect: Connect, row: ContractRow) -> None:
    check_row(connect, row)


def test_a_post_can_carry_every_field(connect: Connect) -> None:
    service = Service(httpx.Response(201, json=CREATED))
    place = Location(latitude=1.5, longitude=-2.25, name="here")
    ask(
        connect(service), "create_post", "x", link="https://example.com", media=["7"], visibility="custom",
        audience=[CAROL], mentions=[DANA], attributes={"a": 1}, allow_comments=False, allow_sharing=False,
        location=place,
    )  # fmt: skip
    assert service.bodies() == [
        {
            "content": {"text": "x", "mediaIds": ["7"], "link": "https://example.com"},
            "visibility": "custom", "audience": ["3"], "mentions": [str(DANA)], "attributes": {"a": 1},
            "allowComments": False, "allowSharing": False,
            "location": {"latitude": 1.5, "longitude": -2.25, "name": "here"},
        }
    ]  # fmt: skip


@pytest.mark.parametrize("method", ["create_post", "create_story"])
def test_retries_of_a_post_or_story_carry_the_same_idempotency_key(connect: Connect, method: str) -> None:
    answer = STORY if method == "create_story" else CREATED
    service = Service(httpx.Response(503, headers={"Retry-After": "0"}), *[httpx.Response(201, json=answer)] * 3)
    client = connect(service, retry=Retry(base_s=0))
    for key in (None, None, "mine"):
        ask(client, method, "x", link="https://example.com", media=[7], visibility="friends", key=key)
    first, again, other, mine = service.headers("Idempotency-Key")
    assert first == again != other
    assert mine == "mine"
    assert service.bodies()[0]["content"] == {"text": "x", "link": "https://example.com", "mediaIds": ["7"]}


# (arguments of `edit_post`, body that is sent)
EDITS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"text": "y"}, {"content": {"text": "y"}}),
    ({"text": ""}, {"content": {"text": ""}}),
    ({"link": None, "media": None}, {"content": {"link": None, "mediaIds": None}}),
    ({"media": [7]}, {"content": {"mediaIds": ["7"]}}),
    ({"media": ()}, {"content": {"mediaIds": []}}),
    ({"location": None}, {"location": None}),
    ({"location": Location(latitude=1, longitude=2)}, {"location": {"latitude": 1.0, "longitude": 2.0, "name": ""}}),
    ({"visibility": "custom", "audience": [BOB], "mentions": []},
     {"visibility": "custom", "audience": ["2"], "mentions": []}),
    ({"attributes": {}, "allow_comments": False, "allow_sharing": True},
     {"attributes": {}, "allowComments": False, "allowSharing": True}),
]  # fmt: skip


@pytest.mark.parametrize(("given", "sent"), EDITS)
def test_an_edit_sends_only_the_given_fields_and_none_removes_one(
    connect: Connect, given: dict[str, Any], sent: dict[str, Any]
) -> None:
    service = Service(POST)
    ask(connect(service), "edit_post", 9, **given)
    assert service.bodies() == [sent]


def test_the_posts_of_a_user_can_be_limited_to_a_time_range(connect: Connect) -> None:
    service = Service(page(next_cursor="c1"), page() | {"items": [POST]})
    assert ask(connect(service), "user_posts", BOB, since=5, until=9) == [BOB_POST]
    assert {request.url.path for request in service.asked} == {"/api/v1/users/2/posts"}
    assert [request.url.params.get("cursor") for request in service.asked] == [None, "c1"]
    assert {(request.url.params["since"], request.url.params["until"]) for request in service.asked} == {("5", "9")}


def test_comments_are_listed_in_the_requested_order_with_replies_and_a_total(connect: Connect) -> None:
    reply = COMMENT | {"id": "6", "replyTo": "5"}
    answer = page() | {"items": [COMMENT | {"replies": [reply]}], "totalCount": 7, "partial": True}
    service = Service(answer, page() | {"items": [reply], "totalCount": 1})
    client = connect(service)
    found = ask(client, "post_comments_page", 9, sort="top", page_size=3)
    assert (found.total_count, found.partial) == (7, True)
    assert [(one.id, one.text, [(below.id, below.reply_to) for below in one.replies]) for one in found.items] == [
        (5, "so true", [(6, 5)])
    ]
    assert [one.id for one in ask(client, "comment_replies", 5)] == [6]
    assert [(request.url.path, dict(request.url.params)) for request in service.asked] == [
        ("/api/v1/posts/9/comments", {"limit": "3", "sort": "top"}),
        ("/api/v1/comments/5/replies", {"limit": "100", "sort": "oldest"}),
    ]


def test_a_reply_names_the_comment_that_it_answers(connect: Connect) -> None:
    service = Service(COMMENT)
    ask(connect(service), "create_comment", 9, "no", reply_to=5)
    assert service.bodies() == [{"text": "no", "replyTo": "5"}]


def test_home_is_paged_over_short_and_empty_pages(connect: Connect) -> None:
    ranked = POST | {"ranking": {"score": 0.25, "reason": "recent"}}
    service = Service(home(next_cursor="c1"), home(ranked, next_cursor="c2"), home(POST))
    first, second = ask(connect(service), "feed")
    assert (first.ranking, second.ranking) == (Ranking(score=0.25, reason="recent"), None)
    assert [dict(request.url.params) for request in service.asked] == [
        {"type": "ranked", "limit": "20"} | ({} if cursor is None else {"cursor": cursor})
        for cursor in (None, "c1", "c2")
    ]


def test_unknown_words_of_a_newer_service_are_passed_through(connect: Connect) -> None:
    poke = {"id": "7", "ids": ["7"], "type": "poke", "actors": [], "actorCount": 0, "read": False, "seen": False}
    device = {"id": "3", "kind": "hms", "registeredAt": AT.isoformat()}
    service = Service(
        page() | {"items": [poke | {"at": AT.isoformat()}], "unread": 1}, {"devices": [device], "kinds": ["hms"]}
    )
    kith = connect(service)
    assert [one.type for one in ask(kith, "notifications_page").items] == ["poke"]
    found = ask(kith, "devices")
    assert ([one.kind for one in found.devices], found.kinds) == (["hms"], ["hms"])


def test_a_page_of_home_says_how_it_was_made(connect: Connect) -> None:
    service = Service(home(POST, degraded=("ranking",), next_cursor="c1"))
    found = ask(connect(service), "feed_page", "latest", refresh=True, request_id="mine", page_size=50, cursor="c0")
    assert (found.items, found.next_cursor, found.has_more) == ([BOB_POST], "c1", True)
    assert (found.meta.degraded, found.meta.request_id) == (["ranking"], "r")
    assert service.headers("X-Request-Id") == ["mine"]
    asked = {"type": "latest", "limit": "50", "refresh": "true", "cursor": "c0"}
    assert dict(service.asked[0].url.params) == asked


@pytest.mark.parametrize(
    ("method", "args", "error"),
    [
        ("post", ("../1",), BadId),
        ("create_comment", (-1, "x"), BadId),
        ("delete_comment", ("1/like",), BadId),
        ("media", (2**63,), BadId),
        ("see_fewer", ("",), BadId),
        ("user_by_username", ("..",), BadRequest),
        ("user_by_username", (".",), BadRequest),
        ("user_by_username", ("",), BadRequest),
        ("labels", ("..", 1), BadRequest),
    ],
)
def test_a_value_that_cannot_be_part_of_a_path_is_refused_unsent(
    connect: Connect, method: str, args: Any, error: type[Exception]
) -> None:
    service = Service()
    with pytest.raises(error):
        ask(connect(service), method, *args)
    assert service.asked == []


@pytest.mark.parametrize(
    ("method", "args", "named", "field"),
    [
        ("lookup_posts", ("517",), {}, "ids"),
        ("lookup_users", (517,), {}, "ids"),
        ("view_posts", ("517",), {}, "ids"),
        ("relationships", ("517",), {}, "targets"),
        ("exists_many", ("follows", "12"), {}, "pairs"),
        ("create_post", ("a secret",), {"visibility": "custom", "audience": "517"}, "audience"),
        ("create_post", ("hi",), {"mentions": 517}, "mentions"),
        ("edit_post", (1,), {"mentions": "517"}, "mentions"),
        ("create_story", ("hi",), {"audience": b"517"}, "audience"),
        ("check_boards", ("517", []), {}, "users"),
        ("mark_read", ("517",), {}, "ids"),
        ("put_preferences", (), {"off": "like"}, "off"),
        ("put_labels", ("user", 1, "hide"), {}, "labels"),
        ("create_webhook", ("https://app.example",), {"kinds": "edge"}, "kinds"),
    ],
)
def test_a_single_value_in_place_of_a_list_is_refused_unsent(
    connect: Connect, method: str, args: Any, named: dict[str, Any], field: str
) -> None:
    service = Service()
    with pytest.raises(BadRequest, match=f"`{field}` must be a list, even of one"):
        ask(connect(service), method, *args, **named)
    assert service.asked == []


@pytest.mark.parametrize("value", ["", "é", "a\nb", " a", "a "])
def test_a_value_that_no_header_can_carry_is_refused_unsent(connect: Connect, value: str) -> None:
    service = Service()
    for method, name in (("create_post", "key"), ("create_story", "key"), ("feed_page", "request_id")):
        with pytest.raises(BadRequest, match=f"`{name}` must be printable"):
            ask(connect(service), method, **{name: value})
    assert service.asked == []


def test_lists_of_stories_are_paged_and_say_if_they_are_partial(connect: Connect) -> None:
    rest = {"pagination": page()["pagination"]}
    entry = {"id": "2", "author": MADE["author"], "storyCount": 2, "unseenCount": 1, "latestAt": MADE["createdAt"]}
    viewer = {"id": "2", "user": MADE["author"], "viewedAt": MADE["createdAt"]}
    service = Service(rest | {"items": [entry], "partial": True}, rest | {"items": [STORY]}, rest | {"items": [viewer]})
    client = connect(service)
    strip = ask(client, "story_strip_page", page_size=3)
    assert strip.partial
    bob = OF_BOB["author"]
    assert strip.items == [StripEntry(id=BOB, author=bob, story_count=2, unseen_count=1, latest_at=AT)]
    assert ask(client, "user_stories", BOB) == [BOB_STORY]
    assert ask(client, "story_viewers", 9) == [StoryViewer(id=BOB, user=bob, viewed_at=AT)]
    paths = ["/stories", "/users/2/stories", "/stories/9/viewers"]
    assert [request.url.path for request in service.asked] == [f"/api/v1{path}" for path in paths]


def test_lookups_of_any_length_are_split(connect: Connect) -> None:
    service = Service({"posts": [None] * 100}, {"posts": [POST] * 20}, {"users": []})
    client = connect(service)
    assert ask(client, "lookup_posts", range(120)) == [None] * 100 + [BOB_POST] * 20
    assert [len(body["ids"]) for body in service.bodies()] == [100, 20]
    with pytest.raises(ApiError, match="0 answers to 1"):
        ask(client, "lookup_users", [1])
