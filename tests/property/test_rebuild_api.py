"""A store rebuilt from the log alone gives the same answer to every API request as the store that wrote the log."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from in_process import client_of
from servers import API, KEY

from kith.access.quotas import Quotas
from kith.engines.embedded.environment import Environment
from kith.engines.embedded.rebuild import rebuild
from kith.run import limits
from kith.run.api import api_over
from kith.run.config import Settings
from kith.run.opening import quotas
from kith.run.services import Services, open_services

_PEOPLE, _STEPS = range(1, 9), 400
_GRAPHS = ("follows", "blocks", "mutes", "follow_requests", "likes", "saves", "hides", "authored", "commented")


class Community:
    """Random users who send all kinds of requests, and everything that can be read about them."""

    def __init__(self, http: httpx.AsyncClient, seed: int) -> None:
        self._http, self._chosen = http, random.Random(seed)
        self.posts: list[str] = []
        self.comments: list[tuple[str, str]] = []

    async def step(self) -> None:
        """Send one request of a random user. Some are refused."""
        chosen = self._chosen
        me, other = chosen.sample(_PEOPLE, 2)
        post = chosen.choice(self.posts or ["1"])
        its, comment = chosen.choice(self.comments or [(post, "1")])
        repeated = {"Idempotency-Key": f"key {chosen.randrange(40)}"} if chosen.random() < 0.5 else {}
        said = {"text": f"words {chosen.randrange(10_000)}"}
        match chosen.randrange(17):
            case 0 | 1 | 2:
                await self._ask(me, "POST", f"/users/{other}/follow")
            case 3:
                await self._ask(me, "DELETE", f"/users/{other}/follow")
            case 4:
                await self._ask(me, chosen.choice(("POST", "DELETE")), f"/users/{other}/block")
            case 5:
                await self._ask(me, chosen.choice(("POST", "DELETE")), f"/users/{other}/mute")
            case 6 | 7 | 8:
                body = {"content": said, "visibility": chosen.choice(("public", "followers")), "mentions": [str(other)]}
                made = await self._ask(me, "POST", "/posts", body, repeated)
                self.posts += [made["id"]] if made else []
            case 9:
                await self._ask(me, chosen.choice(("POST", "DELETE")), f"/posts/{post}/like")
            case 10 | 11:
                body = said if chosen.random() < 0.5 else {**said, "replyTo": comment}
                made = await self._ask(me, "POST", f"/posts/{its}/comments", body, repeated)
                self.comments += [(its, made["id"])] if made else []
            case 12:
                await self._ask(me, "PATCH", f"/posts/{post}", {"content": said})
            case 13:
                await self._ask(me, "DELETE", f"/posts/{post}" if chosen.random() < 0.5 else f"/comments/{comment}")
            case 14:
                fields = {"username": f"name{chosen.randrange(12)}", "private": chosen.random() < 0.3}
                await self._ask(me, "PATCH", f"/users/{me}", fields)
            case 15:
                labels = {"labels": chosen.choice(([], ["sensitive"], ["limit"])), "reason": "why"}
                await self._ask("system", "PUT", f"/labels/users/{me}", labels)
            case 16:
                await self._ask("system", "POST", f"/users/{me}/{chosen.choice(('deactivate', 'reactivate'))}")

    async def _ask(
        self, user: object, method: str, path: str, body: object = None, headers: dict[str, str] | None = None
    ) -> Any:
        answer = await self._http.request(
            method, API + path, json=body, headers={"X-Kith-User": str(user), **(headers or {})}
        )
        assert answer.status_code < 500, answer.text
        return answer.json() if answer.status_code < 300 and answer.content else None


async def answers(http: httpx.AsyncClient, community: Community) -> dict[str, Any]:
    """The answers to every user about everything, through all pages."""
    found: dict[str, Any] = {}

    async def ask(user: object, path: str) -> Any:
        answer = await http.get(API + path, headers={"X-Kith-User": str(user)})
        found[f"{user} {path}"] = (answer.status_code, answer.json() if answer.content else None)
        return found[f"{user} {path}"][1]

    for user in (*_PEOPLE, "system"):
        for one in _PEOPLE:
            await ask(user, f"/users/{one}")
            for listed in ("followers", "following", "posts"):
                path = f"/users/{one}/{listed}?limit=3"
                page = await ask(user, path)
                while page.get("pagination") and (cursor := page["pagination"]["nextCursor"]):
                    page = await ask(user, f"{path}&cursor={cursor}")
        for post in community.posts:
            await ask(user, f"/posts/{post}")
            await ask(user, f"/posts/{post}/comments")
    for graph in _GRAPHS:
        for one in _PEOPLE:
            for way in ("in", "out"):
                await ask("system", f"/graph/{graph}/{one}/{way}?limit=1000")
                await ask("system", f"/graph/{graph}/{one}/{way}/count")
    return found


@asynccontextmanager
async def _door(folder: Path) -> AsyncIterator[tuple[httpx.AsyncClient, Services]]:
    settings = Settings(data=str(folder), api_keys=(KEY,), durability="relaxed", workers=1)
    async with open_services(settings) as services, quotas.open_store(settings) as counts:
        api = api_over(settings, services, Quotas(counts, limits.quotas(settings)), None)
        async with client_of(api.door, Authorization=f"Bearer {KEY}") as http:
            yield http, services


@pytest.mark.parametrize("seed", [1, 2])
def test_every_answer_is_the_same_and_keys_and_tokens_stay_valid(tmp_path: Path, seed: int) -> None:
    async def scene() -> None:
        async with _door(tmp_path / "data") as (http, services):
            community = Community(http, seed)
            for _ in range(_STEPS):
                await community.step()
            key = {"X-Kith-User": "1", "Idempotency-Key": "once and for all"}
            once = await http.post(f"{API}/posts", json={"content": {"text": "once"}}, headers=key)
            await services.jobs.wait()  # accounts are deactivated and reactivated in the background
            await services.privacy_switch.wait()
            before = await answers(http, community)
        with Environment(tmp_path / "data") as source, Environment(tmp_path / "again") as target:
            rebuild(source, target)
        async with _door(tmp_path / "again") as (http, _):
            after = await answers(http, community)
            differ = [asked for asked in before if json.dumps(before[asked]) != json.dumps(after[asked])]
            assert not differ, [(asked, before[asked], after[asked]) for asked in differ[:3]]
            again = await http.post(f"{API}/posts", json={"content": {"text": "once"}}, headers=key)
            assert again.json()["id"] == once.json()["id"]
            seen = await http.get(
                f"{API}/users/1", headers={"Kith-Token": once.headers["Kith-Token"], "X-Kith-User": "system"}
            )
            assert seen.status_code == 200, "tokens of the original store stay valid"

    asyncio.run(scene())
