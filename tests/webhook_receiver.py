"""An app's endpoint for webhooks. It records requests, and answers as a test sets."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Delivery(NamedTuple):
    """One request. `path`: with the query."""

    path: str
    headers: dict[str, str]  # by lower-case names
    body: bytes

    @property
    def payload(self) -> dict[str, Any]:
        return dict(json.loads(self.body))

    @property
    def changes(self) -> list[dict[str, Any]]:
        return list(self.payload["changes"])


class Answer(NamedTuple):
    """`hangs`: no answer until the endpoint closes. `cut`: the connection closes before the last byte of the body."""

    status: int = 200
    headers: dict[str, str] = {}  # noqa: RUF012
    body: bytes = b""
    hangs: bool = False
    cut: bool = False


class _Server(ThreadingHTTPServer):
    request_queue_size = 512  # with the default of 5, concurrent connections are dropped, and retry after 1 s and 3 s


class Endpoint:
    """A running endpoint. `answer`: decides the answer to a request."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.got: list[Delivery] = []
        self.answer: Callable[[Delivery], Answer] = lambda _: Answer()
        self.ending = threading.Event()
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                delivery = Delivery(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
                answer = endpoint.answer(delivery)
                endpoint.got.append(delivery)
                if answer.hangs:
                    endpoint.ending.wait()
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer.body) + answer.cut))
                self.end_headers()
                self.wfile.write(answer.body)
                self.close_connection = answer.cut or answer.hangs

            do_GET = do_POST

            def log_message(self, *_: object) -> None:
                """Print nothing."""

        self._server = _Server(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]  # clients may hang up
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.port = int(self._server.server_address[1])
        self.url = f"http://127.0.0.1:{self.port}/hook"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        """Close the endpoint, and requests that hang."""
        self.ending.set()
        self._server.shutdown()
        self._server.server_close()

    @property
    def taken(self) -> list[dict[str, Any]]:
        """The changes that were answered 2xx, in order of arrival."""
        return [change for one in list(self.got) if self.answer(one).status < 300 for change in one.changes]


@contextmanager
def endpoint(tls: ssl.SSLContext | None = None) -> Iterator[Endpoint]:
    """Run an endpoint. It answers 200 until a test sets `answer`."""
    running = Endpoint(tls)
    try:
        yield running
    finally:
        running.close()
