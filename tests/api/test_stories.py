"""Stories over real HTTP: the contract, refusals, and who sees what."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from calls import PAGINATION, code, finish, ids, ok, tell
from cast import ALICE, BOB, FakeClock, People
from embedded_engine import open_embedded
from servers import API, ON_CLUSTER, eventually, serving
from services import SocialGraph

from kith.core.clock import HybridClock, wall_ms
from kith.core.ids import NodeId, Snowflakes
from kith.engines.embedded.record_store import EmbeddedRecords
from kith.graph.graphs import BUILT_IN, Graphs
from kith.posts.post import Draft
from kith.stories.stories import HOUR_MS, Stories

Acting = Callable[[int], httpx.Client]
STORY = {
    "id", "author", "content", "visibility", "audience", "mentions", "attributes", "createdAt", "expiresAt", "seen",
    "viewCount", "labels",
}  # fmt: skip
ENTRY = {"id", "author", "storyCount", "unseenCount", "latestAt", "more"}


def strip(http: httpx.Client) -> list[tuple[int, int, int]]:
    """The acting user's strip, as rows of (author, stories, unseen)."""
    items = ok(http.get(f"{API}/stories"))["items"]
    return [(int(item["id"]), item["storyCount"], item["unseenCount"]) for item in items]


# --- stories ---------------------------------------------------------------------------------------------


def test_a_story_reads_as_it_was_created(acting: Acting, people: People) -> None:
    alice, bob = acting(people.alice), acting(people.bob)
    ok(alice.patch(f"{API}/users/{people.alice}", json={"displayName": "Alice"}))
    asked = {
        "content": {"text": "look 🦊", "link": "https://example.com/a"},
        "visibility": "custom",
        "audience": [str(people.bob)],
        "mentions": [people.carol],
        "attributes": {"sticker": [1, "x"]},
    }
    answer = alice.post(f"{API}/stories", json=asked)
    body = ok(answer, 201)
    assert set(body) == STORY
    assert answer.headers["Kith-Token"]
    assert {"id": str(people.alice), "displayName": "Alice"}.items() <= body["author"].items()
    assert body["content"] == {"type": "link", "text": "look 🦊", "link": "https://example.com/a", "media": []}
    assert (body["audience"], body["mentions"]) == ([str(people.bob)], [str(people.carol)])
    assert (body["attributes"], body["seen"], body["viewCount"]) == (asked["attributes"], True, 0)
    created, expires = (datetime.fromisoformat(body[name]) for name in ("createdAt", "expiresAt"))
    assert expires - created == timedelta(hours=24)
    assert ok(alice.get(f"{API}/stories/{body['id']}")) == body
    shown = ok(bob.get(f"{API}/stories/{body['id']}"))
    assert shown == body | {"audience": None, "seen": False, "viewCount": None}, (
        "audience and view count are shown to the author only"
    )
    assert code(acting(people.carol).get(f"{API}/stories/{body['id']}"), 404) == "STORY_NOT_FOUND"


def test_a_name_in_a_story_is_a_mention_as_in_a_post(acting: Acting, people: People) -> None:
    alice, name = acting(people.alice), f"bob.{people.bob}"
    ok(acting(people.bob).patch(f"{API}/users/{people.bob}", json={"username": name}))
    asked = {"content": {"text": f"with @{name}"}, "mentions": [people.carol]}
    made = [(kind, ok(alice.post(f"{API}/{kind}", json=asked), 201)["id"]) for kind in ("posts", "stories")]
    mentions = [ok(alice.get(f"{API}/{kind}/{id_}"))["mentions"] for kind, id_ in made]
    assert mentions == [[str(people.carol), str(people.bob)]] * 2


@pytest.mark.parametrize(
    ("body", "status_code"),
    [
        ({"content": {"text": ""}}, "INVALID_CONTENT"),
        ({"content": {"text": "x" * 10_001}}, "INVALID_CONTENT"),
        ({"content": {"link": "javascript:alert(1)"}}, "INVALID_CONTENT"),
        ({"content": {"text": "x", "type": "image"}}, "INVALID_CONTENT"),
        ({"content": {"text": "x"}, "visibility": "custom"}, "INVALID_CONTENT"),
        ({"content": {"text": "x"}, "audience": ["1"]}, "INVALID_CONTENT"),
        ({"content": {"text": "x"}, "attributes": {"x": "y" * 5_000}}, "INVALID_CONTENT"),
        ({"content": {"text": "x"}, "visibility": "private"}, "INVALID_REQUEST"),
        ({"content": {"text": "x"}, "author": "5"}, "INVALID_REQUEST"),
        ({"content": {"text": "x"}, "hours": 48}, "INVALID_REQUEST"),
        ({"content": {"text": "x"}, "mentions": ["x"]}, "INVALID_ID"),
        ({}, "INVALID_REQUEST"),
        ([], "INVALID_REQUEST"),
    ],
    ids=lambda value: str(value)[:50],
)
def test_a_story_that_breaks_a_rule_is_refused(acting: Acting, people: People, body: Any, status_code: str) -> None:
    alice = acting(people.alice)
    assert code(alice.post(f"{API}/stories", json=body), 400) == status_code
    assert strip(alice) == []


