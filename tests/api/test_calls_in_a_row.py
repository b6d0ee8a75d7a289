"""How many store calls each kind of request waits for, one after another.

On an engine with 1 ms per call, this is the number of ms. The rows of CALLS are requests and their maximum. See `paced`
for how calls are counted.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest
from in_process import client_of
from round_trips import Call, RoundTripCounter, VirtualTimeLoop, counted_ports
from servers import API, AUDIENCE, ISSUER, JWT_SECRET, KEY, sign

from kith.access.quotas import Quotas
from kith.core.events import TIMELINE_REQUESTED, Event
from kith.core.ids import NodeId
from kith.engines.embedded import quota_store
from kith.engines.embedded.quota_store import FileQuotas
from kith.home.fanout import consumer as fanout
from kith.log.runner import Runner
from kith.posts.post import Draft
from kith.run import limits
from kith.run.api import api_over
from kith.run.config import Settings
from kith.run.consumers import CONSUMERS
from kith.run.machines.machine import machine_of
from kith.run.services import Services, open_services

ALICE, BOB, CAROL = 1, 2, 3
AUTHORS = range(100, 160)
"""Alice follows them. Each has a post and a story."""
FRESH, WARM, STRIP, POPULAR = 7, 8, 9, 10
"""FRESH (without a timeline) and WARM (with one) follow AUTHORS, STRIP 30 of them. All AUTHORS follow POPULAR."""
PRIVATE = 11
"""A private account that Alice follows; others have to send a request."""
SET = {"intersect": [{"graph": "follows", "node": str(user), "direction": "out"} for user in (ALICE, WARM)]}


class Scene(NamedTuple):
    """A small community behind an API whose stores all take one tick per call."""

    http: httpx.AsyncClient
    services: Services
    counter: RoundTripCounter
    runner: Runner
    worker: fanout.Fanout
    post: str

    async def asked(self, user: int | None, method: str, path: str, *, token: bool = False, **body: object) -> object:
        """The body of an answer: to a server key acting for this user, or (`token`) to the user's own token."""
        headers = {"Authorization": f"Bearer {sign(user or 0) if token else KEY}"}
        if user is not None and not token:
            headers["X-Kith-User"] = str(user)
        answer = await self.http.request(method, API + path, headers=headers, **({"json": body} if body else {}))
        assert answer.status_code < 300, answer.text
        return answer.json() if answer.content else None

    async def catch_up_fanout(self) -> None:
        """Let fan-out handle all events, and save its progress."""
        while await self.runner.step():
            pass
        log = self.services.stores.log
        await log.save(fanout.NAME, await log.end(), {})

    async def chunk(self) -> None:
        """Let fan-out push the next chunk of a delivery."""
        assert await self.worker.work_backlog() is False


@asynccontextmanager
async def scene_in(folder: Path, counter: RoundTripCounter) -> AsyncIterator[Scene]:
    """The community, with fan-out up to date."""
    settings = Settings(
        data=str(folder), api_keys=(KEY,), jwt_secret=JWT_SECRET, jwt_issuer=ISSUER, jwt_audience=AUDIENCE,
        durability="relaxed", workers=1, fanout_push_max=len(AUTHORS) - 1, fanout_pull_min=1_000,
    )  # fmt: skip
    with counted_ports(counter):
        async with open_services(settings) as services, machine_of(settings, services.stores.folder) as machine:
            counts = counter.wrap(_quotas(folder), "quotas")
            api = api_over(settings, services, Quotas(counts, limits.quotas(settings)), machine)
            async with CONSUMERS[fanout.NAME].open(settings, services.stores) as worker, client_of(api.door) as http:
                assert isinstance(worker.follower, Runner)
                assert isinstance(worker.follower.consumer, fanout.Fanout)
                scene = Scene(http, services, counter, worker.follower, worker.follower.consumer, "")
                yield scene._replace(post=await _fill(scene))


def _quotas(folder: Path) -> FileQuotas:
    return FileQuotas(folder / quota_store.FILE)


