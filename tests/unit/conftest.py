"""Fixtures of the unit tests: both clients, for the tests of the Python client; scenes, for those of streams."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from answering import Client, Connect, Service
from hall import Hall, Play
from world import time_flies

from kith.client import AsyncKith, Kith


@pytest.fixture(params=[Kith, AsyncKith])
def connect(request: pytest.FixtureRequest) -> Connect:
    """Connects a client of either kind to a Service."""

    def make(service: Service, url: str = "http://kith.example", **settings: Any) -> Client:
        client: Client = request.param(url, "a-key", transport=httpx.MockTransport(service), **settings)
        return client

    return make


@pytest.fixture
def play(tmp_path: Path) -> Play:
    """Plays a scene in which nobody really waits."""

    def run(scene: Callable[[Hall], Awaitable[None]]) -> None:
        with time_flies():
            asyncio.run(Hall(tmp_path / "data").play(scene))

    return run
