"""GET /feed and related routes over real HTTP: the shape of article 001, paging, bad input, who sees what."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx
import pytest
from calls import code, ok
from cast import People
from in_process import client_of
from pictures import drawing, encoded
from servers import API, DEFAULT_SETTINGS, KEY, Server, serving

from kith.core.errors import StoreUnavailable
from kith.engines.embedded.served_log import read_served
from kith.home.slate import SLATE_MAX
from kith.posts.posts import Posts
from kith.run.api import open_api as serving_api
from kith.run.config import Settings

Acting = Callable[[int], httpx.Client]
Make = Callable[..., str]
URL_BYTES_MAX = 8_000
"""The bytes of a request line that nginx and most proxies accept by default."""


@pytest.fixture
def follow(acting: Acting, people: People) -> None:
    """Let Alice follow Bob and Carol."""
    for author in (people.bob, people.carol):
        ok(acting(people.alice).post(f"{API}/users/{author}/follow"))


@pytest.fixture
def make(acting: Acting) -> Make:
    def made(author: int, text: str, **fields: Any) -> str:
        content = {"text": text} | fields.pop("content", {})
        return str(ok(acting(author).post(f"{API}/posts", json={"content": content, **fields}), 201)["id"])

    return made


def read(http: httpx.Client, **params: Any) -> Any:
    return ok(http.get(f"{API}/feed", params=params))


def shown(body: Any) -> list[str]:
    return [post["id"] for post in body["posts"]]


def scroll(http: httpx.Client, **params: Any) -> list[str]:
    """The ids of all pages."""
    found: list[str] = []
    for _ in range(1_000):
        body = read(http, **params)
        found += shown(body)
        pagination = body["pagination"]
        assert pagination["hasMore"] == (pagination["nextCursor"] is not None)
        if not pagination["hasMore"]:
            return found
        params["cursor"] = pagination["nextCursor"]
        assert len(params["cursor"]) < URL_BYTES_MAX
    raise AssertionError("this feed does not end")


# --- the shape ---------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("follow")
def test_the_feed_answers_with_the_fields_of_the_article(acting: Acting, people: People, make: Make) -> None:
    alice = acting(people.alice)
    picture = ("sunset.png", encoded(drawing(120, 80), "PNG"), "image/png")
    files, fields = {"file": picture}, {"altText": "Sunset over the ocean"}
    uploaded = ok(acting(people.bob).post(f"{API}/media", files=files, data=fields), 201)
    id_ = make(people.bob, "Beautiful sunset!", content={"mediaIds": [uploaded["id"]]})
    ok(alice.post(f"{API}/posts/{id_}/save"))
    answer = alice.get(f"{API}/feed")
    assert answer.headers["content-type"] == "application/json"
    body = ok(answer)
    assert set(body) == {"posts", "pagination", "meta"}
    assert body["pagination"] == {"nextCursor": None, "prevCursor": None, "hasMore": False}
    assert set(body["meta"]) == {"feedType", "generatedAt", "requestId", "degraded"}
    assert body["meta"]["feedType"] == "ranked"
    assert body["meta"]["generatedAt"].endswith("Z")
    made = datetime.fromisoformat(body["meta"]["generatedAt"])
    assert abs(datetime.now(UTC) - made) < timedelta(minutes=1)
    (post,) = body["posts"]
    assert {"id", "author", "content", "engagement", "ranking", "createdAt", "visibility"} <= set(post)
    assert post["id"] == id_
    assert post["author"]["id"] == str(people.bob)
    assert set(post["author"]) == {"id", "username", "displayName", "avatarUrl", "isVerified"}
    assert (post["content"]["type"], post["content"]["text"]) == ("image", "Beautiful sunset!")
    (media,) = post["content"]["media"]
    assert set(media) == {"id", "type", "url", "thumbnailUrl", "width", "height", "altText"}
    assert (media["id"], media["type"], media["width"], media["height"], media["altText"]) == (
        uploaded["id"], "image", 120, 80, "Sunset over the ocean"
    )  # fmt: skip
    assert post["engagement"] == {
        "likeCount": 0, "commentCount": 0, "shareCount": 0, "viewCount": 0,
        "isLiked": False, "isSaved": True, "isShared": False
    }  # fmt: skip
    assert set(post["ranking"]) == {"score", "reason"}
    assert 0 < post["ranking"]["score"] <= 1
    assert post["ranking"]["reason"] in ("friend_interaction", "recent", "popular", "content_type", "own_post")
    assert post["visibility"] == "public"
    assert post["createdAt"].endswith("Z")


@pytest.mark.usefixtures("follow")
def test_latest_is_newest_first_without_a_ranking(acting: Acting, people: People, make: Make) -> None:
    made = [make((people.bob, people.carol, people.alice)[at % 3], f"post {at}") for at in range(9)]
    body = read(acting(people.alice), type="latest")
    assert shown(body) == made[::-1]
    assert body["meta"]["feedType"] == "latest"
    assert all("ranking" not in post for post in body["posts"])
    for refresh in ("true", "false"):
        assert scroll(acting(people.alice), type="latest", limit=2, refresh=refresh) == made[::-1]
        assert sorted(scroll(acting(people.alice), limit=2, refresh=refresh)) == sorted(made)


def test_a_user_who_follows_nobody_has_only_their_own_posts(acting: Acting, people: People, make: Make) -> None:
    make(people.bob, "not for Alice")
    assert shown(read(acting(people.alice))) == []
    mine = make(people.alice, "mine")
    body = read(acting(people.alice))
    assert shown(body) == [mine]
    assert body["posts"][0]["ranking"]["reason"] == "own_post"


@pytest.mark.usefixtures("follow")
def test_short_equal_posts_of_several_friends_are_all_at_home(acting: Acting, people: People, make: Make) -> None:
    made = [make(author, text) for text in ("Happy new year!", "🎉") for author in (people.bob, people.carol)]
    content = {"link": "https://example.com/x"}
    made += [make(author, text, content=content) for author, text in ((people.bob, "look"), (people.carol, "see here"))]
    body = read(acting(people.alice))
    assert sorted(shown(body)) == made
    assert not any("copies" in post for post in body["posts"])


@pytest.mark.usefixtures("follow")
def test_a_copied_post_is_shown_once_and_names_its_copies(acting: Acting, people: People, make: Make) -> None:
    alice, joke = acting(people.alice), "A joke that everybody sends on. " * 3
    jokes = [make(people.bob, joke), make(people.carol, f" {joke.upper()}")]
    links = [make(author, "", content={"link": "https://example.com/x"}) for author in (people.bob, people.carol)]
    found = {post["id"]: post.get("copies", []) for post in read(alice)["posts"]}
    assert sorted(sorted([id_, *copies]) for id_, copies in found.items()) == [jokes, links]
    for id_, copies in found.items():
        (copy,) = copies
        why = ok(alice.get(f"{API}/posts/{copy}/why"))
        assert (why["excludedBy"], why["copyOf"]) == (["copy"], id_)
        why = ok(alice.get(f"{API}/posts/{id_}/why"))
        assert (why["excludedBy"], why["copyOf"]) == ([], None)
    latest = read(alice, type="latest")["posts"]
    assert sorted(post["id"] for post in latest) == [*jokes, *links], "the feed latest leaves nothing out"
    assert not any("copies" in post for post in latest)


@pytest.mark.usefixtures("follow")
def test_seen_posts_come_last_and_are_marked(acting: Acting, people: People, make: Make) -> None:
    alice, made = acting(people.alice), [make(people.bob, f"post {at}") for at in range(6)]

    def marks(body: Any) -> list[bool | None]:
        return [post.get("seen") for post in body["posts"]]

    for id_ in made[:3]:
        ok(alice.post(f"{API}/posts/{id_}/view"))
    body = read(alice)
    assert (sorted(shown(body)[:3]), sorted(shown(body)[3:])) == (made[3:], made[:3])
    assert marks(body) == [None, None, None, True, True, True]
    assert sorted(scroll(alice, limit=2)) == made
    for id_ in made[3:]:
        ok(alice.post(f"{API}/posts/{id_}/view"))
    body = read(alice)
    assert (sorted(shown(body)), marks(body)) == (made, [True] * 6)
    assert marks(read(alice, type="latest")) == [None] * 6


# --- paging ------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("follow")
def test_scrolling_continues_past_five_hundred_candidates_and_shows_each_once(
    acting: Acting, people: People, make: Make
) -> None:
    size = SLATE_MAX + 60
    made = [make((people.bob, people.carol, people.alice)[at % 3], f"{people.alice} {at}") for at in range(size)]
    first = read(acting(people.alice), limit=50)
    make(people.bob, "new ones come before the first page")
    rest = scroll(acting(people.alice), limit=50, cursor=first["pagination"]["nextCursor"])
    assert sorted([*shown(first), *rest]) == sorted(made)


@pytest.mark.usefixtures("follow")
def test_the_same_cursor_leads_to_the_same_page(acting: Acting, people: People, make: Make) -> None:
    for at in range(8):
        make((people.bob, people.carol)[at % 2], f"post {at}")
    cursor = read(acting(people.alice), limit=2)["pagination"]["nextCursor"]
    pages = [shown(read(acting(people.alice), limit=2, cursor=cursor)) for _ in range(3)]
    assert pages[0] == pages[1] == pages[2] != []


@pytest.mark.usefixtures("follow")
def test_a_user_token_continues_a_feed_that_a_server_key_began(
    acting: Acting, owner: Acting, people: People, make: Make
) -> None:
    made = [make(people.bob, f"post {at}") for at in range(4)]
    body = read(acting(people.alice), limit=1)
    rest = scroll(owner(people.alice), cursor=body["pagination"]["nextCursor"])
    assert sorted([*shown(body), *rest]) == sorted(made)


@pytest.mark.usefixtures("follow")
@pytest.mark.parametrize("kind", ["ranked", "latest"])
def test_a_cursor_is_valid_for_its_reader_and_feed_only(acting: Acting, people: People, make: Make, kind: str) -> None:
    ok(acting(people.bob).post(f"{API}/users/{people.carol}/follow"))
    for at in range(6):
        make((people.bob, people.carol)[at % 2], f"post {at}")
    alice, bob = acting(people.alice), acting(people.bob)
    cursor = read(alice, limit=1, type=kind)["pagination"]["nextCursor"]
    other = {"ranked": "latest", "latest": "ranked"}[kind]
    posts = alice.get(f"{API}/users/{people.bob}/posts", params={"limit": 1}).json()["pagination"]["nextCursor"]
    refused = [
        (bob, {"cursor": cursor, "type": kind}),
        (alice, {"cursor": cursor, "type": other}),
        (alice, {"cursor": posts, "type": kind}),
        *((alice, {"cursor": text, "type": kind}) for text in _altered(cursor)),
    ]
    for http, params in refused:
        assert code(http.get(f"{API}/feed", params=params), 400) == "CURSOR_INVALID", params
    ok(alice.get(f"{API}/feed", params={"cursor": cursor, "type": kind}))


def _altered(cursor: str) -> list[str]:
    def turned(at: int) -> str:
        return cursor[:at] + ("A" if cursor[at] != "A" else "B") + cursor[at + 1 :]

    places = [0, 10, 21, 22, 30, len(cursor) // 2, len(cursor) - 2, len(cursor) - 1]
    cuts = [cursor[:at] for at in (1, 5, 22, 30, len(cursor) - 4, len(cursor) - 1)]
    return [*map(turned, places), *cuts, cursor + "A", cursor * 2, "x", "%00", "🦊", "A" * 6_000]


def test_a_cursor_reveals_no_id_of_a_hidden_post(acting: Acting, people: People, make: Make) -> None:
    """A cursor is sealed. Alice can read nothing of it but its length."""
    ok(acting(people.alice).post(f"{API}/users/{people.bob}/follow"))
    hidden = [make(people.bob, f"private {at}", visibility="private") for at in range(3)]
    for at in range(4):
        make(people.bob, f"public {at}")
    cursor = read(acting(people.alice), limit=1)["pagination"]["nextCursor"]
    raw = _decoded(cursor)
    assert all(int(id_).to_bytes(8, "big")[:5] not in raw for id_ in hidden)


def test_the_length_of_a_cursor_does_not_depend_on_hidden_posts(acting: Acting, people: People, make: Make) -> None:
    lengths = set()
    for reader, author, hidden in ((people.alice, people.bob, 0), (people.dana, people.carol, 9)):
        ok(acting(reader).post(f"{API}/users/{author}/follow"))
        for at in range(hidden):
            make(author, f"private {at}", visibility="private")
        for at in range(4):
            make(author, f"public {at}")
        lengths.add(len(read(acting(reader), limit=1)["pagination"]["nextCursor"]))
    assert len(lengths) == 1


def _decoded(cursor: str) -> bytes:
    return base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))


# --- bad input ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "params",
    [
        {"limit": 0}, {"limit": 51}, {"limit": -1}, {"limit": "x"}, {"limit": 2**70}, {"limit": 1.5}, {"type": "best"},
        {"type": ""}, {"refresh": "perhaps"}, {"offset": 20}, {"Cursor": "x"}, {"page": 2}, {"limit": "007"},
        {"limit": "00"}, {"limit": "0"}, {"refresh": ""}, {"call": 1}, {"request": 1},
    ],
    ids=str,
)  # fmt: skip
def test_invalid_parameters_are_refused(acting: Acting, people: People, params: dict[str, Any]) -> None:
    assert code(acting(people.alice).get(f"{API}/feed", params=params), 400) == "INVALID_REQUEST"


@pytest.mark.parametrize("limit", [1, 50])
def test_the_smallest_and_largest_page_sizes_are_accepted(acting: Acting, people: People, limit: int) -> None:
    read(acting(people.alice), limit=limit)
    read(acting(people.alice), limit=limit, cursor="")


def test_a_feed_without_a_user_is_refused(http: httpx.Client, server: Server) -> None:
    nobody = http.get(f"{API}/feed")
    assert code(nobody, 400) == "INVALID_REQUEST"
    assert "X-Kith-User" in nobody.json()["error"]["message"]
    with server.client("") as stranger:
        assert code(stranger.get(f"{API}/feed"), 401) == "UNAUTHORIZED"


@pytest.mark.parametrize("name", ["r-1", "a" * 64, "f81d4fae-7dec-11d0-a765-00a0c91e6bf6", "!~"])
def test_a_request_keeps_the_id_that_the_client_sent(acting: Acting, people: People, name: str) -> None:
    answer = acting(people.alice).get(f"{API}/feed", headers={"X-Request-Id": name})
    assert ok(answer)["meta"]["requestId"] == name


@pytest.mark.parametrize(
    "name",
    [b"", b"a" * 65, b"a" * 5_000, b"two words", b"caf\xc3\xa9", b"\xff\xfe", b"a\tb"],
    ids=["empty", "long", "very-long", "two-words", "latin", "no-text", "tab"],
)
def test_an_invalid_request_id_is_replaced(acting: Acting, people: People, name: bytes) -> None:
    answer = acting(people.alice).get(f"{API}/feed", headers=[(b"X-Request-Id", name)])
    used = ok(answer)["meta"]["requestId"]
    assert len(used) == 16
    int(used, 16)


# --- see fewer, why ----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("follow")
def test_see_fewer_can_be_set_and_undone_and_shows_in_why(acting: Acting, people: People, make: Make) -> None:
    alice, id_ = acting(people.alice), make(people.bob, "again and again")

    def damping() -> float:
        return float(ok(alice.get(f"{API}/posts/{id_}/why"))["damping"])

    path = f"{API}/users/{people.bob}/see-fewer"
    assert damping() == 1
    for _ in range(2):
        answer = alice.post(path)
        assert ok(answer) == {"fewer": True}
        assert answer.headers["Kith-Token"]
        assert damping() == pytest.approx(0.1, abs=0.01)
    for _ in range(2):
        assert ok(alice.delete(path)) == {"fewer": False}
        assert damping() == 1
    assert code(alice.post(f"{API}/users/{people.alice}/see-fewer"), 400) == "SELF_EDGE"
    for bad in ("x", "-1", 2**63):
        assert code(alice.post(f"{API}/users/{bad}/see-fewer"), 400) in ("INVALID_ID", "INVALID_REQUEST")
        assert code(alice.get(f"{API}/posts/{bad}/why"), 400) in ("INVALID_ID", "INVALID_REQUEST")


@pytest.mark.usefixtures("follow")
def test_why_agrees_with_the_feed_and_answers_only_for_visible_posts(
    acting: Acting, people: People, make: Make
) -> None:
    alice = acting(people.alice)
    id_, secret = make(people.bob, "for all"), make(people.bob, "for me", visibility="private")
    ok(alice.post(f"{API}/posts/{id_}/like"))
    (post,) = read(alice)["posts"]
    why = ok(alice.get(f"{API}/posts/{id_}/why"))
    assert set(why) == {"id", "score", "reason", "parts", "damping", "excludedBy", "copyOf"}
    assert [part["name"] for part in why["parts"]] == ["recency", "affinity", "velocity", "type"]
    assert [part["weight"] for part in why["parts"]] == [0.3, 0.4, 0.2, 0.1]
    assert why["score"] == pytest.approx(post["ranking"]["score"], abs=0.01)
    assert (why["reason"], why["excludedBy"]) == (post["ranking"]["reason"], [])
    assert code(alice.get(f"{API}/posts/{secret}/why"), 404) == "POST_NOT_FOUND"
    assert code(alice.get(f"{API}/posts/5/why"), 404) == "POST_NOT_FOUND"
    ok(alice.post(f"{API}/users/{people.bob}/block"))
    assert code(alice.get(f"{API}/posts/{id_}/why"), 404) == "POST_NOT_FOUND"


# --- served pages, and an unavailable store ---------------------------------------------------------------


def test_served_pages_are_recorded_under_their_request_ids(tmp_path: Path, people: People) -> None:
    with serving(tmp_path, settings=DEFAULT_SETTINGS) as server:
        with server.client(acting=people.alice) as alice:
            made = ok(alice.post(f"{API}/posts", json={"content": {"text": "mine"}}), 201)["id"]
            score = ok(alice.get(f"{API}/feed", headers={"X-Request-Id": "one"}))["posts"][0]["ranking"]["score"]
            read(alice, type="latest")
        server.terminate()
        kept = [page for file in (server.data / "served").glob("*.rows") for page in read_served(file)]
    assert [(page.request, page.reader, page.ids) for page in kept] == [("one", people.alice, [int(made)])]
    assert kept[0].scores == pytest.approx([score], abs=1e-4)


def test_without_its_store_the_feed_is_unavailable_and_says_when_to_retry(tmp_path: Path) -> None:
    async def ask() -> httpx.Response:
        settings = Settings(data=str(tmp_path / "data"), api_keys=(KEY,), durability="relaxed")
        headers = {"Authorization": f"Bearer {KEY}", "X-Kith-User": "1"}
        async with serving_api(settings) as api, client_of(api.door, **headers) as client:
            with patch.object(Posts, "read", side_effect=StoreUnavailable("the disk is gone")):
                await client.post(f"{API}/posts", json={"content": {"text": "x"}})
                return await client.get(f"{API}/feed")

    answer = asyncio.run(ask())
    assert code(answer, 503) == "FEED_UNAVAILABLE"
    assert answer.json()["error"]["details"] == {"cause": "STORE_UNAVAILABLE"}
    assert answer.headers["retry-after"] == "1"
