"""Reads a stream in a thread, so that a test can wait for events."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from typing import Any, NamedTuple, Self

import httpx
from servers import API, Server, eventually


class StreamEvent(NamedTuple):
    """One event of a stream."""

    id: str
    name: str
    data: dict[str, Any]


class Listener:
    """One connection to /feed/stream. `heard`: the events so far. `last_id`: id of the last event or heartbeat."""

    def __init__(self, http: httpx.Client, last_id: str | None = None, **query: str) -> None:
        self.heard: list[StreamEvent] = []
        self.comments = 0
        self.last_id, self.ended, self.raw = last_id, False, 0
        headers = {} if last_id is None else {"Last-Event-ID": last_id}
        request = http.build_request("GET", f"{API}/feed/stream", params=query, headers=headers)
        self._response = http.send(request, stream=True)
        self.status = self._response.status_code
        self.headers = self._response.headers
        if self.status == 200:
            self._thread = threading.Thread(target=self._listen, daemon=True)
            self._thread.start()
            eventually(lambda: self.last_id is not None or self.ended)
            eventually(lambda: self.comments or self.ended)  # from now on it is sent events
        else:
            self._response.read()
            self.body = self._response.json()

    def _listen(self) -> None:
        fields: dict[str, str] = {}
        try:
            for line in self._response.iter_lines():
                name, _, value = line.partition(": ")
                if line == ":":
                    fields[""] = ""
                elif line:
                    fields[name] = value
                else:
                    self._take(fields)
                    fields = {}
        except (httpx.TransportError, httpx.StreamError):
            pass
        self.ended = True

    def _take(self, fields: dict[str, str]) -> None:
        if "event" in fields:
            self.heard.append(StreamEvent(fields["id"], fields["event"], json.loads(fields["data"])))
        self.last_id = fields.get("id", self.last_id)
        self.comments += "" in fields

    def names(self) -> list[str]:
        """The names of the events so far."""
        return [heard.name for heard in self.heard]

    def posts(self, name: str = "new_post") -> list[str]:
        """The post ids of the events of this name."""
        return [heard.data["postId"] for heard in self.heard if heard.name == name]

    def wait(self, name: str, post: str | None = None, seconds: float = 10.0, **fields: Any) -> StreamEvent:
        """Wait for the first event with this name, post and fields; returns it."""

        def found() -> StreamEvent | None:
            wanted = fields if post is None else fields | {"postId": post}
            like = (heard for heard in self.heard if heard.name == name and wanted.items() <= heard.data.items())
            return next(like, None)

        try:
            return eventually(found, seconds)  # type: ignore[no-any-return]
        except AssertionError:
            raise AssertionError(f"no {name} {post} {fields} in {self.heard}; ended: {self.ended}") from None

    def close(self) -> None:
        """Close the connection, even while the thread waits for data."""
        line = self._response.extensions["network_stream"].get_extra_info("socket")
        with contextlib.suppress(OSError):
            line.shutdown(socket.SHUT_RDWR)
        self._response.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def publish(server: Server, author: int, text: str = "hello", **fields: Any) -> str:
    """Create a post; returns its id."""
    with server.client(acting=author) as http:
        answer = http.post(f"{API}/posts", json={"content": {"text": text}, **fields})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])
