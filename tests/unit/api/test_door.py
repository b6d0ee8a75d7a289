"""Uploads that are refused before they are all there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from coroutines import Run

from kith.access.guard import Caller
from kith.api.call import Call
from kith.api.door import Bounds, Door
from kith.api.operations import operations_of, post
from kith.core.errors import Overloaded

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

    def response_bytes(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.answered = (status, self.taken)


class Refusing:
    """A resource that reads nothing."""

    @post("/media", "Upload", upload=True)
    async def upload(self, call: Call) -> None:
        """Is always too much."""
        raise Overloaded("too many uploads")


@pytest.mark.parametrize(
    ("sent", "taken"), [(0, 0), (3, 3), (16, 16), (1_000, 16)], ids=["none", "small", "a MiB", "large"]
)
def test_an_upload_that_is_refused_is_taken_in_first_where_it_is_small(run: Run, sent: int, taken: int) -> None:
    """The client would see its connection break, and not why."""
    guard = SimpleNamespace(caller=lambda *_: Caller(True, None, ""), admit=lambda *_, **__: None)
    bounds = Bounds(body_bytes_max=1 << 20, timeout_s=5, upload_bytes_max=1 << 30, upload_timeout_s=5)
    rest: list[Any] = [guard, None, None, bounds, lambda *_: None]
    scope = SimpleNamespace(method="POST", path="/api/v1/media", query_string="", headers={})
    upload = Upload(sent)
    run(Door(operations_of(Refusing()), *rest)(cast(Any, scope), cast(Any, upload)))
    assert upload.answered == (503, taken)
