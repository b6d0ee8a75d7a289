"""Reads /watch in a thread."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from typing import Any

import httpx
from servers import API, eventually

LINES = {"Accept": "application/x-ndjson"}


class WatchReader:
    """One connection to /watch. `changes`: the changes so far. `token`: of the last line."""

    def __init__(self, http: httpx.Client, after: str | None = None, **asked: str) -> None:
        params = {**asked, **({} if after is None else {"after": after})}
        self._response = http.send(http.build_request("GET", f"{API}/watch", params=params, headers=LINES), stream=True)
        assert self._response.status_code == 200, self._response.read()
        self.changes: list[dict[str, Any]] = []
        self.token: str | None = after
        self.begun = self.ended = False
        threading.Thread(target=self._read, daemon=True).start()
        eventually(lambda: self.begun or self.ended)

    def _read(self) -> None:
        try:
            for line in self._response.iter_lines():
                said = json.loads(line)
                self.token = said["token"]
                if said["kind"] != "here":
                    self.changes.append(said)
                self.begun = True
        except (httpx.TransportError, httpx.StreamError):
            pass
        self.ended = True

    def close(self) -> None:
        """Close the connection, even while the thread waits for data."""
        with contextlib.suppress(OSError):
            self._response.extensions["network_stream"].get_extra_info("socket").shutdown(socket.SHUT_RDWR)
