"""People who write to two machines without end, repeating what was not answered, and what must be so in the end."""

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

ACTORS, STARS, NAMES, CARELESS = 4, 3, 3, 4
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
_PAUSE_S, _CARELESS_S = 0.05, 0.02
_LOOKED_UP, _EVERY = 50, 10
"""Of the follows that were answered both ends of every tenth are looked at, of the others all."""
_numbers = itertools.count(1)


class Actor(threading.Thread):
    """Follows and unfollows stars, writes posts, takes names. Each request goes to another machine than the last."""

    def __init__(self, user: int, stars: Sequence[int], machines: Sequence[Server]) -> None:
        super().__init__(daemon=True)
        self.user, self._stars = user, stars
        self.follows: set[int] = set()
        self.posts: list[int] = []
        self.done_since = 0.0
        """When the last step that is done was begun."""
        self.slowest_s = 0.0
        self.refused = 0
        self.failed: str = ""
        self.rest_s = 0.0
        """Between two steps."""
        self.may_be_cut_off = False
        """Whether an API process ends while it answers, after which the same is asked again."""
        self.over = threading.Event()
        self.turn_to(machines)

    def turn_to(self, machines: Sequence[Server]) -> None:
        """Go on with other machines."""
        self._clients = itertools.cycle([machine.client(acting=self.user) for machine in machines])

    def run(self) -> None:
        try:
            for number in itertools.count():
                if self.over.is_set():
                    return
                began = time.monotonic()
                self._step(number)
                self.over.wait(self.rest_s)
                self.done_since = began
        except Exception as error:
            self.failed = f"{type(error).__name__}: {error}"

    def _step(self, number: int) -> None:
        star = self._stars[number % len(self._stars)]
        verb = "DELETE" if star in self.follows else "POST"
        self._ask(verb, f"/users/{star}/follow")
        self.follows ^= {star}
        body = {"content": {"text": f"{number} of {self.user}"}}
        made = self._ask("POST", "/posts", body, key=f"{self.user} {number}")
        self.posts.append(int(made["id"]))
        self._ask("PATCH", f"/users/{self.user}", {"username": f"n{number % NAMES}.{self._stars[0]}"}, taken=409)

    def _ask(self, method: str, path: str, body: Any = None, *, key: str = "", taken: int = 200) -> Any:
        """Until it is answered; those that say that they cannot are repeated elsewhere."""
        headers = {"Idempotency-Key": key} if key else {}
        while True:
            began = time.monotonic()
            try:
                answer = next(self._clients).request(method, API + path, json=body, headers=headers)
            except httpx.TransportError:
                if not self.may_be_cut_off:
                    raise
                continue
            self.slowest_s = max(self.slowest_s, time.monotonic() - began)
            if answer.status_code in (200, 201, taken):
                return answer.json()
            said = f"{method} {path}: {answer.status_code} {answer.text}"
            assert answer.status_code == 503, said
            assert answer.json()["error"]["code"] in UNAVAILABLE, said
            self.refused += 1
            self.over.wait(_PAUSE_S)


class Careless(threading.Thread):
    """Follows one user after another, each once: what is not answered is not repeated, and may be done or not."""

    def __init__(self, user: int, first: int, machines: Sequence[Server]) -> None:
        super().__init__(daemon=True)
        self.user, self._first = user, first
        self.asked: list[int] = []
        self.answered: set[int] = set()
        self.over = threading.Event()
        self.turn_to(machines)

    def turn_to(self, machines: Sequence[Server]) -> None:
        """Go on with other machines."""
        self._clients = itertools.cycle([machine.client(acting=self.user) for machine in machines])

    def run(self) -> None:
        for other in itertools.count(self._first):
            if self.over.is_set():
                return
            self.asked.append(other)
            with contextlib.suppress(httpx.TransportError):
                if next(self._clients).post(f"{API}/users/{other}/follow").status_code == 200:
                    self.answered.add(other)
            self.over.wait(_CARELESS_S)


