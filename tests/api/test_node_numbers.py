"""A process that lost its node number creates no ids, reports it, and is replaced. It still answers reads."""

from __future__ import annotations

import asyncio
from pathlib import Path
from unittest.mock import patch

import httpx
from cast import FakeClock
from coroutines import Run, without_waits
from in_process import client_of
from reference_leases import ReferenceLeases
from reference_quotas import ReferenceQuotas
from servers import API, KEY

from kith.access.quotas import Quotas
from kith.core.clock import wall_ms
from kith.run.api import api_over
from kith.run.config import Settings
from kith.run.machines.machine import machine_of
from kith.run.services import open_services


class LastingLeases(ReferenceLeases):
    """Leases in a store that outlives its process."""

    def close(self) -> None:
        """Keep the leases."""


async def posted(http: httpx.AsyncClient) -> httpx.Response:
    headers = {"Authorization": f"Bearer {KEY}", "X-Kith-User": "1"}
    return await http.post(f"{API}/posts", json={"content": {"text": "hello"}}, headers=headers)


def test_a_process_that_lost_its_node_number_creates_no_ids(run: Run, tmp_path: Path) -> None:
    settings = Settings(data=str(tmp_path), api_keys=(KEY,), durability="relaxed")
    clock = FakeClock(wall_ms())
    store = LastingLeases(clock)

    async def play() -> None:
        replaced = asyncio.Event()
        with patch("kith.run.opening.one_machine.FileLeases", lambda _: store):
            async with (
                open_services(settings, on_fatal=replaced.set) as services,
                machine_of(settings, services.stores.folder) as machine,
            ):
                api = api_over(settings, services, Quotas(ReferenceQuotas(), {}), machine)
                async with client_of(api.door) as http:
                    assert (await posted(http)).status_code == 201
                    assert (await http.get("/readyz")).status_code == 200
                    clock.ms += 10_000_000
                    with without_waits():
                        await replaced.wait()
                    refused = await posted(http)
                    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "LEASE_LOST")
                    unready = await http.get("/readyz")
                    assert (unready.status_code, list(unready.json()["problems"])) == (503, ["ids"])
                    checked = await http.get(f"{API}/graph/follows/1/2", headers={"Authorization": f"Bearer {KEY}"})
                    assert checked.status_code == 200

    run(play())