@pytest.mark.parametrize("id_", ["x", "-1", str(2**63), "1.5"])
def test_an_invalid_id_is_a_400(acting: Acting, people: People, id_: str) -> None:
    alice = acting(people.alice)
    for method, path in (
        ("GET", f"/stories/{id_}"),
        ("DELETE", f"/stories/{id_}"),
        ("POST", f"/stories/{id_}/view"),
        ("GET", f"/stories/{id_}/viewers"),
        ("GET", f"/users/{id_}/stories"),
    ):
        assert code(alice.request(method, API + path), 400) in ("INVALID_ID", "INVALID_REQUEST")


def test_a_missing_story_or_the_id_of_a_post_is_a_404(acting: Acting, people: People) -> None:
    alice = acting(people.alice)
    post = ok(alice.post(f"{API}/posts", json={"content": {"text": "a post"}}), 201)["id"]
    story = tell(alice)
    for id_ in ("0", "5", post, str(int(story) + 1), str(2**63 - 1)):
        for method, end in (("GET", ""), ("DELETE", ""), ("POST", "/view"), ("GET", "/viewers")):
            assert code(alice.request(method, f"{API}/stories/{id_}{end}"), 404) == "STORY_NOT_FOUND"
    assert code(alice.get(f"{API}/posts/{story}"), 404) == "POST_NOT_FOUND"
    assert code(alice.post(f"{API}/posts/{story}/like"), 404) == "POST_NOT_FOUND"
    assert code(alice.post(f"{API}/posts/{story}/comments", json={"text": "x"}), 404) == "POST_NOT_FOUND"


def test_a_story_is_in_no_feed_and_no_list_of_posts(acting: Acting, people: People) -> None:
    alice, bob = acting(people.alice), acting(people.bob)
    ok(bob.post(f"{API}/users/{people.alice}/follow"))
    tell(alice)
    for refresh in ("false", "true"):
        assert ok(bob.get(f"{API}/feed", params={"refresh": refresh}))["posts"] == []
        assert ok(alice.get(f"{API}/feed", params={"refresh": refresh}))["posts"] == []
    assert ok(alice.get(f"{API}/users/{people.alice}/posts"))["items"] == []


def test_a_repeated_key_creates_one_story(acting: Acting, people: People) -> None:
    alice, key = acting(people.alice), {"Idempotency-Key": "once"}
    body = {"content": {"text": "once"}}
    first, again = (ok(alice.post(f"{API}/stories", json=body, headers=key), 201) for _ in range(2))
    assert first == again
    assert strip(alice) == [(people.alice, 1, 0)]
    other = alice.post(f"{API}/stories", json={"content": {"text": "twice"}}, headers=key)
    assert code(other, 409) == "IDEMPOTENCY_KEY_REUSED"


def test_seen_state_and_viewers(acting: Acting, people: People, system: httpx.Client) -> None:
    alice, bob, carol = acting(people.alice), acting(people.bob), acting(people.carol)
    story = tell(alice)
    answer = bob.post(f"{API}/stories/{story}/view")
    first = ok(answer)
    assert set(first) == {"viewed", "timestamp"}
    assert first["viewed"] is True
    assert answer.headers["Kith-Token"]
    assert ok(bob.post(f"{API}/stories/{story}/view")) == first, "a second view changes nothing"
    ok(carol.post(f"{API}/stories/{story}/view"))
    ok(alice.post(f"{API}/stories/{story}/view"))
    assert ok(bob.get(f"{API}/stories/{story}"))["seen"] is True
    assert ok(alice.get(f"{API}/stories/{story}"))["viewCount"] == 2
    body = ok(alice.get(f"{API}/stories/{story}/viewers"))
    assert set(body["pagination"]) == PAGINATION
    assert all(set(item) == {"id", "user", "viewedAt"} for item in body["items"])
    assert ids(body) == [people.carol, people.bob]
    assert body["items"][1]["viewedAt"] == first["timestamp"]
    assert ids(ok(system.get(f"{API}/stories/{story}/viewers"))) == [people.carol, people.bob], (
        "the app sees the viewers, too"
    )
    assert code(bob.get(f"{API}/stories/{story}/viewers"), 403) == "FORBIDDEN"
    page = ok(alice.get(f"{API}/stories/{story}/viewers", params={"limit": 1}))
    rest = {"limit": 1, "cursor": page["pagination"]["nextCursor"]}
    assert ids(ok(alice.get(f"{API}/stories/{story}/viewers", params=rest))) == [people.bob]
    other = tell(alice)
    assert code(alice.get(f"{API}/stories/{other}/viewers", params=rest), 400) == "CURSOR_INVALID"


