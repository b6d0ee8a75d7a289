"""Who may call which route: every route of the API with every kind of caller.

The table is complete: `test_every_route_has_a_row` fails for a route of the OpenAPI document without a row.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import httpx
import pytest
from calls import NO_PROFILE, add_edges, check, code, finish, ids, ok, upload
from cast import People
from pictures import photo
from servers import API, JWT_SECRET, KEY, OTHER_KEY, Server, serving, sign

CALLERS = ("system", "server", "server for Alice", "Alice", "Bob", "nobody", "bad key")


class Row(NamedTuple):
    """The status that each of CALLERS gets.

    `{a}` is Alice, whose data it is; `{b}` Bob; `{c}` Carol. `{job}`, `{post}`, `{comment}`, `{story}`, `{media}`,
    `{board}` (Carol pins on it) and `{other}`, one more board, are Alice's. `{carols}` is a board of Carol's. `{name}`
    is Alice's username.
    """

    method: str
    route: str
    path: str
    statuses: tuple[int, int, int, int, int]
    body: Any = None


ALL, OWN, SERVER, ACTS = (200,) * 5, (200, 200, 200, 200, 403), (200, 200, 200, 403, 403), (400, 400, 200, 200, 200)
OWNER = (200, 403, 200, 200, 403)
SEES, DOES, MAKES = (200, 404, 200, 200, 404), (400, 400, 200, 200, 404), (400, 400, 201, 201, 404)
ENDS, LISTS, STRANGE = (400, 400, 204, 404, 404), (200, 404, 200, 200, 403), (200, 404, 200, 200, 200)
GONE = (404, 404, 404, 403, 403)
MENTION = (202, 202, 202, 403, 403)
CONTENT = {"content": {"text": "x"}}
FORM = {"file": ("x", photo())}
"""Sent as a form, not as JSON."""
LEAF = {"graph": "follows", "node": "{a}", "direction": "out"}
ROWS = [
    Row("GET", "/graph/{graph}/{source}/{destination}", "/graph/likes/{a}/{c}", OWN),
    Row("GET", "/graph/{graph}/{source}/{destination}", "/graph/blocks/{c}/{a}", SERVER),
    Row("GET", "/graph/{graph}/{source}/{destination}", "/graph/follows/{c}/{a}", OWN),
    Row("POST", "/graph/{graph}/check", "/graph/likes/check", OWN, {"pairs": [["{a}", "{c}"]]}),
    Row("POST", "/graph/{graph}/check", "/graph/follows/check", OWN, {"pairs": [["{c}", "{a}"]]}),
    Row("POST", "/graph/{graph}/check", "/graph/mutes/check", SERVER, {"pairs": [["{a}", "{c}"], ["{c}", "{a}"]]}),
    Row("POST", "/graph/{graph}/edges", "/graph/mutes/edges", SERVER, {"edges": []}),
    Row("POST", "/graph/{graph}/edges", "/graph/likes/edges", (403,) * 5, {"edges": []}),
    Row("GET", "/graph/{graph}/{source}/{destination}/edge", "/graph/hides/{a}/{post}/edge", OWN),
    Row("GET", "/graph/{graph}/{source}/{destination}/edge", "/graph/hides/{c}/{a}/edge", (404, 404, 404, 403, 403)),
    Row("GET", "/graph/{graph}/{node}/out", "/graph/blocks/{a}/out", OWN),
    Row("GET", "/graph/{graph}/{node}/in", "/graph/follows/{a}/in", OWN),
    Row("GET", "/graph/{graph}/{node}/in", "/graph/blocks/{a}/in", SERVER),
    Row("GET", "/graph/{graph}/{node}/in", "/graph/mutes/{a}/in", SERVER),
    Row("GET", "/graph/{graph}/{node}/out/count", "/graph/mutes/{a}/out/count", OWN),
    Row("GET", "/graph/{graph}/{node}/in/count", "/graph/follows/{a}/in/count", OWN),
    Row("GET", "/graph/{graph}/{node}/in/count", "/graph/blocks/{a}/in/count", SERVER),
    Row("POST", "/graph/select", "/graph/select", OWN, {"program": LEAF}),
    Row("POST", "/graph/select", "/graph/select", SERVER, {"program": {"union": [LEAF, {**LEAF, "node": "{c}"}]}}),
    Row("POST", "/graph/select/count", "/graph/select/count", OWN, {"program": LEAF}),
    Row("POST", "/graph/select/count", "/graph/select/count", SERVER, {"program": {**LEAF, "node": "{c}"}}),
    Row("POST", "/users/{user_id}/follow", "/users/{c}/follow", ACTS),
    Row("DELETE", "/users/{user_id}/follow", "/users/{c}/follow", ACTS),
    Row("POST", "/users/{user_id}/block", "/users/{c}/block", ACTS),
    Row("DELETE", "/users/{user_id}/block", "/users/{c}/block", ACTS),
    Row("POST", "/users/{user_id}/mute", "/users/{c}/mute", ACTS),
    Row("DELETE", "/users/{user_id}/mute", "/users/{c}/mute", ACTS),
    Row("POST", "/users/{user_id}/remove-follower", "/users/{c}/remove-follower", ACTS),
    Row("GET", "/follow-requests", "/follow-requests", ACTS),
    Row("POST", "/users/{user_id}/hide-suggestion", "/users/{c}/hide-suggestion", ACTS),
    Row("DELETE", "/users/{user_id}/hide-suggestion", "/users/{c}/hide-suggestion", ACTS),
    Row("GET", "/users/{user_id}/suggestions", "/users/{a}/suggestions", OWNER),
    Row("GET", "/graph/{graph}/{node}/out", "/graph/suggestion_hides/{a}/out", OWN),
    Row("GET", "/graph/{graph}/{node}/in", "/graph/suggestion_hides/{a}/in", SERVER),
    Row("POST", "/follow-requests/{user_id}/accept", "/follow-requests/{d}/accept", DOES),
    Row("POST", "/follow-requests/{user_id}/decline", "/follow-requests/{d}/decline", ACTS),
    Row("POST", "/relationships", "/relationships", ACTS, {"targets": ["{c}"]}),
    Row("GET", "/users/{user_id}/following", "/users/{a}/following", LISTS),
    Row("GET", "/users/{user_id}/followers", "/users/{a}/followers", LISTS),
    Row("GET", "/users/{user_id}/friends", "/users/{a}/friends", LISTS),
    Row("GET", "/users/{user_id}/mutuals/{other_id}", "/users/{a}/mutuals/{c}", LISTS),
    Row("GET", "/users/{user_id}/mutuals/{other_id}", "/users/{c}/mutuals/{a}", LISTS),
    Row("GET", "/users/{user_id}/followers-you-know", "/users/{a}/followers-you-know", (400, 400, 200, 200, 403)),
    Row("GET", "/users/{user_id}", "/users/{a}", STRANGE),
    Row("GET", "/search/users", "/search/users?q=ann", (200,) * 5),
    Row("GET", "/users/by-username/{username}", "/users/by-username/{name}", STRANGE),
    Row("PUT", "/users/{user_id}", "/users/{a}", OWN, {"private": True}),
    Row("PUT", "/users/{user_id}", "/users/{a}", SERVER, {"isVerified": True}),
    Row("PATCH", "/users/{user_id}", "/users/{a}", SERVER, {"isVerified": True}),
    Row("PUT", "/labels/{kind}/{object_id}", "/labels/user/{a}", SERVER, {"labels": ["sensitive"]}),
    Row("PUT", "/labels/{kind}/{object_id}", "/labels/post/{post}", SERVER, {"labels": ["hide"]}),
    Row("GET", "/labels/{kind}/{object_id}", "/labels/user/{a}", SERVER),
    Row("GET", "/labels/{kind}/{object_id}", "/labels/post/{post}", SERVER),
    Row("DELETE", "/labels/{kind}/{object_id}", "/labels/user/{a}", SERVER),
    Row("DELETE", "/labels/{kind}/{object_id}", "/labels/post/{post}", SERVER),
    Row("PATCH", "/users/{user_id}", "/users/{a}", OWN, {"private": True}),
    Row("GET", "/users/{user_id}/posts", "/users/{a}/posts", LISTS),
    Row("POST", "/posts", "/posts", (400, 400, 201, 201, 201), CONTENT),
    Row("GET", "/posts/{post_id}", "/posts/{post}", SEES),
    Row("PATCH", "/posts/{post_id}", "/posts/{post}", DOES, CONTENT),
    Row("DELETE", "/posts/{post_id}", "/posts/{post}", ENDS),
    Row("POST", "/posts/{post_id}/like", "/posts/{post}/like", DOES),
    Row("DELETE", "/posts/{post_id}/like", "/posts/{post}/like", DOES),
    Row("GET", "/posts/{post_id}/likes", "/posts/{post}/likes", SEES),
    Row("GET", "/users/{user_id}/saved", "/users/{a}/saved", OWNER),
    Row("GET", "/users/{user_id}/mentions", "/users/{a}/mentions", OWNER),
    Row("GET", "/users/{user_id}/blocked", "/users/{a}/blocked", OWNER),
    Row("GET", "/users/{user_id}/muted", "/users/{a}/muted", OWNER),
    Row("GET", "/graph/{graph}/{node}/out", "/graph/mentioned/{a}/out", SERVER),
    Row("GET", "/graph/{graph}/{source}/{destination}", "/graph/mentioned/{a}/{post}", SERVER),
    Row("POST", "/posts/{post_id}/save", "/posts/{post}/save", DOES),
    Row("DELETE", "/posts/{post_id}/save", "/posts/{post}/save", DOES),
    Row("POST", "/posts/{post_id}/share", "/posts/{post}/share", DOES),
    Row("DELETE", "/posts/{post_id}/share", "/posts/{post}/share", DOES),
    Row("POST", "/posts/{post_id}/hide", "/posts/{post}/hide", DOES),
    Row("DELETE", "/posts/{post_id}/hide", "/posts/{post}/hide", DOES),
    Row("POST", "/posts/{post_id}/view", "/posts/{post}/view", DOES),
    Row("POST", "/posts/view", "/posts/view", ACTS, {"ids": ["{post}"]}),
    Row("POST", "/posts/{post_id}/comments", "/posts/{post}/comments", MAKES, {"text": "x"}),
    Row("GET", "/posts/{post_id}/comments", "/posts/{post}/comments", SEES),
    Row("GET", "/comments/{comment_id}/replies", "/comments/{comment}/replies", SEES),
    Row("POST", "/comments/{comment_id}/like", "/comments/{comment}/like", DOES),
    Row("DELETE", "/comments/{comment_id}/like", "/comments/{comment}/like", DOES),
    Row("DELETE", "/comments/{comment_id}", "/comments/{comment}", ENDS),
    Row("POST", "/posts/lookup", "/posts/lookup", ALL, {"ids": ["{post}"]}),
    Row("POST", "/users/lookup", "/users/lookup", ALL, {"ids": ["{a}"]}),
    Row("POST", "/stories", "/stories", (400, 400, 201, 201, 201), CONTENT),
    Row("GET", "/stories", "/stories", ACTS),
    Row("GET", "/stories/{story_id}", "/stories/{story}", SEES),
    Row("DELETE", "/stories/{story_id}", "/stories/{story}", ENDS),
    Row("POST", "/stories/{story_id}/view", "/stories/{story}/view", DOES),
    Row("GET", "/stories/{story_id}/viewers", "/stories/{story}/viewers", SEES),
    Row("GET", "/users/{user_id}/stories", "/users/{a}/stories", LISTS),
    Row("POST", "/boards", "/boards", (400, 400, 201, 201, 201), {"name": "x"}),
    Row("GET", "/boards/{board_id}", "/boards/{board}", SEES),
    Row("PATCH", "/boards/{board_id}", "/boards/{board}", DOES, {"secret": True}),
    Row("DELETE", "/boards/{board_id}", "/boards/{board}", ENDS),
    Row("POST", "/boards/{board_id}/move", "/boards/{board}/move", (400, 400, 200, 200, 404), {"owner": "{c}"}),
    Row("POST", "/boards/{board_id}/merge", "/boards/{board}/merge", (400, 400, 200, 200, 404), {"into": "{other}"}),
    Row("GET", "/users/{user_id}/boards", "/users/{a}/boards", LISTS),
    Row("POST", "/boards/{board_id}/collaborators/{user_id}", "/boards/{board}/collaborators/{d}", DOES),
    Row("DELETE", "/boards/{board_id}/collaborators/{user_id}", "/boards/{board}/collaborators/{c}", DOES),
    Row("GET", "/boards/{board_id}/collaborators", "/boards/{board}/collaborators", SEES),
    Row("GET", "/users/{user_id}/collaborations", "/users/{a}/collaborations", OWNER),
    Row("POST", "/boards/{board_id}/follow", "/boards/{board}/follow", (400, 400, 400, 400, 404)),
    Row("POST", "/boards/{board_id}/follow", "/boards/{carols}/follow", ACTS),
    Row("DELETE", "/boards/{board_id}/follow", "/boards/{carols}/follow", (400, 400, 409, 409, 409)),
    Row("GET", "/boards/{board_id}/follow", "/boards/{board}/follow", ACTS),
    Row("POST", "/boards/check", "/boards/check", ACTS, {"users": ["{a}"], "boards": ["{board}"]}),
    Row("GET", "/boards/{board_id}/followers", "/boards/{board}/followers", SEES),
    Row("GET", "/boards/{board_id}/followers/count", "/boards/{board}/followers/count", SEES),
    Row("GET", "/users/{user_id}/boards-followed", "/users/{a}/boards-followed", LISTS),
    Row("GET", "/users/{user_id}/boards-unfollowed", "/users/{a}/boards-unfollowed", OWNER),
    Row("GET", "/users/{user_id}/implicit-following", "/users/{a}/implicit-following", LISTS),
    Row("GET", "/users/{user_id}/implicit-followers", "/users/{a}/implicit-followers", LISTS),
    Row("GET", "/users/{user_id}/interests", "/users/{a}/interests", LISTS),
    Row("POST", "/boards/{board_id}/pins", "/boards/{board}/pins", DOES, {"post": "{post}"}),
    Row("DELETE", "/boards/{board_id}/pins/{post_id}", "/boards/{board}/pins/{post}", DOES),
    Row("GET", "/boards/{board_id}/pins", "/boards/{board}/pins", SEES),
    Row("GET", "/graph/{graph}/{node}/out", "/graph/boards/{a}/out", OWN),
    Row("GET", "/graph/{graph}/{node}/out", "/graph/board_members/{a}/out", SERVER),
    Row("GET", "/graph/{graph}/{node}/out", "/graph/pins/{board}/out", SERVER),
    Row("GET", "/graph/{graph}/{node}/in", "/graph/implicit_follows/{a}/in", SERVER),
    Row("GET", "/graph/{graph}/{node}/out", "/graph/stories/{a}/out", OWN),
    Row("GET", "/graph/{graph}/{node}/out", "/graph/story_views/{a}/out", OWN),
    Row("GET", "/graph/{graph}/{node}/in", "/graph/story_views/{story}/in", SERVER),
    Row("GET", "/graph/{graph}/{node}/out", "/graph/authored/{a}/out", OWN),
    Row("GET", "/graph/{graph}/{node}/out", "/graph/comments/{post}/out", SERVER),
    Row("GET", "/graph/{graph}/{node}/in", "/graph/likes/{post}/in", SERVER),
    Row("GET", "/graph/{graph}/{node}/in/count", "/graph/views/{post}/in/count", SERVER),
    Row("POST", "/media", "/media", (400, 400, 201, 201, 201), FORM),
    Row("GET", "/media/{media_id}", "/media/{media}", SEES),
    Row("PATCH", "/media/{media_id}", "/media/{media}", DOES, {"altText": "x"}),
    Row("DELETE", "/media/{media_id}", "/media/{media}", (400, 400, 204, 204, 404)),
    Row("GET", "/jobs/{job_id}", "/jobs/{job}", OWN),
    Row("GET", "/feed", "/feed", ACTS),
    Row("GET", "/notifications", "/notifications", ACTS),
    Row("GET", "/notifications/unread", "/notifications/unread", ACTS),
    Row("POST", "/notifications/read", "/notifications/read", ACTS, {"ids": ["1"]}),
    Row("POST", "/notifications/seen", "/notifications/seen", ACTS, {"upTo": "1"}),
    Row("POST", "/mentions", "/mentions", MENTION, {"eventId": "e{c}", "actor": "{c}", "mentioned": "{d}"}),
    Row("GET", "/preferences", "/preferences", ACTS),
    Row("PUT", "/preferences", "/preferences", ACTS, {"mentions": "none"}),
    Row("POST", "/devices", "/devices", (400, 400, 400, 400, 400), {"kind": "fcm", "token": "x"}),
    Row("GET", "/devices", "/devices", ACTS),
    Row("GET", "/devices/{device_id}", "/devices/7", (400, 400, 404, 404, 404)),
    Row("DELETE", "/devices/{device_id}", "/devices/7", (400, 400, 404, 404, 404)),
    Row("GET", "/posts/{post_id}/why", "/posts/{post}/why", DOES),
    Row("POST", "/users/{user_id}/see-fewer", "/users/{c}/see-fewer", ACTS),
    Row("DELETE", "/users/{user_id}/see-fewer", "/users/{c}/see-fewer", ACTS),
    Row("GET", "/feed/stream", "/feed/stream", ACTS),
    Row("GET", "/watch", "/watch", ALL),
    Row("POST", "/webhooks", "/webhooks", (400, 400, 400, 403, 403), {"url": "ftp://app.example"}),
    Row("GET", "/webhooks", "/webhooks", SERVER),
    Row("GET", "/webhooks/{webhook_id}", "/webhooks/7", GONE),
    Row("GET", "/webhooks/{webhook_id}/dead", "/webhooks/7/dead", GONE),
    Row("POST", "/webhooks/{webhook_id}/replay", "/webhooks/7/replay", GONE),
    Row("DELETE", "/webhooks/{webhook_id}", "/webhooks/7", GONE),
    Row("POST", "/users/{user_id}/deactivate", "/users/{a}/deactivate", (202, 202, 202, 202, 403)),
    Row("POST", "/users/{user_id}/reactivate", "/users/{a}/reactivate", (202, 202, 202, 202, 403)),
    Row("DELETE", "/users/{user_id}", "/users/{a}", (202, 202, 202, 202, 403)),
]
"""Alice is private and Bob does not follow her. The rows of one test run in this order."""


def callers(server: Server, people: People) -> dict[str, httpx.Client]:
    """A client for each of CALLERS."""
    return {
        "system": server.client(acting="system"),
        "server": server.client(),
        "server for Alice": server.client(acting=people.alice),
        "Alice": server.client(sign(people.alice)),
        "Bob": server.client(sign(people.bob)),
        "nobody": server.client(""),
        "bad key": server.client(KEY[:-1] + "x"),
    }


def board_of(http: httpx.Client) -> str:
    """A new board of the acting user."""
    return str(ok(http.post(f"{API}/boards", json={"name": "x"}), 201)["id"])


def filled(value: Any, names: dict[str, str]) -> Any:
    """Fill in a template: `{a}` and the like are replaced by `names`."""
    if isinstance(value, str):
        for name, text in names.items():
            value = value.replace(f"{{{name}}}", text)
        return value
    if isinstance(value, dict):
        return {key: filled(part, names) for key, part in value.items()}
    return [filled(part, names) for part in value] if isinstance(value, list) else value


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.method} {row.path}")
def test_each_caller_gets_what_the_table_says(server: Server, people: People, row: Row) -> None:
    clients = callers(server, people)
    http = clients["server"]
    job = finish(http, http.post(f"{API}/users/{people.alice}/reactivate"))["id"]
    ok(http.put(f"{API}/users/{people.alice}", json={"private": True, "username": f"a{people.alice}"}))
    with server.client(acting=people.dana) as dana:
        ok(dana.post(f"{API}/users/{people.alice}/follow"))
    post = ok(clients["Alice"].post(f"{API}/posts", json=CONTENT), 201)["id"]
    ok(clients["Alice"].post(f"{API}/posts/{post}/hide"))
    comment = ok(clients["Alice"].post(f"{API}/posts/{post}/comments", json={"text": "x"}), 201)["id"]
    story = ok(clients["Alice"].post(f"{API}/stories", json=CONTENT), 201)["id"]
    media = upload(clients["Alice"], photo())["id"]
    of_alice = {"job": job, "post": post, "comment": comment, "story": story, "media": media}
    with server.client(acting=people.carol) as carol:
        of_alice["carols"] = board_of(carol)
    of_alice |= {"board": board_of(clients["Alice"]), "other": board_of(clients["Alice"])}
    ok(clients["Alice"].post(f"{API}/boards/{of_alice['board']}/collaborators/{people.carol}"))
    names = dict(zip("abcd", people, strict=True)) | of_alice
    names["name"] = f"A{people.alice}"
    path, body = (filled(part, {name: str(value) for name, value in names.items()}) for part in (row.path, row.body))
    sent = {"files": FORM} if row.body is FORM else {"json": body}
    expected = dict(zip(CALLERS, (*row.statuses, 401, 401), strict=True))
    got = {}
    for caller in ("nobody", "bad key", "Bob", "server for Alice", "Alice", "server", "system"):
        with clients[caller].stream(row.method, API + path, **sent) as answer:  # a stream, because a watch never ends
            got[caller] = answer.status_code
    for client in clients.values():
        client.close()
    assert got == expected


def test_every_route_has_a_row(server: Server) -> None:
    document = server.get("/openapi.json").json()
    routes = {
        (method.upper(), path.removeprefix(API))
        for path, item in document["paths"].items()
        for method in item
        if path.startswith(API)
    }
    assert routes == {(row.method, row.route) for row in ROWS}
    outside = {path for path in document["paths"] if not path.startswith(API)}
    assert outside <= {"/healthz", "/readyz", "/metrics", "/media/{folder}/{file}"}


def test_no_user_learns_who_unfollowed(server: Server, people: People) -> None:
    """Nor the time: a removed or archived edge would reveal an unfollow, a block, or an account that left."""
    alice, bob = people.alice, people.bob
    with server.client() as app, server.client(sign(alice)) as own:
        add_edges(app, "follows", (bob, alice))
        assert ok(own.get(f"{API}/graph/follows/{bob}/{alice}/edge"))["state"] == "normal"
        ok(
            app.post(
                f"{API}/graph/follows/edges", json={"edges": [{"op": "remove", "source": bob, "destination": alice}]}
            )
        )
        assert code(own.get(f"{API}/graph/follows/{bob}/{alice}/edge"), 404) == "NOT_FOUND"
        assert ok(app.get(f"{API}/graph/follows/{bob}/{alice}/edge"))["state"] == "removed"
        for state in ("removed", "archived"):
            for path in (
                f"/graph/follows/{alice}/in",
                f"/graph/follows/{alice}/in/count",
                f"/graph/follows/{alice}/out",
            ):
                assert code(own.get(API + path, params={"state": state}), 403) == "FORBIDDEN"
                ok(app.get(API + path, params={"state": state}))
            leaf = {"graph": "follows", "node": str(alice), "direction": "in", "states": [state]}
            assert code(own.post(f"{API}/graph/select", json={"program": leaf}), 403) == "FORBIDDEN"


def test_a_user_token_may_name_its_own_user_and_no_other(server: Server, people: People) -> None:
    with server.client(sign(people.alice), acting=people.alice) as own:
        assert ok(own.get(f"{API}/follow-requests"))["items"] == []
    with server.client(sign(people.alice), acting=people.bob) as other:
        for method, path in (("GET", "/follow-requests"), ("POST", f"/users/{people.carol}/follow")):
            assert code(other.request(method, API + path), 403) == "FORBIDDEN"


def test_acting_for_one_user_cannot_change_another(server: Server, people: People) -> None:
    """A backend that passes on the user of its session is as safe with a server key as with that user's token."""
    alice, bob, *_ = people
    with server.client(acting=bob) as backend:
        for method, path in (("PUT", ""), ("PATCH", ""), ("POST", "/deactivate"), ("DELETE", "")):
            body = {"json": {"displayName": "x"}} if method in ("PUT", "PATCH") else {}
            assert code(backend.request(method, f"{API}/users/{alice}{path}", **body), 403) == "FORBIDDEN"
        ok(backend.put(f"{API}/users/{bob}", json={"isVerified": True}))


