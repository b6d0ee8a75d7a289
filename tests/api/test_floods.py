"""Requests without credentials, or with wrong ones, cost a process a bounded amount, however many there are."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from unittest.mock import patch

import httpx
import jwt
from calls import code, ok
from in_process import client_of
from servers import API, AUDIENCE, ISSUER, JWT_SECRET, KEY, sign

from kith.run.api import open_api
from kith.run.config import Settings
from kith.run.measures.metrics import Metrics

MANY = 100


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[httpx.AsyncClient]:
    """A client of an API in this process, without credentials."""
    settings = Settings(
        data=str(folder), api_keys=(KEY,), jwt_secret=JWT_SECRET, jwt_issuer=ISSUER, jwt_audience=AUDIENCE
    )
    async with open_api(settings) as api, client_of(api.door) as http:
        yield http


def bearer(credential: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {credential}"}


def test_tokens_with_a_wrong_signature_are_not_decoded(tmp_path: Path) -> None:
    async def ask() -> None:
        async with opened(tmp_path) as http:
            good = sign(1)
            with patch.object(jwt, "decode", side_effect=jwt.decode) as read:
                for number in range(MANY):
                    forged = sign(number, secret=f"another secret, as long as the real one, {number}")
                    answer = await http.get(f"{API}/users/1", headers=bearer(forged))
                    assert code(answer, 401) == "UNAUTHORIZED"
                    assert "jwt_secret" in answer.json()["error"]["message"]
                assert read.call_count == 0
                ok(await http.get(f"{API}/users/1", headers=bearer(good)))

    asyncio.run(ask())


def test_a_token_that_can_never_become_valid_is_decoded_once(tmp_path: Path) -> None:
    async def ask() -> None:
        async with opened(tmp_path) as http:
            for token, why in ((sign(1, ttl_s=-60), "expired"), (sign(1, aud="another"), "aud")):
                with patch.object(jwt, "decode", side_effect=jwt.decode) as read:
                    for _ in range(MANY):
                        answer = await http.get(f"{API}/users/1", headers=bearer(token))
                        assert code(answer, 401) == "UNAUTHORIZED"
                        assert why in answer.json()["error"]["message"]
                    assert read.call_count == 1

    asyncio.run(ask())


def test_metrics_are_rendered_off_the_event_loop_and_once_for_all_waiting_requests(tmp_path: Path) -> None:
    threads: list[int] = []
    rendered = Metrics._rendered

    def noted(metrics: Metrics, gauges: Mapping[str, float]) -> bytes:
        threads.append(threading.get_ident())
        return rendered(metrics, gauges)

    async def ask() -> None:
        async with opened(tmp_path) as http:
            answers = await asyncio.gather(*(http.get("/metrics") for _ in range(MANY)))
            assert all("kith_log_events" in answer.text for answer in answers)
            assert len(threads) <= 2
            assert threading.get_ident() not in threads
            before = count((await http.get("/metrics")).text)
            ok(await http.get(f"{API}/users/1", headers=bearer(KEY)))
            assert count((await http.get("/metrics")).text) == before + 1, "an answer is not older than its request"

    def count(text: str) -> float:
        name = 'kith_responses_total{operation="get_user",status="200"}'
        return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith(name))

    with patch.object(Metrics, "_rendered", noted):
        asyncio.run(ask())
