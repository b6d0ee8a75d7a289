"""Both clients, sync and async, over a service that the test simulates."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from fake_service import Client, Connect, Service

from kith.client import AsyncKith, Kith


@pytest.fixture(params=[Kith, AsyncKith])
def connect(request: pytest.FixtureRequest) -> Connect:
    """A function that connects a client of either kind to a `Service`."""

    def make(service: Service, url: str = "http://kith.example", **settings: Any) -> Client:
        client: Client = request.param(url, "a-key", transport=httpx.MockTransport(service), **settings)
        return client

    return make
