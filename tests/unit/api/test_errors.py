"""What clients are told of errors: nothing that only operators are to know."""

from __future__ import annotations

import msgspec
from structlog.testing import capture_logs

from kith.api.errors import respond
from kith.core.errors import StoreUnavailable
from kith.engines.cassandra.connecting import _unavailable
from kith.engines.redis.script import _ours


def test_what_a_driver_said_stands_in_the_log_and_in_no_answer() -> None:
    said = "timeout from /10.0.0.7:9042"
    for error in (_unavailable("ask", RuntimeError(said)), _ours(ConnectionError(said))):
        assert isinstance(error, StoreUnavailable)
        with capture_logs() as logged:
            status, _, body = respond(error)
        assert (status, msgspec.json.decode(body)["error"]["code"]) == (503, "STORE_UNAVAILABLE")
        assert b"10.0.0.7" not in body
        assert said in logged[0]["error"]


def test_what_says_all_itself_is_told_as_it_is() -> None:
    with capture_logs() as logged:
        _, _, body = respond(StoreUnavailable("the store is closing; repeat the request on another instance"))
    assert b"the store is closing" in body
    assert logged == []
