"""Error answers keep details for operators away from clients."""

from __future__ import annotations

import msgspec
from structlog.testing import capture_logs

from kith.api.errors import respond
from kith.core.errors import StoreUnavailable
from kith.engines.cassandra.connecting import _unavailable
from kith.engines.redis.script import _kith_error


def test_a_drivers_error_text_is_logged_and_not_sent_to_clients() -> None:
    said = "timeout from /10.0.0.7:9042"
    for error in (_unavailable("ask", RuntimeError(said)), _kith_error(ConnectionError(said))):
        assert isinstance(error, StoreUnavailable)
        with capture_logs() as logged:
            status, _, body = respond(error)
        assert (status, msgspec.json.decode(body)["error"]["code"]) == (503, "STORE_UNAVAILABLE")
        assert b"10.0.0.7" not in body
        assert said in logged[0]["error"]


def test_an_error_without_hidden_details_is_sent_as_it_is_and_not_logged() -> None:
    with capture_logs() as logged:
        _, _, body = respond(StoreUnavailable("the store is closing; repeat the request on another instance"))
    assert b"the store is closing" in body
    assert logged == []
