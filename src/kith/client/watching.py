"""The stream of all changes (`/watch`), without I/O: what to request, how to parse it, when to reconnect.

As with the feed (`streams`), the stream resumes after a lost connection, so a loop over it sees every change once. If
it cannot resume, it raises an ApiError (TOKEN_TOO_OLD: the log no longer reaches back so far).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import httpx
import msgspec

from kith.client.answers import Id, Record
from kith.client.asking import checked_ids, several
from kith.client.reconnecting import Reconnecting
from kith.client.streams import SILENCE_S
from kith.client.wire import Call, Request, Session, unreadable

_PATH = "/api/v1/watch"
_PAUSE_S = 1.0


class Change(Record, frozen=True, kw_only=True):
    """A change. `token`: pass it as `after` to resume behind it. `fields`: all fields as the service sent them."""

    token: str
    kind: str
    at: datetime
    fields: dict[str, Any]


class EdgeChange(Change, frozen=True, kw_only=True):
    """A change of an edge, with the edge's new values. `before`: its previous state; None: there was no edge."""

    graph: str
    source: int
    destination: int
    state: str
    before: str | None
    position: int
    updated_at: int


class WatchStream:
    """A stream of changes over any number of connections."""

    kind = "application/x-ndjson"

    def __init__(
        self,
        session: Session,
        kinds: Iterable[str] | None,
        graphs: Iterable[str] | None,
        nodes: Iterable[Id] | None,
        after: str | None,
    ) -> None:
        ids = None if nodes is None else checked_ids(nodes, "nodes")
        filters = {"kinds": kinds, "graphs": graphs, "nodes": ids}
        self._params = {name: ",".join(several(values, name)) for name, values in filters.items() if values is not None}
        self._session, self._after = session, after
        self._reconnecting = Reconnecting(session)

    def request(self) -> Request:
        """The request that starts or resumes the stream."""
        params = self._params if self._after is None else {**self._params, "after": self._after}
        return self._session.request(Call("GET", _PATH, bytes, params, headers={"Accept": self.kind}))

    def timeout(self, timeout_s: float) -> httpx.Timeout:
        """See `streams.Stream`."""
        return httpx.Timeout(timeout_s, read=SILENCE_S)

    def pause_or_raise(self, outcome: httpx.Response | httpx.RequestError | None) -> float:
        """See `streams.Stream`."""
        return self._reconnecting.pause_or_raise(outcome, _PAUSE_S)

    def read(self, line: str) -> Change | None:
        """Parse one line; returns its change, or None for a line that only advances the token."""
        self._reconnecting.heard()
        try:
            fields = msgspec.json.decode(line, type=dict[str, Any])
            self._after = fields["token"]
            if fields["kind"] == "here":
                return None
            kind = EdgeChange if fields["kind"] == "edge" else Change
            return msgspec.convert({**fields, "fields": fields}, kind, strict=False)
        except (msgspec.DecodeError, msgspec.ValidationError, KeyError) as error:
            raise unreadable(f"GET {_PATH}: {error}") from error
