"""A continuous load of user actions on two machines, with retries, and checks of the result."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Sequence
from typing import Any

import httpx
from calls import ok
from servers import API, Server, eventually

ACTORS, STARS, NAMES, NO_RETRY_ACTORS = 4, 3, 3, 4
UNAVAILABLE = {
    "OUTCOME_UNKNOWN",
    "STORE_UNAVAILABLE",
    "OVERLOADED",
    "TIMEOUT",
    "LEASE_LOST",
    "FEED_UNAVAILABLE",
    "STORE_MOVED",
}
RECOVERED_S = 240.0
_PAUSE_S, _NO_RETRY_PAUSE_S = 0.05, 0.02
_TARGETS_PER_REQUEST, _CHECKED_EVERY = 50, 10
"""Follows per request of the final check; of the acknowledged follows, both ends of every tenth are checked."""
_numbers = itertools.count(1)


class Actor(threading.Thread):
    """Follows and unfollows stars, writes posts, takes usernames. Requests go to the machines in turn.

    It retries each request until it is answered.
    """

    def __init__(self, user: int, stars: Sequence[int], machines: Sequence[Server]) -> None:
        super().__init__(daemon=True)
        self.user, self._stars = user, stars
        self.follows: set[int] = set()
        self.posts: list[int] = []
        self.done_since = 0.0
        """When the last finished step began (`time.monotonic`)."""
        self.slowest_s = 0.0
        self.refused = 0
        self.failed: str = ""
        self.rest_s = 0.0
        """Pause between two steps."""
        self.may_lose_connections = False
        """Whether API processes may die while they answer. Then requests with a cut connection are retried."""
        self.stopped = threading.Event()
        self.switch_to(machines)

    def switch_to(self, machines: Sequence[Server]) -> None:
        """Go on with other machines."""
        self._clients = itertools.cycle([machine.client(acting=self.user) for machine in machines])

    def run(self) -> None:
        try:
            for number in itertools.count():
                if self.stopped.is_set():
                    return
                began_s = time.monotonic()
                self._step(number)
                self.stopped.wait(self.rest_s)
                self.done_since = began_s
        except Exception as error:
            self.failed = f"{type(error).__name__}: {error}"

    def _step(self, number: int) -> None:
        star = self._stars[number % len(self._stars)]
        verb = "DELETE" if star in self.follows else "POST"
        self._ask(verb, f"/users/{star}/follow")
        self.follows ^= {star}
        body = {"content": {"text": f"{number} of {self.user}"}}
        post_id = self._ask("POST", "/posts", body, key=f"{self.user} {number}")
        self.posts.append(int(post_id["id"]))
        self._ask("PATCH", f"/users/{self.user}", {"username": f"n{number % NAMES}.{self._stars[0]}"}, taken=409)

    def _ask(self, method: str, path: str, body: Any = None, *, key: str = "", taken: int = 200) -> Any:
        """Send a request until it is answered. An answer 503 is retried on the next machine."""
        headers = {"Idempotency-Key": key} if key else {}
        while True:
            began_s = time.monotonic()
            try:
                answer = next(self._clients).request(method, API + path, json=body, headers=headers)
            except httpx.TransportError:
                if not self.may_lose_connections:
                    raise
                continue
            self.slowest_s = max(self.slowest_s, time.monotonic() - began_s)
            if answer.status_code in (200, 201, taken):
                return answer.json()
            message = f"{method} {path}: {answer.status_code} {answer.text}"
            assert answer.status_code == 503, message
            assert answer.json()["error"]["code"] in UNAVAILABLE, message
            self.refused += 1
            self.stopped.wait(_PAUSE_S)


class NoRetryActor(threading.Thread):
    """Follows one user after another. It never retries, so a follow without an answer may be done or not."""

    def __init__(self, user: int, first: int, machines: Sequence[Server]) -> None:
        super().__init__(daemon=True)
        self.user, self._first = user, first
        self.asked: list[int] = []
        self.answered: set[int] = set()
        self.stopped = threading.Event()
        self.switch_to(machines)

    def switch_to(self, machines: Sequence[Server]) -> None:
        """Go on with other machines."""
        self._clients = itertools.cycle([machine.client(acting=self.user) for machine in machines])

    def run(self) -> None:
        for target in itertools.count(self._first):
            if self.stopped.is_set():
                return
            self.asked.append(target)
            with contextlib.suppress(httpx.TransportError):
                if next(self._clients).post(f"{API}/users/{target}/follow").status_code == 200:
                    self.answered.add(target)
            self.stopped.wait(_NO_RETRY_PAUSE_S)


class Workload:
    """Four actors and four actors without retries act while a test breaks something.

    `recovered` waits until all actors make progress; `check` stops them and checks the result.
    """

    def __init__(self, machines: Sequence[Server], rest_s: float = 0.0) -> None:
        self.machines = machines
        first = (1 << 40) + 1_000_000 * next(_numbers)
        self.stars = range(first, first + STARS)
        self.reader = first + STARS
        users = range(first + 10, first + 10 + ACTORS)
        with machines[0].client(acting=self.reader) as http:
            for user in users:
                eventually(lambda user=user: http.post(f"{API}/users/{user}/follow").status_code == 200, 120)
        self.actors = [Actor(user, self.stars, machines) for user in users]
        for actor in self.actors:
            actor.rest_s = rest_s
            actor.start()
        self.no_retry_actors = [
            NoRetryActor(first + 20 + n, first + 100_000 * (n + 1), machines) for n in range(NO_RETRY_ACTORS)
        ]
        for no_retry_actor in self.no_retry_actors:
            no_retry_actor.start()
        self.recovered()

    def switch_to(self, *machines: Server) -> None:
        """Switch all users to other machines."""
        self.machines = machines
        for actor in (*self.actors, *self.no_retry_actors):
            actor.switch_to(machines)

    def expect_cuts(self) -> None:
        """Expect that API processes die from now on."""
        for actor in self.actors:
            actor.may_lose_connections = True

    def recovered(self) -> float:
        """Wait until each actor has finished a step that began after this call; returns the seconds."""
        since = time.monotonic()

        def progressed() -> bool:
            failed = [actor.failed for actor in self.actors if actor.failed]
            assert not failed, failed
            return all(actor.done_since >= since for actor in self.actors)

        eventually(progressed, RECOVERED_S)
        return time.monotonic() - since

    def check(self) -> None:
        """Stop all, and check each machine: acknowledged writes are there once, all others whole or not at all."""
        for any_actor in (*self.actors, *self.no_retry_actors):
            any_actor.stopped.set()
        for actor in self.actors:
            actor.join(RECOVERED_S)
            assert not actor.failed, actor.failed
        posts_written = sorted(post for actor in self.actors for post in actor.posts)
        for machine in self.machines:
            with machine.client(acting="system") as http, machine.client(acting=self.reader) as reader:
                for star in self.stars:
                    self._check_star(http, star)
                for actor in self.actors:
                    self._check_actor(http, actor)
                for no_retry_actor in self.no_retry_actors:
                    with machine.client(acting=no_retry_actor.user) as http_:
                        self._check_no_retry_actor(http_, no_retry_actor)
                self._check_names(http)
                eventually(lambda reader=reader: sorted(_home(reader)) == posts_written, 120)

    def _check_star(self, http: httpx.Client, star: int) -> None:
        followers = sorted(actor.user for actor in self.actors if star in actor.follows)
        assert _read(http, f"/graph/follows/{star}/in/count") == {"count": len(followers)}
        assert sorted(_ids(http, f"/graph/follows/{star}/in")) == followers
        for actor in self.actors:

            def is_right(actor: Actor = actor) -> bool:
                """Polled, as a check without a token may be some seconds old."""
                exists: bool = _read(http, f"/graph/follows/{actor.user}/{star}")["exists"]
                return exists == (star in actor.follows)

            eventually(is_right, 10)

    def _check_actor(self, http: httpx.Client, actor: Actor) -> None:
        assert sorted(_ids(http, f"/graph/follows/{actor.user}/out")) == sorted(actor.follows)
        assert _read(http, f"/graph/follows/{actor.user}/out/count") == {"count": len(actor.follows)}
        assert sorted(_ids(http, f"/users/{actor.user}/posts")) == sorted(actor.posts)

    def _check_no_retry_actor(self, http: httpx.Client, no_retry_actor: NoRetryActor) -> None:
        """Check that rows, both lists and counts of the follows agree."""
        no_retry_actor.join(RECOVERED_S)
        listed = set(_ids(http, f"/graph/follows/{no_retry_actor.user}/out"))
        assert no_retry_actor.answered <= listed <= set(no_retry_actor.asked)
        assert _read(http, f"/graph/follows/{no_retry_actor.user}/out/count") == {"count": len(listed)}
        looked_at = {
            *no_retry_actor.asked[::_CHECKED_EVERY],
            *(target for target in no_retry_actor.asked if target not in no_retry_actor.answered),
        }
        for target in looked_at:
            followers = [no_retry_actor.user] if target in listed else []
            assert _ids(http, f"/graph/follows/{target}/in") == followers
            assert _read(http, f"/graph/follows/{target}/in/count") == {"count": len(followers)}
        for start in range(0, len(no_retry_actor.asked), _TARGETS_PER_REQUEST):
            targets = no_retry_actor.asked[start : start + _TARGETS_PER_REQUEST]
            relationships = ok(http.post(f"{API}/relationships", json={"targets": list(map(str, targets))}))
            assert [relationship["following"] for relationship in relationships["relationships"]] == [
                target in listed for target in targets
            ]

    def _check_names(self, http: httpx.Client) -> None:
        names = {actor.user: _read(http, f"/users/{actor.user}")["username"] for actor in self.actors}
        names_held = {user: name for user, name in names.items() if name is not None}
        assert len(set(names_held.values())) == len(names_held), names
        for user, name in names_held.items():
            assert _read(http, f"/users/by-username/{name}")["id"] == str(user)


def _read(http: httpx.Client, path: str, **query: str) -> Any:
    """The answer to a GET, retried while the machine answers 503."""

    def answer() -> httpx.Response | None:
        response = http.get(API + path, params=query)
        return None if response.status_code == 503 else response

    return ok(eventually(answer, RECOVERED_S))


def _ids(http: httpx.Client, path: str) -> list[int]:
    """The ids of all pages."""
    return [int(item["id"]) for page in _pages(http, path) for item in page["items"]]


def _home(http: httpx.Client) -> list[int]:
    return [int(post["id"]) for page in _pages(http, "/feed", type="latest") for post in page["posts"]]


def _pages(http: httpx.Client, path: str, **query: str) -> list[Any]:
    items, cursor = [], None
    while True:
        page = _read(http, path, limit="50", **query, **({"cursor": cursor} if cursor else {}))
        items.append(page)
        cursor = page["pagination"]["nextCursor"]
        if cursor is None:
            return items