class Play:
    """Four people act while a test breaks something. `recovered` waits until all of them get on; `check` ends it."""

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
        self.careless = [Careless(first + 20 + n, first + 100_000 * (n + 1), machines) for n in range(CARELESS)]
        for one in self.careless:
            one.start()
        self.recovered()

    def turn_to(self, *machines: Server) -> None:
        """Everybody goes on with other machines."""
        self.machines = machines
        for one in (*self.actors, *self.careless):
            one.turn_to(machines)

    def expect_cuts(self) -> None:
        """API processes are ended from now on."""
        for actor in self.actors:
            actor.may_be_cut_off = True

    def recovered(self) -> float:
        """Seconds until everybody has done a step that they began from now on."""
        since = time.monotonic()

        def got_on() -> bool:
            failed = [actor.failed for actor in self.actors if actor.failed]
            assert not failed, failed
            return all(actor.done_since >= since for actor in self.actors)

        eventually(got_on, RECOVERED_S)
        return time.monotonic() - since

    def check(self) -> None:
        """All that was answered is there once, on every machine; all else is there whole or not at all."""
        for one in (*self.actors, *self.careless):
            one.over.set()
        for actor in self.actors:
            actor.join(RECOVERED_S)
            assert not actor.failed, actor.failed
        written = sorted(post for actor in self.actors for post in actor.posts)
        for machine in self.machines:
            with machine.client(acting="system") as http, machine.client(acting=self.reader) as reader:
                for star in self.stars:
                    self._check_star(http, star)
                for actor in self.actors:
                    self._check_actor(http, actor)
                for careless in self.careless:
                    with machine.client(acting=careless.user) as http_:
                        self._check_careless(http_, careless)
                self._check_names(http)
                eventually(lambda reader=reader: sorted(_home(reader)) == written, 120)

    def _check_star(self, http: httpx.Client, star: int) -> None:
        followers = sorted(actor.user for actor in self.actors if star in actor.follows)
        assert _read(http, f"/graph/follows/{star}/in/count") == {"count": len(followers)}
        assert sorted(_ids(http, f"/graph/follows/{star}/in")) == followers
        for actor in self.actors:

            def is_right(actor: Actor = actor) -> bool:
                """Without a token, a check may be some seconds old."""
                found: bool = _read(http, f"/graph/follows/{actor.user}/{star}")["exists"]
                return found == (star in actor.follows)

            eventually(is_right, 10)

    def _check_actor(self, http: httpx.Client, actor: Actor) -> None:
        assert sorted(_ids(http, f"/graph/follows/{actor.user}/out")) == sorted(actor.follows)
        assert _read(http, f"/graph/follows/{actor.user}/out/count") == {"count": len(actor.follows)}
        assert sorted(_ids(http, f"/users/{actor.user}/posts")) == sorted(actor.posts)

    def _check_careless(self, http: httpx.Client, careless: Careless) -> None:
        """Rows, both ends and counts say the same."""
        careless.join(RECOVERED_S)
        listed = set(_ids(http, f"/graph/follows/{careless.user}/out"))
        assert careless.answered <= listed <= set(careless.asked)
        assert _read(http, f"/graph/follows/{careless.user}/out/count") == {"count": len(listed)}
        looked_at = {*careless.asked[::_EVERY], *(other for other in careless.asked if other not in careless.answered)}
        for other in looked_at:
            followers = [careless.user] if other in listed else []
            assert _ids(http, f"/graph/follows/{other}/in") == followers
            assert _read(http, f"/graph/follows/{other}/in/count") == {"count": len(followers)}
        for at in range(0, len(careless.asked), _LOOKED_UP):
            some = careless.asked[at : at + _LOOKED_UP]
            found = ok(http.post(f"{API}/relationships", json={"targets": list(map(str, some))}))
            assert [one["following"] for one in found["relationships"]] == [other in listed for other in some]

    def _check_names(self, http: httpx.Client) -> None:
        names = {actor.user: _read(http, f"/users/{actor.user}")["username"] for actor in self.actors}
        held = {user: name for user, name in names.items() if name is not None}
        assert len(set(held.values())) == len(held), names
        for user, name in held.items():
            assert _read(http, f"/users/by-username/{name}")["id"] == str(user)


def _read(http: httpx.Client, path: str, **query: str) -> Any:
    """What is answered once the machine can."""

    def answer() -> httpx.Response | None:
        answered = http.get(API + path, params=query)
        return None if answered.status_code == 503 else answered

    return ok(eventually(answer, RECOVERED_S))


def _ids(http: httpx.Client, path: str) -> list[int]:
    """The ids of all pages."""
    return [int(item["id"]) for page in _pages(http, path) for item in page["items"]]


def _home(http: httpx.Client) -> list[int]:
    return [int(post["id"]) for page in _pages(http, "/feed", type="latest") for post in page["posts"]]


def _pages(http: httpx.Client, path: str, **query: str) -> list[Any]:
    found, cursor = [], None
    while True:
        page = _read(http, path, limit="50", **query, **({"cursor": cursor} if cursor else {}))
        found.append(page)
        cursor = page["pagination"]["nextCursor"]
        if cursor is None:
            return found
