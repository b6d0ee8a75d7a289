"""The door without a server: numbers in bodies, methods, and reads that run while their quota is checked."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from coroutines import Run
from in_process import InProcessRequest
from reference_quotas import ReferenceQuotas

from kith.access.guard import Caller
from kith.access.quotas import Quotas
from kith.access.sliding_window import Quota, TakeResult
from kith.api.answers import FileAnswer
from kith.api.call import Call
from kith.api.door import Door, RequestLimits
from kith.api.operations import get, operations_of, post
from kith.api.routing import Routes
from kith.core.errors import BadRequest, MediaNotFound, MethodNotAllowed


class Graphs:
    """A resource whose ids may be strings."""

    @post("/edges", "Edges", numbers_as_strings=True)
    async def write(self, call: Call, body: dict[str, int]) -> None:
        """Takes anything."""


class Follow(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """A body whose field has another name in JSON."""

    followed_by: int


class Follows:
    """A resource that takes a `Follow`."""

    @post("/follows", "Follow")
    async def follow(self, call: Call, body: Follow) -> None:
        """Takes a follow."""


@pytest.mark.parametrize(
    "body",
    [b'{"a": 1e3}', b'{"a": 1.0}', b'{"a": "1e3"}', b'{"a": "1\\u00650"}', b'{"a": "1\\u002e0"}'],
    ids=["exponent", "point", "in a string", "escaped exponent", "escaped point"],
)
def test_a_number_that_is_not_a_plain_integer_is_refused(body: bytes) -> None:
    (operation,) = operations_of(Graphs())
    assert operation.decode(b'{"a": "7"}') == {"a": 7}
    with pytest.raises(BadRequest):
        operation.decode(body)


@pytest.mark.parametrize("end", [".", "e", "E"])
@pytest.mark.parametrize("digit", "0123456789")
def test_a_fraction_or_an_exponent_after_any_digit_is_refused(digit: str, end: str) -> None:
    (operation,) = operations_of(Graphs())
    with pytest.raises(BadRequest, match="plain decimal"):
        operation.decode(f'{{"ab": "12", "a": "{digit}{end}0"}}'.encode())


def test_the_seconds_of_a_time_may_have_a_fraction() -> None:
    (operation,) = operations_of(Graphs())
    with pytest.raises(BadRequest, match="does not match this operation"):  # the decoder refuses it as no number
        operation.decode(b'{"a": "2026-01-02T03:04:05.678Z"}')


def test_an_unknown_field_is_answered_with_the_known_ones() -> None:
    (operation,) = operations_of(Follows())
    with pytest.raises(BadRequest, match="its fields are followedBy;"):
        operation.decode(b'{"by": 1}')


def test_head_opens_no_stream() -> None:
    class Streaming:
        @get("/stream", "Stream", streams=True)
        async def stream(self, call: Call) -> None: ...

    routes = Routes(operations_of(Streaming()))
    assert routes.find("GET", "/api/v1/stream")
    with pytest.raises(MethodNotAllowed):
        routes.find("HEAD", "/api/v1/stream")


class Feed:
    """A resource with a read that has a quota. Notes how the read ended."""

    def __init__(self) -> None:
        self.began, self.ended = asyncio.Event(), ""

    @get("/feed", "A feed", quota="feed")
    async def feed(self, call: Call, fails: bool = False) -> None:
        """Yields once, then ends; fails where `fails` says so."""
        self.began.set()
        try:
            await asyncio.sleep(0)
            if fails:
                raise BadRequest("no such feed")
        except asyncio.CancelledError:
            self.ended = "given up"
            raise
        self.ended = "read"


class DistantQuotas(ReferenceQuotas):
    """Remote quotas, whose answer comes only once the handler has begun."""

    immediate = False

    def __init__(self, feed: Feed) -> None:
        super().__init__()
        self._feed = feed

    async def take(self, kind: int, user: int, quota_: Quota, now_s: float) -> TakeResult:
        await self._feed.began.wait()
        self._feed.began.clear()
        return await super().take(kind, user, quota_, now_s)


def test_a_file_that_is_deleted_before_it_is_opened_is_missing(run: Run, tmp_path: Path) -> None:
    class Files:
        @get("/file", "A file", callers="anyone")
        async def file(self, call: Call) -> FileAnswer:
            return FileAnswer(tmp_path / "deleted", 0, 5, 200, [], MediaNotFound("there is no such file"))

    bounds = RequestLimits(body_bytes_max=1 << 20, timeout_s=5, upload_bytes_max=1 << 30, upload_timeout_s=5)
    rest: list[Any] = [None, None, None, bounds, lambda *_: None]
    asked = InProcessRequest("GET", "/api/v1/file")
    run(Door(operations_of(Files()), *rest)(asked))
    assert asked.answer is not None
    assert asked.answer[0] == 404


def test_a_read_runs_while_its_remote_quota_is_checked(run: Run) -> None:
    feed = Feed()
    counted = Quotas(DistantQuotas(feed), {"feed": Quota(1, 60)})
    guard = SimpleNamespace(caller=lambda *_: Caller(False, 7, "7"), admit=lambda *_, **__: None)
    bounds = RequestLimits(body_bytes_max=1 << 20, timeout_s=5, upload_bytes_max=1 << 30, upload_timeout_s=5)
    rest: list[Any] = [guard, counted, None, bounds, lambda *_: None]
    door = Door(operations_of(feed), *rest)

    def status(query: str = "") -> int:
        feed.ended = ""
        asked = InProcessRequest("GET", f"/api/v1/feed?{query}")
        run(door(asked))
        assert asked.answer is not None
        return asked.answer[0]

    assert status("fails=true") == 400
    assert (status(), feed.ended) == (200, "read"), "a read that fails gives its quota back"
    assert (status(), feed.ended) == (429, "given up")