def test_the_strip_over_http(acting: Acting, people: People) -> None:
    alice, bob, carol, dana = (acting(person) for person in people)
    for author in (people.alice, people.carol, people.dana):
        ok(bob.post(f"{API}/users/{author}/follow"))
    ok(dana.post(f"{API}/users/{people.bob}/follow"))
    seen = tell(carol)
    tell(alice)
    tell(alice, visibility="friends")
    tell(dana)
    tell(dana, visibility="friends")
    tell(bob)
    ok(bob.post(f"{API}/stories/{seen}/view"))
    body = ok(bob.get(f"{API}/stories"))
    assert set(body) == {"items", "pagination", "partial"}
    assert all(set(item) == ENTRY and item["author"]["id"] == item["id"] for item in body["items"])
    assert body["partial"] is False
    mine, later, unseen, old = ((people.bob, 1, 0), (people.dana, 2, 2), (people.alice, 1, 1), (people.carol, 1, 0))
    assert strip(bob) == [mine, later, unseen, old]
    first = ok(bob.get(f"{API}/stories", params={"limit": 3}))
    cursor = first["pagination"]["nextCursor"]
    assert ids(ok(bob.get(f"{API}/stories", params={"limit": 3, "cursor": cursor}))) == [people.carol]
    assert code(alice.get(f"{API}/stories", params={"cursor": cursor}), 400) == "CURSOR_INVALID"
    for limit in (0, 10_000):
        assert code(bob.get(f"{API}/stories", params={"limit": limit}), 400) == "INVALID_REQUEST"


def test_authors_whose_posts_the_user_likes_come_first(acting: Acting, people: People) -> None:
    bob = acting(people.bob)
    post = ok(acting(people.alice).post(f"{API}/posts", json={"content": {"text": "a post"}}), 201)["id"]
    for author in (people.alice, people.carol):
        ok(bob.post(f"{API}/users/{author}/follow"))
        tell(acting(author))
    assert [row[0] for row in strip(bob)] == [people.carol, people.alice]
    ok(bob.post(f"{API}/posts/{post}/like"))
    assert [row[0] for row in strip(bob)] == [people.alice, people.carol]


def test_an_authors_stories_are_paged_in_the_order_of_creation(acting: Acting, people: People) -> None:
    alice, bob = acting(people.alice), acting(people.bob)
    told = [int(tell(alice, str(number))) for number in range(5)]
    path, found, cursor = f"{API}/users/{people.alice}/stories", [], None
    for _ in range(3):
        body = ok(bob.get(path, params={"limit": 2, **({"cursor": cursor} if cursor else {})}))
        assert all(set(item) == STORY for item in body["items"])
        found.append(ids(body))
        cursor = body["pagination"]["nextCursor"]
    assert found == [told[:2], told[2:4], told[4:]]
    assert cursor is None
    assert ids(ok(bob.get(path, params={"limit": 2, "cursor": body["pagination"]["prevCursor"]}))) == told[2:4]


def test_a_list_does_not_reveal_the_number_of_hidden_stories(acting: Acting, people: People) -> None:
    alice, bob, path = acting(people.alice), acting(people.bob), f"{API}/users/{people.alice}/stories"
    nothing = {"nextCursor": None, "prevCursor": None, "hasMore": False}
    for _ in range(3):
        tell(alice, visibility="custom", audience=[people.carol])
    assert ok(bob.get(path, params={"limit": 1})) == {"items": [], "pagination": nothing}
    shown = int(tell(alice))
    tell(alice, visibility="friends")
    body = ok(bob.get(path, params={"limit": 1}))
    assert (ids(body), body["pagination"]) == ([shown], nothing)


