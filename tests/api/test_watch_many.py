"""Many watchers over HTTP, half of which stop reading: they do not slow the others, and miss nothing themselves."""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path
from typing import Any

from calls import add_edges
from coroutines import run_coroutine
from servers import API, KEY, Server, serving

_WATCHERS, _CHANGES, _A_REQUEST = 100, 2_000, 500
_BUFFER_BYTES = 1 << 16
_LIMIT_S = 60.0


class Reader:
    """A connection that watches, and what it received."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self.told: list[int] = []
        self.token = ""

    @classmethod
    async def opened(cls, server: Server, after: str = "") -> Reader:
        """Watch follows, from now on or after a token, with a small receive buffer."""
        plain = socket.socket()
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        plain.connect(("127.0.0.1", server.port))
        reader, writer = await asyncio.open_connection(sock=plain, limit=4_096)
        path = f"{API}/watch?kinds=edge" + (f"&after={after}" if after else "")
        head = f"GET {path} HTTP/1.1\r\nHost: x\r\nAccept: application/x-ndjson\r\nAuthorization: Bearer {KEY}\r\n\r\n"
        writer.write(head.encode())
        opened = cls(reader, writer)
        while not opened.token:
            opened._take(await reader.readline())
        return opened

    async def read(self, changes: int) -> None:
        """Read until `changes` changes arrived, or the connection ended."""
        while len(self.told) < changes:
            try:
                line = await self._reader.readline()
            except ConnectionError:
                return
            if not line.endswith(b"\n"):
                return
            self._take(line)

    def _take(self, line: bytes) -> None:
        """Handle a line of the answer: head, chunk size, or change."""
        if line.startswith(b"{"):
            change: dict[str, Any] = json.loads(line)
            self.token = change["token"]
            if change["kind"] == "edge":
                self.told.append(int(change["destination"]))

    def close(self) -> None:
        """Close the connection."""
        self._writer.close()


def test_half_of_many_watchers_stop_reading_and_none_misses_a_change(tmp_path: Path) -> None:
    with serving(tmp_path, KITH_STREAM_BUFFER_BYTES=str(_BUFFER_BYTES)) as server:
        run_coroutine(asyncio.wait_for(_scene(server), _LIMIT_S))


async def _scene(server: Server) -> None:
    watchers = [await Reader.opened(server) for _ in range(_WATCHERS)]
    reading, stopped = watchers[::2], watchers[1::2]
    all_told = asyncio.gather(*(_all_told(server, one) for one in reading))
    await asyncio.to_thread(_write, server)
    everything = list(range(_CHANGES))
    assert all(told == everything for told in await all_told)
    for one in stopped:
        assert await _all_told(server, one) == everything


async def _all_told(server: Server, one: Reader) -> list[int]:
    """Receive every change, over as many connections as needed. A watcher that does not read is cut off, and
    reconnects.
    """
    told: list[int] = []
    while True:
        await one.read(_CHANGES - len(told))
        told += one.told
        one.close()
        if len(told) >= _CHANGES:
            return told
        one = await Reader.opened(server, one.token)


def _write(server: Server) -> None:
    with server.client() as http:
        for first in range(0, _CHANGES, _A_REQUEST):
            add_edges(http, "follows", *((1_000_000, number) for number in range(first, first + _A_REQUEST)))
