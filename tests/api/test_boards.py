"""Boards over real HTTP: the contract, refusals, who sees what, lists and counts after every change (article 002)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from calls import code, finish, ids, make, ok, walk
from cast import People
from servers import API, eventually

Acting = Callable[[int], httpx.Client]
BOARD = {"id", "owner", "name", "secret", "followerCount", "pinCount", "createdAt"}


def new(http: httpx.Client, name: str = "Recipes", **fields: Any) -> int:
    """Create a board; returns its id."""
    return int(ok(http.post(f"{API}/boards", json={"name": name, **fields}), 201)["id"])


def count(http: httpx.Client, board: int) -> int:
    return int(ok(http.get(f"{API}/boards/{board}/followers/count"))["count"])


def followers(http: httpx.Client, board: int) -> list[int]:
    return ids(ok(http.get(f"{API}/boards/{board}/followers")))


def kinds(http: httpx.Client, users: list[int], boards: list[int]) -> list[str]:
    """How the acting user follows each of these users and boards."""
    body = ok(http.post(f"{API}/boards/check", json={"users": users, "boards": list(map(str, boards))}))
    rows = body["users"] + body["boards"]
    assert [row["following"] for row in rows] == [row["kind"] != "none" for row in rows]
    assert [int(row["id"]) for row in rows] == [*users, *boards]
    assert [ok(http.get(f"{API}/boards/{board}/follow")) for board in boards] == body["boards"]
    return [row["kind"] for row in rows]


def test_a_board_reads_as_it_was_created_and_is_created_once_per_key(acting: Acting, people: People) -> None:
    alice, bob = acting(people.alice), acting(people.bob)
    answer = alice.post(f"{API}/boards", json={"name": "Recipes 🍲"}, headers={"Idempotency-Key": "one"})
    body = ok(answer, 201)
    assert set(body) == BOARD
    assert answer.headers["Kith-Token"]
    assert (body["name"], body["secret"], body["followerCount"], body["pinCount"]) == ("Recipes 🍲", False, 0, 0)
    assert body["owner"]["id"] == str(people.alice)
    again = alice.post(f"{API}/boards", json={"name": "Recipes 🍲"}, headers={"Idempotency-Key": "one"})
    assert ok(again, 201)["id"] == body["id"]
    assert ok(bob.get(f"{API}/boards/{body['id']}")) == body
    renamed = ok(alice.patch(f"{API}/boards/{body['id']}", json={"name": "Soups"}))
    assert renamed == body | {"name": "Soups"}
    assert ids(ok(bob.get(f"{API}/users/{people.alice}/boards"))) == [int(body["id"])]
    other = alice.post(f"{API}/boards", json={"name": "Other"}, headers={"Idempotency-Key": "one"})
    assert code(other, 409) == "IDEMPOTENCY_KEY_REUSED"


def test_following_a_user_follows_all_their_boards_present_and_future(acting: Acting, people: People) -> None:
    andrea, bob, carol = acting(people.alice), acting(people.bob), acting(people.carol)
    recipes = new(bob)
    ok(andrea.post(f"{API}/users/{people.bob}/follow"))
    later = new(bob, "Later")
    assert kinds(andrea, [people.bob], [recipes, later]) == ["explicit", "implicit", "implicit"]
    assert followers(bob, recipes) == followers(bob, later) == [people.alice]
    assert kinds(carol, [people.bob], [recipes]) == ["none", "none"]
    ok(carol.post(f"{API}/boards/{recipes}/follow"))
    assert kinds(carol, [people.bob], [recipes, later]) == ["implicit", "explicit", "none"]
    assert set(followers(bob, recipes)) == {people.alice, people.carol}
    assert (count(bob, recipes), count(bob, later)) == (2, 1)
    assert ids(ok(carol.get(f"{API}/users/{people.carol}/implicit-following"))) == [people.bob]
    assert ids(ok(bob.get(f"{API}/users/{people.bob}/implicit-followers"))) == [people.carol]


def test_one_board_of_a_followed_user_can_be_unfollowed_and_followed_again(acting: Acting, people: People) -> None:
    alice, bob = acting(people.alice), acting(people.bob)
    recipes, travel = new(bob), new(bob, "Travel")
    ok(alice.post(f"{API}/users/{people.bob}/follow"))
    assert ok(alice.delete(f"{API}/boards/{recipes}/follow"))["changed"] is True
    assert ok(alice.delete(f"{API}/boards/{recipes}/follow"))["changed"] is False
    assert kinds(alice, [people.bob], [recipes, travel]) == ["explicit", "none", "implicit"]
    assert (count(bob, recipes), count(bob, travel)) == (0, 1)
    unfollowed = f"{API}/users/{people.alice}/boards-unfollowed"
    assert ids(ok(alice.get(unfollowed))) == [recipes]
    assert code(bob.get(unfollowed), 403) == "FORBIDDEN"
    ok(alice.post(f"{API}/boards/{recipes}/follow"))
    assert kinds(alice, [], [recipes]) == ["implicit"], "it only undoes the unfollow"
    assert ids(ok(alice.get(unfollowed))) == ids(ok(alice.get(f"{API}/users/{people.alice}/boards-followed"))) == []
    ok(alice.delete(f"{API}/boards/{recipes}/follow"))
    ok(alice.delete(f"{API}/users/{people.bob}/follow"))
    ok(alice.post(f"{API}/users/{people.bob}/follow"))
    assert kinds(alice, [], [recipes]) == ["implicit"], "a new follow of the owner forgets the unfollow"


def test_unfollowing_a_user_ends_explicit_follows_of_their_boards(acting: Acting, people: People) -> None:
    alice, bob = acting(people.alice), acting(people.bob)
    recipes, travel = new(bob), new(bob, "Travel")
    for board in (recipes, travel):
        assert ok(alice.post(f"{API}/boards/{board}/follow"))["changed"] is True
    assert ok(alice.get(f"{API}/users/{people.alice}/interests")) == {
        "boardCount": 0, "boardsFollowed": 2, "boardsUnfollowed": 0, "implicitFollowing": 1, "implicitFollowers": 0,
    }  # fmt: skip
    assert ok(alice.delete(f"{API}/users/{people.bob}/follow"))["changed"] is True
    assert kinds(alice, [people.bob], [recipes, travel]) == ["none"] * 3
    assert ok(bob.get(f"{API}/users/{people.bob}/interests"))["implicitFollowers"] == 0


@pytest.mark.parametrize("end", ["block", "blocked", "remove-follower"])
def test_blocks_and_removals_end_follows_of_boards(acting: Acting, people: People, end: str) -> None:
    alice, bob = acting(people.alice), acting(people.bob)
    board = new(bob)
    ok(alice.post(f"{API}/boards/{board}/follow"))
    match end:
        case "block":
            ok(alice.post(f"{API}/users/{people.bob}/block"))
        case "blocked":
            ok(bob.post(f"{API}/users/{people.alice}/block"))
        case _:
            ok(bob.post(f"{API}/users/{people.alice}/remove-follower"))
    assert (count(bob, board), kinds(alice, [people.bob], [board])) == (0, ["none", "none"])
    seen = alice.get(f"{API}/boards/{board}")
    if end == "remove-follower":
        ok(seen)
    else:
        assert code(seen, 404) == "BOARD_NOT_FOUND"
        assert code(alice.post(f"{API}/boards/{board}/follow"), 404) == "BOARD_NOT_FOUND"


def test_a_secret_board_is_visible_to_its_members_only(acting: Acting, people: People) -> None:
    alice, bob, carol = acting(people.alice), acting(people.bob), acting(people.carol)
    board = new(alice)
    ok(bob.post(f"{API}/users/{people.alice}/follow"))
    ok(carol.post(f"{API}/boards/{board}/follow"))
    ok(alice.post(f"{API}/boards/{board}/collaborators/{people.carol}"))
    ok(alice.patch(f"{API}/boards/{board}", json={"secret": True}))
    for path in ("", "/followers", "/followers/count", "/pins", "/collaborators"):
        assert code(bob.get(f"{API}/boards/{board}{path}"), 404) == "BOARD_NOT_FOUND"
    assert code(bob.post(f"{API}/boards/{board}/follow"), 404) == "BOARD_NOT_FOUND"
    assert code(carol.post(f"{API}/boards/{board}/follow"), 403) == "FORBIDDEN"
    assert kinds(bob, [], [board]) == kinds(carol, [], [board]) == ["none"]
    assert (followers(alice, board), count(carol, board)) == ([], 0)
    for http, shown in ((alice, [board]), (carol, [board]), (bob, [])):
        assert ids(ok(http.get(f"{API}/users/{people.alice}/boards"))) == shown
    assert ids(ok(carol.get(f"{API}/users/{people.carol}/collaborations"))) == [board]
    assert ok(carol.get(f"{API}/users/{people.carol}/interests"))["boardsFollowed"] == 0
    ok(alice.patch(f"{API}/boards/{board}", json={"secret": False}))
    assert followers(alice, board) == [people.bob], "only through its owner, as for a new board; explicit follows ended"
    ok(carol.delete(f"{API}/boards/{board}/collaborators/{people.carol}"))
    assert ids(ok(alice.get(f"{API}/boards/{board}/collaborators"))) == []


def test_boards_of_a_deactivated_account_are_in_no_list_secret_or_not(
    acting: Acting, people: People, http: httpx.Client, system: httpx.Client
) -> None:
    alice, path = acting(people.alice), f"{API}/users/{people.alice}/boards"
    boards = [new(alice), new(alice, "Secret", secret=True)]
    finish(http, http.post(f"{API}/users/{people.alice}/deactivate"))
    for one in (alice, system):
        assert ids(ok(one.get(path))) == []
        assert ok(one.get(f"{API}/boards/{boards[1]}"))["secret"] is True
    finish(http, http.post(f"{API}/users/{people.alice}/reactivate"))
    for one in (alice, system):
        assert ids(ok(one.get(path))) == boards[::-1]


def test_boards_of_a_private_account_are_for_its_followers(acting: Acting, people: People) -> None:
    alice, bob, carol = acting(people.alice), acting(people.bob), acting(people.carol)
    board = new(alice)
    ok(bob.post(f"{API}/users/{people.alice}/follow"))
    ok(carol.post(f"{API}/boards/{board}/follow"))
    ok(alice.put(f"{API}/users/{people.alice}", json={"private": True}))
    eventually(lambda: followers(bob, board) == [people.bob], 60)
    assert count(alice, board) == 1
    assert ok(carol.get(f"{API}/users/{people.carol}/interests"))["boardsFollowed"] == 0
    for path in (f"/boards/{board}", f"/boards/{board}/pins", f"/boards/{board}/followers"):
        assert code(carol.get(API + path), 404) == "BOARD_NOT_FOUND"
    assert code(carol.get(f"{API}/users/{people.alice}/boards"), 403) == "FORBIDDEN"
    assert kinds(carol, [people.alice], [board]) == ["none", "none"]
    ok(alice.put(f"{API}/users/{people.alice}", json={"private": False}))
    eventually(lambda: ids(ok(carol.get(f"{API}/users/{people.carol}/implicit-following"))) == [people.alice], 60)
    assert kinds(carol, [people.alice], [board]) == ["implicit", "explicit"]
    assert set(followers(bob, board)) == {people.bob, people.carol}


def test_a_collaborator_sees_a_private_accounts_board_but_follows_it_only_by_the_account(
    acting: Acting, people: People
) -> None:
    alice, carol = acting(people.alice), acting(people.carol)
    board = new(alice)
    ok(alice.put(f"{API}/users/{people.alice}", json={"private": True}))
    ok(alice.post(f"{API}/boards/{board}/collaborators/{people.carol}"))
    assert ok(carol.get(f"{API}/boards/{board}"))["secret"] is False
    assert ids(ok(carol.get(f"{API}/users/{people.carol}/collaborations"))) == [board]
    pin = int(make(carol, "of a collaborator"))
    ok(carol.post(f"{API}/boards/{board}/pins", json={"post": str(pin)}))
    assert ids(ok(carol.get(f"{API}/boards/{board}/pins"))) == [pin]
    assert code(carol.post(f"{API}/boards/{board}/follow"), 403) == "FORBIDDEN"
    assert code(carol.get(f"{API}/boards/{board}/followers"), 403) == "FORBIDDEN", "they are followers of the account"
    assert kinds(carol, [people.alice], [board]) == ["none", "none"]
    ok(carol.post(f"{API}/users/{people.alice}/follow"))
    ok(alice.post(f"{API}/follow-requests/{people.carol}/accept"))
    assert kinds(carol, [people.alice], [board]) == ["explicit", "implicit"]
    assert followers(carol, board) == [people.carol]


def test_a_moved_board_keeps_its_explicit_followers(acting: Acting, people: People) -> None:
    alice, bob, carol, dana = map(acting, people)
    board = new(alice)
    ok(bob.post(f"{API}/users/{people.alice}/follow"))
    ok(carol.post(f"{API}/boards/{board}/follow"))
    assert code(alice.post(f"{API}/boards/{board}/move", json={"owner": people.dana}), 403) == "FORBIDDEN"
    ok(alice.post(f"{API}/boards/{board}/collaborators/{people.dana}"))
    ok(dana.post(f"{API}/users/{people.carol}/block"))
    assert code(alice.post(f"{API}/boards/{board}/move", json={"owner": people.dana}), 403) == "FORBIDDEN"
    ok(dana.delete(f"{API}/users/{people.carol}/block"))
    moved = ok(alice.post(f"{API}/boards/{board}/move", json={"owner": people.dana}))
    assert (moved["owner"]["id"], moved["followerCount"]) == (str(people.dana), 1)
    assert followers(bob, board) == [people.carol]
    assert ids(ok(carol.get(f"{API}/users/{people.carol}/implicit-following"))) == [people.dana]
    for user, boards in ((people.alice, []), (people.dana, [board])):
        assert ids(ok(bob.get(f"{API}/users/{user}/boards"))) == boards
    assert code(alice.patch(f"{API}/boards/{board}", json={"name": "Mine"}), 403) == "FORBIDDEN"


@pytest.mark.parametrize("blocks", [True, False])
def test_a_board_is_not_given_to_a_deactivated_user_whether_or_not_they_block_the_owner(
    acting: Acting, people: People, blocks: bool
) -> None:
    alice, bob = acting(people.alice), acting(people.bob)
    board = new(alice)
    if blocks:
        ok(bob.post(f"{API}/users/{people.alice}/block"))
    finish(bob, bob.post(f"{API}/users/{people.bob}/deactivate"))
    answer = alice.post(f"{API}/boards/{board}/move", json={"owner": people.bob})
    assert code(answer, 404) == "USER_NOT_FOUND"


def test_merged_boards_have_the_pins_and_followers_of_both(acting: Acting, people: People) -> None:
    alice, bob, carol = acting(people.alice), acting(people.bob), acting(people.carol)
    soups, stews = new(alice, "Soups"), new(alice, "Stews")
    posts = [int(make(alice, f"pot {at}")) for at in range(3)]
    for board, pinned in ((soups, posts[:2]), (stews, posts[1:])):
        for post in pinned:
            ok(alice.post(f"{API}/boards/{board}/pins", json={"post": str(post)}))
    ok(bob.post(f"{API}/boards/{soups}/follow"))
    ok(carol.post(f"{API}/boards/{stews}/follow"))
    assert code(alice.post(f"{API}/boards/{soups}/merge", json={"into": str(soups)}), 400) == "INVALID_REQUEST"
    merged = ok(alice.post(f"{API}/boards/{soups}/merge", json={"into": str(stews)}))
    assert (merged["id"], merged["pinCount"], merged["followerCount"]) == (str(stews), 3, 2)
    assert set(ids(ok(bob.get(f"{API}/boards/{stews}/pins")))) == set(posts)
    assert set(followers(bob, stews)) == {people.bob, people.carol}
    assert kinds(bob, [people.alice], [stews]) == ["implicit", "explicit"]
    assert code(bob.get(f"{API}/boards/{soups}"), 404) == "BOARD_NOT_FOUND"


def test_pins_are_listed_newest_first_and_only_those_the_viewer_may_see(acting: Acting, people: People) -> None:
    alice, bob, carol = acting(people.alice), acting(people.bob), acting(people.carol)
    board = new(alice)
    shown, friends = int(make(alice, "for all")), int(make(alice, "for friends", visibility="friends"))
    pins = f"{API}/boards/{board}/pins"
    for post in (shown, friends):
        assert ok(alice.post(pins, json={"post": str(post)}))["changed"] is True
    assert ok(alice.post(pins, json={"post": str(shown)}))["changed"] is False
    assert set(ids(ok(alice.get(pins)))) == {shown, friends}
    assert ids(ok(bob.get(pins))) == [shown]
    assert code(bob.post(pins, json={"post": str(shown)}), 403) == "FORBIDDEN"
    ok(alice.post(f"{API}/boards/{board}/collaborators/{people.carol}"))
    theirs = int(make(carol, "of a collaborator"))
    ok(carol.post(pins, json={"post": str(theirs)}))
    assert code(carol.post(pins, json={"post": str(friends)}), 404) == "POST_NOT_FOUND"
    assert carol.delete(f"{API}/posts/{theirs}").status_code == 204
    assert ids(ok(bob.get(pins))) == [shown]
    eventually(lambda: ok(bob.get(f"{API}/boards/{board}"))["pinCount"] == 2)  # the deleted pin is removed
    assert ok(alice.delete(f"{pins}/{shown}"))["changed"] is True
    assert ids(ok(bob.get(pins))) == []


def test_removing_an_account_removes_its_boards_and_follows(acting: Acting, people: People, http: httpx.Client) -> None:
    alice, bob = acting(people.alice), acting(people.bob)
    board, own = new(alice), new(bob, "Own")
    ok(bob.post(f"{API}/boards/{board}/follow"))
    ok(alice.post(f"{API}/boards/{own}/follow"))
    finish(http, http.delete(f"{API}/users/{people.alice}"))
    for answer in (bob.get(f"{API}/boards/{board}"), bob.post(f"{API}/boards/{board}/follow")):
        assert code(answer, 404) == "BOARD_NOT_FOUND"
    assert count(bob, own) == 0
    eventually(lambda: ok(bob.get(f"{API}/users/{people.bob}/interests"))["boardsFollowed"] == 0)
    assert ok(bob.get(f"{API}/users/{people.bob}/interests"))["implicitFollowing"] == 0


def test_a_reactivated_account_follows_the_same_boards_as_before(
    acting: Acting, people: People, http: httpx.Client
) -> None:
    alice, bob, carol = acting(people.alice), acting(people.bob), acting(people.carol)
    liked, disliked, other = new(alice), new(alice, "No"), new(carol, "Yes")
    ok(bob.post(f"{API}/users/{people.alice}/follow"))
    ok(bob.delete(f"{API}/boards/{disliked}/follow"))
    ok(bob.post(f"{API}/boards/{other}/follow"))
    finish(http, http.post(f"{API}/users/{people.bob}/deactivate"))
    assert [count(carol, board) for board in (liked, disliked, other)] == [0, 0, 0]
    finish(http, http.post(f"{API}/users/{people.bob}/reactivate"))
    assert [count(carol, board) for board in (liked, disliked, other)] == [1, 0, 1]
    assert kinds(bob, [people.alice, people.carol], [liked, disliked, other]) == [
        "explicit", "implicit", "implicit", "none", "explicit",
    ]  # fmt: skip


def test_a_deactivated_user_cannot_unfollow_a_board_of_a_followed_user(
    acting: Acting, people: People, http: httpx.Client
) -> None:
    """The implicit follow returns with the account, so `following: false` would soon be wrong.

    An explicit follow can be ended, because it does not return.
    """
    alice, bob, carol = acting(people.alice), acting(people.bob), acting(people.carol)
    never, once, other = new(alice), new(alice, "Once"), new(carol)
    for board in (once, other):
        ok(bob.post(f"{API}/boards/{board}/follow"))
    ok(bob.delete(f"{API}/boards/{once}/follow"))
    ok(bob.post(f"{API}/users/{people.alice}/follow"))
    finish(http, http.post(f"{API}/users/{people.bob}/deactivate"))
    for board in (never, once):
        assert code(bob.delete(f"{API}/boards/{board}/follow"), 403) == "FORBIDDEN"
    assert ok(bob.delete(f"{API}/boards/{other}/follow"))["changed"] is True
    finish(http, http.post(f"{API}/users/{people.bob}/reactivate"))
    assert kinds(bob, [], [never, once, other]) == ["implicit", "implicit", "none"]


def test_pages_of_followers_list_explicit_and_implicit_followers(acting: Acting, people: People) -> None:
    alice = acting(people.alice)
    board, crowd = new(alice), people.crowd(9)
    for at, user in enumerate(crowd):
        path = f"/boards/{board}/follow" if at % 3 else f"/users/{people.alice}/follow"
        ok(acting(user).post(API + path))
    ok(acting(crowd[0]).delete(f"{API}/boards/{board}/follow"))
    pages, bodies = walk(alice, f"{API}/boards/{board}/followers", 3)
    found = [user for page in pages for user in page]
    assert sorted(found) == crowd[1:]
    assert [len(page) for page in pages] == [3, 3, 2]
    back = bodies[-1]["pagination"]["prevCursor"]
    assert ids(ok(alice.get(f"{API}/boards/{board}/followers", params={"limit": 3, "cursor": back}))) == pages[1]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "refusal"),
    [
        ("POST", "/boards", {"name": " "}, 400, "INVALID_CONTENT"),
        ("POST", "/boards", {"name": "x" * 101}, 400, "INVALID_CONTENT"),
        ("POST", "/boards", {"name": "x", "owner": "1"}, 400, "INVALID_REQUEST"),
        ("POST", "/boards/{mine}/follow", None, 400, "SELF_EDGE"),
        ("DELETE", "/boards/{mine}/follow", None, 400, "SELF_EDGE"),
        ("DELETE", "/boards/{theirs}/follow", None, 409, "NOT_FOLLOWING"),
        ("POST", "/boards/77/follow", None, 404, "BOARD_NOT_FOUND"),
        ("POST", "/boards/{theirs}/merge", {"into": "{mine}"}, 403, "FORBIDDEN"),
        ("POST", "/boards/{mine}/merge", {"into": "{theirs}"}, 403, "FORBIDDEN"),
        ("POST", "/boards/{mine}/merge", {"into": "77"}, 404, "BOARD_NOT_FOUND"),
        ("POST", "/boards/{mine}/move", {"owner": "{alice}"}, 400, "SELF_EDGE"),
        ("POST", "/boards/{mine}/collaborators/{alice}", None, 400, "SELF_EDGE"),
        ("POST", "/boards/{theirs}/collaborators/{alice}", None, 403, "FORBIDDEN"),
        ("POST", "/boards/{mine}/pins", {"post": "77"}, 404, "POST_NOT_FOUND"),
        ("POST", "/boards/check", {"users": list(range(26))}, 413, "BATCH_TOO_LARGE"),
        ("PATCH", "/boards/{theirs}", {"name": "x"}, 403, "FORBIDDEN"),
        ("DELETE", "/boards/{theirs}", None, 403, "FORBIDDEN"),
    ],
)
def test_refusals_have_their_status_and_code(
    acting: Acting, people: People, method: str, path: str, body: Any, status: int, refusal: str
) -> None:
    alice, bob = acting(people.alice), acting(people.bob)
    names = {"mine": str(new(alice)), "theirs": str(new(bob)), "alice": str(people.alice)}
    filled = {key: value.format(**names) if isinstance(value, str) else value for key, value in (body or {}).items()}
    answer = alice.request(method, API + path.format(**names), json=filled if body else None)
    assert code(answer, status) == refusal


@pytest.mark.parametrize("through_owner", [False, True])
def test_pins_of_followed_boards_are_at_home_with_their_reason(
    acting: Acting, people: People, through_owner: bool
) -> None:
    alice, bob, carol = acting(people.alice), acting(people.bob), acting(people.carol)
    board = new(bob)
    post = int(ok(carol.post(f"{API}/posts", json={"content": {"text": "pinned"}}), 201)["id"])
    ok(alice.post(f"{API}/users/{people.bob}/follow" if through_owner else f"{API}/boards/{board}/follow"))
    ok(bob.post(f"{API}/boards/{board}/pins", json={"post": str(post)}))
    (shown,) = ok(alice.get(f"{API}/feed"))["posts"]
    assert (int(shown["id"]), shown["ranking"]["reason"]) == (post, "followed_board")
    assert [int(one["id"]) for one in ok(alice.get(f"{API}/feed?type=latest"))["posts"]] == [post]
    why = ok(alice.get(f"{API}/posts/{post}/why"))
    assert (why["reason"], why["excludedBy"]) == ("followed_board", [])
    ok(alice.delete(f"{API}/boards/{board}/follow"))
    assert ok(alice.get(f"{API}/feed"))["posts"] == []
    assert ok(alice.get(f"{API}/posts/{post}/why"))["excludedBy"] == ["not_followed"]