def test_a_user_token_changes_nothing_of_another_user(server: Server, people: People) -> None:
    alice, bob, carol, _ = people
    with server.client() as http, server.client(sign(bob)) as thief:
        add_edges(http, "follows", (alice, carol), (carol, alice))
        for method, path, body in (
            ("PUT", f"/users/{alice}", {"private": True}),
            ("PATCH", f"/users/{alice}", {"private": True}),
            ("PUT", f"/labels/user/{alice}", {"labels": ["hide"]}),
            ("POST", f"/users/{alice}/deactivate", None),
            ("POST", f"/users/{alice}/reactivate", None),
            ("DELETE", f"/users/{alice}", None),
            ("POST", "/graph/follows/edges", {"edges": [{"op": "remove", "source": alice, "destination": carol}]}),
        ):
            assert code(thief.request(method, API + path, json=body), 403) == "FORBIDDEN"
        assert ok(http.get(f"{API}/users/{alice}")) == {
            "id": str(alice), "state": "normal", "private": False, "followingCount": 1, "followersCount": 1,
            "postCount": 0,            **NO_PROFILE,
        }  # fmt: skip
        assert check(http, "follows", alice, carol)


def test_lists_of_a_private_account_are_hidden_from_strangers_on_every_route(server: Server, people: People) -> None:
    alice, bob, carol, dana = people
    with server.client() as http, server.client(sign(bob)) as stranger, server.client(sign(dana)) as fan:
        add_edges(http, "follows", (alice, carol), (dana, alice), (bob, dana), (carol, bob), (bob, carol))
        ok(http.put(f"{API}/users/{alice}", json={"private": True}))
        for path in (
            f"/users/{alice}/following",
            f"/users/{alice}/followers",
            f"/users/{alice}/friends",
            f"/users/{alice}/followers-you-know",
            f"/users/{alice}/mutuals/{bob}",
            f"/users/{bob}/mutuals/{alice}",
            f"/graph/follows/{alice}/out",
            f"/graph/follows/{alice}/in",
            f"/graph/follows/{alice}/{carol}",
            f"/graph/follows/{alice}/out/count",
        ):
            assert code(stranger.get(API + path), 403) == "FORBIDDEN", path
        assert ids(ok(fan.get(f"{API}/users/{alice}/following"))) == [carol]


def test_a_preflight_answers_without_a_key_and_reveals_nothing(server: Server) -> None:
    with server.client("") as nobody:
        answer = nobody.options(f"{API}/users/1")
    assert answer.status_code in (204, 204, 401, 404, 405)
    assert answer.content == b"" or answer.json()["error"]


def test_keys_and_tokens_never_reach_the_log(tmp_path: Any, people: People) -> None:
    good, forged = sign(people.alice), sign(people.alice, secret="x" * 40)
    with serving(tmp_path) as server:
        for credential in (None, OTHER_KEY, good, forged, KEY + "-wrong", ""):
            with server.client(credential) as http:
                token = http.post(f"{API}/users/{people.bob}/follow").headers.get("Kith-Token", "token-of-nobody")
                for path in ("/users/1", "/graph/follows/1/2", "/nope", f"/users/1?key={KEY}"):
                    http.get(API + path, headers={"Kith-Token": token})
                http.post(f"{API}/relationships", content=b"\xff" + good.encode())
        server.terminate()
        output = server.output()
    for secret in (KEY, OTHER_KEY, JWT_SECRET, good, forged, good.rsplit(".", 1)[1], "token-of-nobody"):
        assert secret not in output
