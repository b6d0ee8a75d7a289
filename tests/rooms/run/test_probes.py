"""A worker's probes: whether it lives, and whether it is ready."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from coroutines import Run
from servers import free_port

from kith.core.errors import StoreUnavailable, Unavailable
from kith.run.serving import probes


def test_a_worker_lives_at_once_and_is_ready_when_it_says_so(run: Run) -> None:
    async def asked() -> None:
        ready, port, away = asyncio.Event(), free_port(), False

        async def metrics() -> bytes:
            if away:
                raise StoreUnavailable("it does not answer")
            return b"kith_mentions_total 1"

        async with (
            probes.serve_probes("127.0.0.1", port, ready.is_set, metrics),
            httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as http,
        ):
            assert (await http.get("/healthz")).status_code == 200
            assert (await http.get("/readyz")).status_code == 503
            ready.set()
            assert (await http.get("/readyz")).json() == {"status": "ready"}
            assert [(await http.get("/")).status_code, (await http.post("/readyz")).status_code] == [404, 404]
            counted = await http.get("/metrics")
            assert (counted.text, counted.headers["content-type"][:10]) == ("kith_mentions_total 1", "text/plain")
            away = True
            assert (await http.get("/metrics")).status_code == 503
            with pytest.raises(Unavailable, match="--probe-port"):
                async with probes.serve_probes("127.0.0.1", port, ready.is_set, metrics):
                    pass

    run(asked())
