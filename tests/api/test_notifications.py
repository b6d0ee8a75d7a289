"""Notifications over real HTTP: the list, marks, preferences, and mentions of other systems."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from calls import code, make, ok, say
from cast import People
from servers import API, eventually

Acting = Callable[[int], httpx.Client]
ROUTE = f"{API}/notifications"


def notices(http: httpx.Client, **params: Any) -> list[dict[str, Any]]:
    return list(ok(http.get(ROUTE, params=params))["items"])


def unread(http: httpx.Client) -> int:
    return int(ok(http.get(f"{ROUTE}/unread"))["count"])


def wait_for_notices(http: httpx.Client, number: int, **params: Any) -> list[dict[str, Any]]:
    """The list, once the worker has delivered at least `number` notices."""
    eventually(lambda: len(notices(http, grouped="false")) >= number)
    return notices(http, **params)


def test_likes_of_a_post_are_one_entry_with_exact_numbers(acting: Acting, people: People) -> None:
    alice, crowd = acting(people.alice), people.crowd(5)
    post = make(alice, "the news of today")
    for told_before, user in enumerate(crowd):
        ok(acting(user).post(f"{API}/posts/{post}/like"))
        wait_for_notices(alice, told_before + 1)  # so that they are delivered in this order
    ok(acting(people.bob).post(f"{API}/users/{people.alice}/follow"))
    both = wait_for_notices(alice, 6)
    assert {one["type"] for one in both} == {"like", "follow"}
    entry = next(one for one in both if one["type"] == "like")
    assert (entry["actorCount"], entry["partial"], entry["read"], entry["seen"]) == (5, False, False, False)
    assert [author["id"] for author in entry["actors"]] == [str(user) for user in reversed(crowd)][:3]
    assert entry["post"] == {
        "id": post, "authorId": str(people.alice), "type": "text", "preview": "the news of today",
    }  # fmt: skip
    assert len(notices(alice, grouped="false")) == 6
    assert unread(alice) == ok(alice.get(ROUTE))["unread"] == 6
    assert ok(alice.post(f"{ROUTE}/read", json={"ids": entry["ids"]}))["unread"] == 1
    assert {one["type"]: one["read"] for one in notices(alice)} == {"like": True, "follow": False}
    newest = notices(alice)[0]["id"]
    assert ok(alice.post(f"{ROUTE}/seen", json={"upTo": newest}))["unread"] == 1
    assert all(one["seen"] for one in notices(alice))
    assert ok(alice.post(f"{ROUTE}/read", json={"upTo": newest}))["unread"] == 0
    ok(alice.post(f"{API}/users/{crowd[0]}/block"))
    assert next(one for one in notices(alice) if one["type"] == "like")["actorCount"] == 4
    ok(acting(crowd[-1]).patch(f"{API}/users/{crowd[-1]}", json={"displayName": "Another Name"}))
    assert "Another Name" in [author["displayName"] for one in notices(alice) for author in one["actors"]]


def test_pages_go_both_ways(acting: Acting, people: People) -> None:
    alice, bob = acting(people.alice), acting(people.bob)
    for at in range(7):
        say(bob, make(alice, f"post {at}"), f"comment {at}")
    whole = [one["id"] for one in wait_for_notices(alice, 7)]
    first = ok(alice.get(ROUTE, params={"limit": 3}))
    assert [one["id"] for one in first["items"]] == whole[:3]
    assert first["pagination"]["prevCursor"] is None
    second = ok(alice.get(ROUTE, params={"limit": 3, "cursor": first["pagination"]["nextCursor"]}))
    assert [one["id"] for one in second["items"]] == whole[3:6]
    last = ok(alice.get(ROUTE, params={"limit": 3, "cursor": second["pagination"]["nextCursor"]}))
    assert [one["id"] for one in last["items"]] == whole[6:]
    assert last["pagination"]["hasMore"] is False
    back = ok(alice.get(ROUTE, params={"limit": 3, "cursor": second["pagination"]["prevCursor"]}))
    assert [one["id"] for one in back["items"]] == whole[:3]
    assert first["items"][0]["comment"]["preview"] == "comment 6"
    assert code(bob.get(ROUTE, params={"cursor": first["pagination"]["nextCursor"]}), 400) == "CURSOR_INVALID"


def test_a_name_in_a_text_notifies_and_an_edit_removes_the_notice(acting: Acting, people: People) -> None:
    alice, bob = acting(people.alice), acting(people.bob)
    ok(alice.patch(f"{API}/users/{people.alice}", json={"username": f"name{people.alice}"}))
    post = make(bob, f"have you seen this, @Name{people.alice}?")
    (entry,) = wait_for_notices(alice, 1)
    assert (entry["type"], entry["post"]["id"], entry["mentioned"]) == ("mention", post, None)
    ok(bob.patch(f"{API}/posts/{post}", json={"content": {"text": "never mind"}}))
    assert notices(alice) == []
    assert unread(alice) == 0


def test_a_mention_of_another_system_notifies_once(http: httpx.Client, acting: Acting, people: People) -> None:
    alice, bob, carol, _ = people
    mention = {"eventId": f"e{alice}", "actor": str(bob), "mentioned": str(alice)}
    for _ in range(3):
        assert ok(http.post(f"{API}/mentions", json=mention), 202) == {"eventId": f"e{alice}", "accepted": True}
    (entry,) = notices(acting(alice))  # without waiting, because it was stored before the answer
    assert (entry["type"], entry["post"], [one["id"] for one in entry["actors"]]) == ("mention", None, [str(bob)])
    assert code(http.post(f"{API}/mentions", json={**mention, "actor": carol}), 409) == "IDEMPOTENCY_KEY_REUSED"
    ok(acting(alice).post(f"{API}/users/{bob}/mute"))
    other = {**mention, "eventId": f"f{alice}"}
    assert ok(http.post(f"{API}/mentions", json=other), 202)["accepted"] is False
    ok(acting(alice).delete(f"{API}/users/{bob}/mute"))
    assert ok(http.post(f"{API}/mentions", json=other), 202)["accepted"] is False, "the same id gets the same answer"
    assert len(notices(acting(alice))) == 1
    late = (datetime.now(UTC) - timedelta(days=91)).isoformat()
    for wrong in ({"eventId": ""}, {"eventId": "x" * 201}, {"eventId": "é"}, {"actor": alice}, {"at": late}):
        assert code(http.post(f"{API}/mentions", json={**mention, **wrong}), 400) == "INVALID_CONTENT"


def test_ids_marked_as_seen_mark_everything_older_and_leave_it_unread(acting: Acting, people: People) -> None:
    alice, bob = acting(people.alice), acting(people.bob)
    for at in range(4):
        say(bob, make(alice, f"post {at}"), f"comment {at}")
    newest, second, third, oldest = (one["id"] for one in wait_for_notices(alice, 4))
    assert ok(alice.post(f"{ROUTE}/seen", json={"ids": [oldest, second]}))["unread"] == 4
    assert {one["id"]: one["seen"] for one in notices(alice)} == {
        newest: False,
        second: True,
        third: True,
        oldest: True,
    }
    assert ok(alice.post(f"{ROUTE}/seen", json={"ids": [oldest]}))["unread"] == 4, "the seen mark does not move back"
    assert ok(alice.post(f"{ROUTE}/seen", json={"ids": []}))["unread"] == 4
    assert [one["seen"] for one in notices(alice)] == [False, True, True, True]
    assert not any(one["read"] for one in notices(alice))
    assert code(alice.post(f"{ROUTE}/seen", json={"ids": ["x"]}), 400) == "INVALID_ID"


def test_preferences_hide_notices_at_once(acting: Acting, people: People) -> None:
    alice, bob = acting(people.alice), acting(people.bob)
    assert ok(alice.get(f"{API}/preferences")) == {
        "off": [], "mentions": "me", "accounts": [], "accountsOff": [], "quietHours": None,
    }  # fmt: skip
    ok(bob.post(f"{API}/users/{people.alice}/follow"))
    assert len(wait_for_notices(alice, 1)) == 1
    wanted = {
        "off": ["follow"], "mentions": "these", "accounts": [str(people.carol)], "accountsOff": [],
        "quietHours": {"from": "22:00", "to": "07:30", "timeZone": "Europe/Berlin"},
    }  # fmt: skip
    assert ok(alice.put(f"{API}/preferences", json=wanted)) == wanted == ok(alice.get(f"{API}/preferences"))
    assert (notices(alice), unread(alice)) == ([], 0)
    ok(alice.put(f"{API}/preferences", json={}))
    assert len(notices(alice)) == 1
    ok(alice.put(f"{API}/preferences", json={"accountsOff": [str(people.bob)]}))
    assert notices(alice) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"quietHours": {"from": "25:00", "to": "07:00", "timeZone": "UTC"}},
        {"quietHours": {"from": "00:00", "to": "00:00", "timeZone": "UTC"}},
        {"quietHours": {"from": "22:00", "to": "07:00", "timeZone": "Mars/Olympus"}},
        {"quietHours": {"from": "22:00", "to": "07:00", "timeZone": "../../etc/passwd"}},
        {"quietHours": {"from": "22:00", "to": "07:00", "timeZone": "localtime"}},
        {"mentions": "these", "accounts": list(range(1_001))},
        {"mentions": "me", "accounts": ["1"]},
    ],
)
def test_invalid_preferences_are_refused(acting: Acting, people: People, wrong: Any) -> None:
    assert code(acting(people.alice).put(f"{API}/preferences", json=wrong), 400) == "INVALID_CONTENT"


def test_marks_are_checked_and_do_not_cover_later_notices(acting: Acting, people: People) -> None:
    alice, bob = acting(people.alice), acting(people.bob)
    assert ok(alice.post(f"{ROUTE}/read", json={"upTo": str(2**63 - 1)}))["unread"] == 0
    ok(alice.post(f"{ROUTE}/read", json={"ids": [str(2**63 - 1)]}))
    ok(bob.post(f"{API}/users/{people.alice}/follow"))
    (entry,) = wait_for_notices(alice, 1)
    assert (entry["read"], entry["seen"], unread(alice)) == (False, False, 1)
    for wrong in ({}, {"ids": ["1"], "upTo": "1"}, {"ids": ["x"]}):
        assert alice.post(f"{ROUTE}/read", json=wrong).status_code == 400
    assert code(alice.post(f"{ROUTE}/read", json={"ids": list(range(1_001))}), 413) == "BATCH_TOO_LARGE"


def test_a_removed_account_is_hidden_from_notices_and_cannot_set_preferences(
    http: httpx.Client, acting: Acting, people: People
) -> None:
    alice, bob = acting(people.alice), acting(people.bob)
    ok(bob.post(f"{API}/users/{people.alice}/follow"))
    wait_for_notices(alice, 1)
    ok(http.delete(f"{API}/users/{people.bob}"), 202)
    eventually(lambda: notices(alice) == [])
    assert unread(alice) == 0
    assert code(bob.put(f"{API}/preferences", json={"off": ["like"]}), 403) == "FORBIDDEN"
    assert ok(bob.get(f"{API}/preferences"))["off"] == []


def test_the_owner_of_a_board_is_notified_of_followers_and_invited_users_of_invitations(
    acting: Acting, people: People
) -> None:
    alice, bob = acting(people.alice), acting(people.bob)
    board = ok(alice.post(f"{API}/boards", json={"name": "Recipes"}), 201)["id"]
    ok(bob.post(f"{API}/boards/{board}/follow"))
    ok(alice.post(f"{API}/boards/{board}/collaborators/{people.bob}"))
    for user, type_, actor in ((alice, "board_follow", people.bob), (bob, "board_invite", people.alice)):
        (item,) = eventually(lambda user=user, type_=type_: [one for one in notices(user) if one["type"] == type_], 60)
        assert item["board"] == {"id": board, "ownerId": str(people.alice), "name": "Recipes"}
        assert [one["id"] for one in item["actors"]] == [str(actor)]