async def _fill(scene: Scene) -> str:
    """Create users, posts, comments and stories. Returns the latest post of Alice."""
    await scene.catch_up_fanout()
    for author in AUTHORS:
        for reader in (ALICE, FRESH, WARM, *([STRIP] if author % 2 else [])):
            await scene.asked(reader, "POST", f"/users/{author}/follow")
        await scene.asked(author, "POST", f"/users/{POPULAR}/follow")
        await scene.asked(author, "POST", "/posts", content={"text": f"news of {author}"})
        await scene.asked(author, "POST", "/stories", content={"text": f"story of {author}"})
    await scene.asked(ALICE, "POST", f"/users/{PRIVATE}/follow")
    await scene.asked(PRIVATE, "PATCH", f"/users/{PRIVATE}", private=True)
    for user in (ALICE, BOB, CAROL):
        await scene.asked(user, "PATCH", f"/users/{user}", displayName=f"Number {user}")
    await scene.asked(ALICE, "POST", f"/users/{BOB}/follow")
    post = await scene.asked(ALICE, "POST", "/posts", content={"text": "look"})
    assert isinstance(post, dict)
    for number in range(8):
        comment = await scene.asked(BOB, "POST", f"/posts/{post['id']}/comments", text=f"comment {number}")
        assert isinstance(comment, dict)
        await scene.asked(CAROL, "POST", f"/posts/{post['id']}/comments", text="reply", replyTo=comment["id"])
    for owner in (CAROL, AUTHORS[0]):  # pins reach home by a follow of the board, and of its owner
        board = await scene.asked(owner, "POST", "/boards", name="a board")
        assert isinstance(board, dict)
        await scene.asked(owner, "POST", f"/boards/{board['id']}/pins", post=post["id"])
        for reader in (ALICE, FRESH, WARM) if owner == CAROL else ():
            await scene.asked(reader, "POST", f"/boards/{board['id']}/follow")
    await scene.asked(CAROL, "POST", f"/posts/{post['id']}/save")
    await scene.asked(CAROL, "POST", "/posts", content={"text": "hello"}, mentions=[ALICE])
    clock, log = scene.services.stores.graph.clock, scene.services.stores.log
    await scene.catch_up_fanout()
    for reader in (ALICE, WARM):
        await log.announce(Event(0, None, TIMELINE_REQUESTED, reader, 0, 0, clock.next()))
    await scene.catch_up_fanout()
    before = await log.end()
    await scene.services.posts.create(NodeId(POPULAR), Draft(text="to very many"))
    await scene.worker.handle((await log.read(before, 1)).events)  # a delivery that has not begun
    await log.save(fanout.NAME, await log.end(), {})
    return str(post["id"])


class Row(NamedTuple):
    """A request, and how many calls it may wait for. `ask` makes the request, or the work to measure."""

    at_most: int
    ask: Callable[[Scene], Awaitable[object]]


