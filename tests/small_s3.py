"""A small S3 server in this process, for tests of files in a bucket.

It supports put, get, delete (one and many), list, and multipart uploads. A get must be signed; signatures are not
verified.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

_WHEN, _MODIFIED = "2024-01-01T00:00:00.000Z", "Mon, 01 Jan 2024 00:00:00 GMT"


class SmallS3(ThreadingHTTPServer):
    """A server with one bucket. `files`: key to (bytes, headers). `broken`: answers 500 to all requests.

    `breaks_after`: the number of requests after which it is broken; None: never.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: dict[str, tuple[bytes, dict[str, str]]] = {}
        self.parts: dict[str, dict[int, bytes]] = {}
        self.heads: dict[str, dict[str, str]] = {}
        self.broken = False
        self.breaks_after: int | None = None

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables that make a client use this server."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.server_address[1]}",
            "AWS_ACCESS_KEY_ID": "key-of-the-tests",
            "AWS_SECRET_ACCESS_KEY": "secret-of-the-tests",
            "AWS_REGION": "us-east-1",
        }


class _Handler(BaseHTTPRequestHandler):
    server: SmallS3
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None: ...

    def do_PUT(self) -> None:
        key, query, body = self._asked()
        if self.server.broken:
            self._answer(500)
        elif "partNumber" in query:
            self.server.parts[query["uploadId"][0]][int(query["partNumber"][0])] = body
        else:
            self.server.files[key] = body, self._kept()
        self._answer(200, headers={"ETag": '"x"'})

    def do_POST(self) -> None:
        key, query, body = self._asked()
        if "uploads" in query:
            self.server.parts[key], self.server.heads[key] = {}, self._kept()
            self._answer(200, f"<InitiateMultipartUploadResult><UploadId>{escape(key)}</UploadId>"
                              "</InitiateMultipartUploadResult>")  # fmt: skip
        elif "delete" in query:
            names = re.findall(r"<Key>(.*?)</Key>", body.decode())
            for name in names:
                self.server.files.pop(name, None)
            rows = "".join(f"<Deleted><Key>{name}</Key></Deleted>" for name in names)
            self._answer(200, f"<DeleteResult>{rows}</DeleteResult>")
        else:
            whole = b"".join(data for _, data in sorted(self.server.parts.pop(key).items()))
            self.server.files[key] = whole, self.server.heads.pop(key)
            self._answer(200, "<CompleteMultipartUploadResult><ETag>x</ETag></CompleteMultipartUploadResult>")

    def do_GET(self) -> None:
        key, query, _ = self._asked()
        if "list-type" in query:
            prefix = query.get("prefix", [""])[0]
            rows = "".join(
                f"<Contents><Key>{escape(name)}</Key><LastModified>{_WHEN}</LastModified><ETag>x</ETag>"
                f"<Size>{len(data)}</Size></Contents>"
                for name, (data, _) in sorted(self.server.files.items())
                if name.startswith(prefix)
            )
            self._answer(200, f"<ListBucketResult><IsTruncated>false</IsTruncated>{rows}</ListBucketResult>")
        elif key in self.server.files and ("X-Amz-Signature" in query or "Authorization" in self.headers):
            data, headers = self.server.files[key]
            self._answer(200, data, {**headers, "Last-Modified": _MODIFIED, "ETag": '"x"'})
        else:
            self._answer(404)

    def do_DELETE(self) -> None:
        key, _, _ = self._asked()
        self.server.files.pop(key, None)
        self._answer(204)

    def _asked(self) -> tuple[str, dict[str, list[str]], bytes]:
        """Key, query and body of a request."""
        if self.server.breaks_after is not None:
            self.server.breaks_after -= 1
            self.server.broken = self.server.breaks_after < 0
        parts = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        return unquote(parts.path).split("/", 2)[-1], parse_qs(parts.query, keep_blank_values=True), body

    def _kept(self) -> dict[str, str]:
        names = ("Content-Type", "Cache-Control", "Content-Disposition")
        return {name: self.headers[name] for name in names if name in self.headers}

    def _answer(self, status: int, body: str | bytes = b"", headers: dict[str, str] | None = None) -> None:
        data = body.encode() if isinstance(body, str) else body
        self.send_response(500 if self.server.broken else status)
        for name, value in {**(headers or {}), "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)


@contextmanager
def small_s3() -> Iterator[SmallS3]:
    """Run a server."""
    with SmallS3() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
