"""Two servers of one folder: after the other server wrote anything, cached answers equal freshly read ones at once.

Batch requests are not cached, so their answers show what single requests and pages of home must answer.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import httpx
from calls import finish, ok
from cast import ALICE, BOB, CAROL
from servers import API, ON_CLUSTER, serving

STEPS = 40 if ON_CLUSTER else 150
PEOPLE = (ALICE, BOB, CAROL)
VIEWERS = (*PEOPLE, "system", None)
LABELS: tuple[list[str], ...] = ([], [], ["hide"], ["limit"], ["sensitive"])
RANKED_ONLY = {"ranking", "seen", "copies"}


class History:
    """Random writes to one server, through its `client`. `act` makes one write, which may be refused."""

    def __init__(self, client: httpx.Client, chance: random.Random) -> None:
        self.client, self._chance = client, chance
        self.posts: list[str] = []
        self._comments: list[tuple[str, str]] = []  # (comment, its post)

    def act(self, number: int) -> str:
        """Make one write; returns a description of it."""
        who, other = self._chance.sample(PEOPLE, 2)
        post = self._chance.choice(self.posts or ["1"])
        comment, of = self._chance.choice(self._comments or [("1", post)])
        labels = {"labels": self._chance.choice(LABELS)}
        said = {"displayName": f"name {number}"} | ({"private": True} if self._chance.random() < 0.03 else {})
        likes = [(method, f"posts/{post}/{deed}") for deed in ("like", "save") for method in ("POST", "DELETE")]
        method, path, body, by = self._chance.choice(
            [
                ("POST", "posts", {"content": {"text": f"post {number}"}}, who),
                ("POST", "posts", {"content": {"text": f"post {number}"}}, who),
                ("PATCH", f"posts/{post}", {"visibility": self._chance.choice(["public", "friends"])}, who),
                ("DELETE", f"posts/{post}", None, who),
                ("POST", f"posts/{post}/comments", {"text": "well"}, who),
                ("POST", f"posts/{of}/comments", {"text": "yes?", "replyTo": comment}, who),
                ("DELETE", f"comments/{comment}", None, who),
                *[(*like, None, who) for like in likes],
                *[("POST", f"posts/{post}/{deed}", None, who) for deed in ("share", "view")],
                *[("POST", f"users/{other}/follow", {}, who)] * 3,
                ("DELETE", f"users/{other}/follow", None, who),
                *[("POST", f"follow-requests/{other}/accept", None, who)] * 2,
                ("POST", f"users/{other}/block", None, who),
                *[("DELETE", f"users/{other}/block", None, who)] * 3,
                ("PATCH", f"users/{who}", said, who),
                *[("PUT", f"labels/user/{who}", labels, "system")] * 2,
                ("PUT", f"labels/post/{post}", labels, "system"),
                ("POST", f"users/{who}/deactivate", None, who),
                *[("POST", f"users/{who}/reactivate", None, who)] * 2,
            ]
        )  # fmt: skip
        answer = self.client.request(method, f"{API}/{path}", json=body, headers={"X-Kith-User": str(by)})
        assert answer.status_code < 500, answer.text
        if answer.status_code == 202:
            finish(self.client, answer)
        if answer.status_code == 201:
            made = answer.json()["id"]
            self.posts += [made] if path == "posts" else []
            self._comments += [(made, post if path == f"posts/{post}/comments" else of)] if path != "posts" else []
        return f"{method} {path} {body} by {by}: {answer.status_code}"


def compare(client: httpx.Client, viewer: int | str | None, posts: list[str]) -> None:
    """Check that the answers to a viewer equal freshly read ones."""
    headers = {} if viewer is None else {"X-Kith-User": str(viewer)}

    def one(path: str) -> Any:
        found = client.get(f"{API}/{path}", headers=headers)
        return found.json() if found.status_code == 200 else None

    def many(kind: str, ids: list[Any]) -> Any:
        return ok(client.post(f"{API}/{kind}/lookup", json={"ids": ids}, headers=headers))[kind] if ids else []

    assert [one(f"users/{user}") for user in PEOPLE] == many("users", list(PEOPLE))
    assert [one(f"posts/{post}") for post in posts] == many("posts", posts)
    for order in ("latest", "ranked") if isinstance(viewer, int) else ():
        page = one(f"feed?type={order}&limit=50")["posts"]
        shown = [{name: value for name, value in post.items() if name not in RANKED_ONLY} for post in page]
        assert shown == many("posts", [post["id"] for post in page])


def test_a_cached_answer_is_dropped_at_once_when_the_other_server_writes(tmp_path: Path) -> None:
    seed = random.SystemRandom().getrandbits(32)
    print("seed", seed)
    chance = random.Random(seed)
    with (
        serving(tmp_path) as one,
        serving(tmp_path) as other,
        one.client() as writing,
        other.client() as reading,
    ):
        history = History(writing, chance)
        for number in range(STEPS):
            print(history.act(number))
            for viewer in chance.sample(VIEWERS, 2):
                compare(reading, viewer, history.posts[-6:])