CALLS: dict[str, Row] = {
    "check by server key": Row(1, lambda scene: scene.asked(None, "GET", f"/graph/follows/{ALICE}/{BOB}")),
    "check by user token": Row(1, lambda scene: scene.asked(ALICE, "GET", f"/graph/follows/{ALICE}/{BOB}", token=True)),
    "follow": Row(1, lambda scene: scene.asked(CAROL, "POST", f"/users/{BOB}/follow")),
    "unfollow": Row(1, lambda scene: scene.asked(CAROL, "DELETE", f"/users/{BOB}/follow")),
    "block": Row(2, lambda scene: scene.asked(CAROL, "POST", "/users/150/block")),
    "follow a private account": Row(3, lambda scene: scene.asked(CAROL, "POST", f"/users/{PRIVATE}/follow")),
    "relationships": Row(1, lambda scene: scene.asked(CAROL, "POST", "/relationships", targets=[ALICE, BOB, 150])),
    "friends": Row(3, lambda scene: scene.asked(CAROL, "GET", f"/users/{ALICE}/friends")),
    "mutuals": Row(2, lambda scene: scene.asked(CAROL, "GET", f"/users/{ALICE}/mutuals/{WARM}")),
    "followers you know": Row(3, lambda scene: scene.asked(ALICE, "GET", f"/users/{POPULAR}/followers-you-know")),
    "followers of a private account": Row(2, lambda scene: scene.asked(ALICE, "GET", f"/users/{PRIVATE}/followers")),
    "a set of two lists": Row(3, lambda scene: scene.asked(None, "POST", "/graph/select", program=SET)),
    "suggestions": Row(5, lambda scene: scene.asked(ALICE, "GET", f"/users/{ALICE}/suggestions")),
    "suggestions, kept": Row(2, lambda scene: scene.asked(ALICE, "GET", f"/users/{ALICE}/suggestions")),
    "create a post": Row(2, lambda scene: scene.asked(BOB, "POST", "/posts", content={"text": "new"})),
    "comment": Row(3, lambda scene: scene.asked(BOB, "POST", f"/posts/{scene.post}/comments", text="well")),
    "like": Row(3, lambda scene: scene.asked(BOB, "POST", f"/posts/{scene.post}/like")),
    "a post": Row(2, lambda scene: scene.asked(BOB, "GET", f"/posts/{scene.post}")),
    "8 comments with replies": Row(5, lambda scene: scene.asked(BOB, "GET", f"/posts/{scene.post}/comments?limit=8")),
    "followers, for a viewer": Row(2, lambda scene: scene.asked(CAROL, "GET", f"/users/{BOB}/followers")),
    "home, cold facts": Row(7, lambda scene: scene.asked(ALICE, "GET", "/feed")),
    "home, ranked": Row(5, lambda scene: scene.asked(WARM, "GET", "/feed")),
    "home, without a timeline": Row(7, lambda scene: scene.asked(FRESH, "GET", "/feed")),
    "home, latest": Row(4, lambda scene: scene.asked(ALICE, "GET", "/feed?type=latest")),
    "home, latest, counted": Row(4, lambda scene: scene.asked(ALICE, "GET", "/feed?type=latest", token=True)),
    "fan-out of a chunk": Row(3, lambda scene: scene.chunk()),
    "stories of 30 authors": Row(5, lambda scene: scene.asked(STRIP, "GET", "/stories")),
    "posts of a user": Row(3, lambda scene: scene.asked(BOB, "GET", f"/users/{ALICE}/posts")),
    "who likes a post": Row(3, lambda scene: scene.asked(CAROL, "GET", f"/posts/{scene.post}/likes")),
    "what I saved": Row(3, lambda scene: scene.asked(CAROL, "GET", f"/users/{CAROL}/saved")),
    "who mentions me": Row(3, lambda scene: scene.asked(ALICE, "GET", f"/users/{ALICE}/mentions")),
    "a user": Row(1, lambda scene: scene.asked(BOB, "GET", f"/users/{ALICE}")),
    "change a user": Row(4, lambda scene: scene.asked(ALICE, "PATCH", f"/users/{ALICE}", bio="hello")),
    "edit a post": Row(4, lambda scene: scene.asked(ALICE, "PATCH", f"/posts/{scene.post}", content={"text": "see"})),
    "take a like back": Row(3, lambda scene: scene.asked(BOB, "DELETE", f"/posts/{scene.post}/like")),
    "delete a post": Row(3, lambda scene: scene.asked(ALICE, "DELETE", f"/posts/{scene.post}")),
}
"""In the order in which they are made."""
WITHOUT_TRANSACTIONS = {
    "follow": 2, "unfollow": 2, "block": 5, "follow a private account": 4, "create a post": 3, "comment": 4,
}  # fmt: skip
"""The maximum where a write is checked again after it was made, as on Cassandra. For others CALLS applies."""
LARGEST_MAX = {"home": 250, "stories": 250, "suggestions": 350}
"""How many questions one call may carry, by the first word of the row. For others FEW_MAX applies."""
FEW_MAX = 64


async def _measured(folder: Path, counter: RoundTripCounter) -> dict[str, tuple[int, list[Call]]]:
    found = {}
    async with scene_in(folder, counter) as scene:
        for name, row in CALLS.items():
            _, ticks, calls = await counter.measure(row.ask(scene))
            found[name] = (ticks, calls)
    return found


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, list[Call]]]:
    """What each row of CALLS took, and its calls."""
    loop = VirtualTimeLoop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(_measured(tmp_path_factory.mktemp("scene"), RoundTripCounter(loop)))


@pytest.fixture(scope="module")
def measured_without_transactions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, list[Call]]]:
    loop = VirtualTimeLoop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(_measured(tmp_path_factory.mktemp("far"), RoundTripCounter(loop, transactional=False)))


@pytest.mark.parametrize("name", CALLS)
def test_a_request_waits_for_at_most_its_number_of_calls(
    measured: dict[str, tuple[int, list[Call]]], name: str
) -> None:
    ticks, calls = measured[name]
    assert ticks <= CALLS[name].at_most, " ".join(f"{call.name}({call.size or ''})" for call in calls)


@pytest.mark.parametrize("name", CALLS)
def test_no_call_carries_more_than_its_page_needs(measured: dict[str, tuple[int, list[Call]]], name: str) -> None:
    _, calls = measured[name]
    first_word = name.partition(" ")[0].strip(",")
    assert max(call.size for call in calls) <= LARGEST_MAX.get(first_word, FEW_MAX), calls


@pytest.mark.parametrize("name", CALLS)
def test_a_request_waits_for_at_most_its_number_of_calls_without_transactions(
    measured_without_transactions: dict[str, tuple[int, list[Call]]], name: str
) -> None:
    ticks, calls = measured_without_transactions[name]
    at_most = WITHOUT_TRANSACTIONS.get(name, CALLS[name].at_most)
    assert ticks <= at_most, " ".join(f"{call.name}({call.size or ''})" for call in calls)
