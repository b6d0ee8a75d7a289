"""Uploads that are refused before they are all there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from world import Run

from kith.api.bridge import Bridge
from kith.api.media import UPLOAD_PATH

CHUNK = bytes(64 * 1024)


class Upload:
    """A client that sends so many chunks; notes how many were taken in before it was answered."""

    def __init__(self, chunks: int) -> None:
        self._chunks, self.taken = chunks, 0
        self.answered: tuple[int, int] | None = None  # the status, and how many chunks were taken in

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for _ in range(self._chunks):
            self.taken += 1
            yield CHUNK

    async def client_disconnect(self) -> None:
        """It never goes."""

    def response_bytes(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.answered = (status, self.taken)


async def refusing(scope: Any, receive: Any, send: Any) -> None:
    """An app that reads nothing."""
    await send({"type": "http.response.start", "status": 429, "headers": []})
    await send({"type": "http.response.body", "body": b"{}"})


@pytest.mark.parametrize(("sent", "taken"), [(0, 0), (3, 3), (16, 16), (1_000, 16)])
def test_an_upload_that_is_refused_is_taken_in_first_where_it_is_small(run: Run, sent: int, taken: int) -> None:
    """The client would see its connection break, and not why."""
    bounds = SimpleNamespace(upload_timeout_s=5, timeout_s=5, upload_bytes_max=1 << 30, body_bytes_max=1 << 20)
    backend = SimpleNamespace(bounds=bounds, metrics=SimpleNamespace(observe=lambda *_: None))
    scope = SimpleNamespace(
        http_version="1.1", method="POST", scheme="http", path=UPLOAD_PATH, query_string="", client="127.0.0.1:1",
        headers={},
    )  # fmt: skip
    upload = Upload(sent)
    run(Bridge(refusing, cast(Any, backend))(cast(Any, scope), cast(Any, upload)))
    assert upload.answered == (429, taken)