def test_blocks_private_accounts_and_deactivation_hide_stories_on_every_route(
    acting: Acting, people: People, http: httpx.Client
) -> None:
    alice, bob, carol = acting(people.alice), acting(people.bob), acting(people.carol)
    for fan in (bob, carol):
        ok(fan.post(f"{API}/users/{people.alice}/follow"))
    story = tell(alice)

    def hidden(viewer: httpx.Client) -> bool:
        doors = (("GET", ""), ("POST", "/view"), ("DELETE", ""), ("GET", "/viewers"))
        codes = {code(viewer.request(method, f"{API}/stories/{story}{end}"), 404) for method, end in doors}
        return codes == {"STORY_NOT_FOUND"} and strip(viewer) == []

    ok(carol.post(f"{API}/users/{people.alice}/block"))
    assert hidden(carol)
    assert code(bob.get(f"{API}/stories/{story}/viewers"), 403) == "FORBIDDEN"
    ok(http.put(f"{API}/users/{people.alice}", json={"private": True}))
    with_dana = acting(people.dana)
    assert hidden(with_dana)
    assert code(with_dana.get(f"{API}/users/{people.alice}/stories"), 403) == "FORBIDDEN"
    assert ids(ok(bob.get(f"{API}/users/{people.alice}/stories"))) == [int(story)]
    ok(http.put(f"{API}/users/{people.alice}", json={"private": False}))
    finish(http, http.post(f"{API}/users/{people.alice}/deactivate"))
    assert hidden(bob)
    assert code(bob.get(f"{API}/users/{people.alice}/stories"), 404) == "USER_NOT_FOUND"
    finish(http, http.post(f"{API}/users/{people.alice}/reactivate"))
    assert ids(ok(bob.get(f"{API}/users/{people.alice}/stories"))) == [int(story)]
    assert strip(bob) == [(people.alice, 1, 1)]


def test_a_deleted_story_is_gone_for_its_author_too(acting: Acting, people: People) -> None:
    alice = acting(people.alice)
    story = tell(alice)
    assert code(acting(people.bob).delete(f"{API}/stories/{story}"), 403) == "FORBIDDEN"
    assert alice.delete(f"{API}/stories/{story}").status_code == 204
    assert code(alice.get(f"{API}/stories/{story}"), 404) == "STORY_NOT_FOUND"
    assert code(alice.delete(f"{API}/stories/{story}"), 404) == "STORY_NOT_FOUND"
    assert strip(alice) == []


def write_stories(folder: Path, *hours_ago: float) -> list[int]:
    """Write Alice's stories of so many hours ago into a new folder. Bob follows her and has seen them.

    The server starts afterwards.
    """

    async def write(store: Any, environment: Any) -> list[int]:
        clock = FakeClock(wall_ms() - 100 * HOUR_MS)
        graph = SocialGraph(store, Graphs(await store.declare(BUILT_IN)), HybridClock(clock))
        objects = EmbeddedRecords(environment, store._commits)
        stories = Stories(objects, graph, Snowflakes(1, clock), hours=24, now_ms=clock)
        await graph.people.follow(BOB, ALICE)
        told = []
        for hours in hours_ago:
            clock.ms = wall_ms() - int(hours * HOUR_MS)
            told.append((await stories.create(ALICE, Draft(text=f"{hours} hours ago"))).post.id)
            await stories.view(BOB, NodeId(told[-1]))
        return told

    with open_embedded(folder / "data") as (environment, store):
        return asyncio.run(write(store, environment))


@pytest.mark.skipif(ON_CLUSTER, reason="writes to the data folder")
def test_an_expired_story_is_gone_for_everybody_and_its_space_is_reclaimed(tmp_path: Path) -> None:
    old, over, live = write_stories(tmp_path, 30, 24.2, 23.5)
    with serving(tmp_path) as server, server.client() as app, server.client(acting=ALICE) as alice:
        for http in (app, alice, server.client(acting=BOB)):
            for story in (old, over):
                for end in ("", "/viewers"):
                    assert code(http.get(f"{API}/stories/{story}{end}"), 404) == "STORY_NOT_FOUND"
            assert ids(ok(http.get(f"{API}/users/{ALICE}/stories"))) == [live]
        assert strip(alice) == [(ALICE, 1, 0)]
        edge, view = f"{API}/graph/stories/{ALICE}", f"{API}/graph/story_views/{BOB}"
        eventually(lambda: app.get(f"{edge}/{old}/edge").status_code == 404)
        eventually(lambda: app.get(f"{view}/{old}/edge").status_code == 404)
        assert "stories reclaimed" in eventually(lambda: "stories reclaimed" in server.output() and server.output())
        for story in (over, live):  # a story that has just expired may still be written about
            ok(app.get(f"{edge}/{story}/edge"))
            ok(app.get(f"{view}/{story}/edge"))


@pytest.mark.skipif(ON_CLUSTER, reason="writes to the data folder")
def test_the_lifetime_of_a_story_is_a_setting(tmp_path: Path) -> None:
    _, two_days, one_day = write_stories(tmp_path, 72, 47.5, 23.5)
    with serving(tmp_path, KITH_STORY_HOURS="48") as server, server.client(acting=BOB) as bob:
        assert ids(ok(bob.get(f"{API}/users/{ALICE}/stories"))) == [two_days, one_day]
