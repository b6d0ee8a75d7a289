"""A small HTTP/2 server over TLS that answers, stays silent, resets streams or sends GOAWAY, as a test sets."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Literal, NamedTuple

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings

Say = int | Literal["nothing", "reset", "refused", "endless", "goaway before", "goaway after", "hang up"]
"""What the server does with a request: answer a status; send nothing; reset the stream; refuse it unprocessed; send a
body without end; send GOAWAY before or after it processed the request; or close the connection.
"""


class Http2Request(NamedTuple):
    """One request. `connection`: the number of its connection, from 1."""

    path: str
    body: bytes
    connection: int


class Http2Server:
    """`say`: decides what it does with a request. `streams_max`: the most concurrent requests of a connection."""

    def __init__(self) -> None:
        self.got: list[Http2Request] = []
        self.say: Callable[[Http2Request], Say] = lambda _: 200
        self.connections = self.port = 0
        self.streams_max: int | None = None
        self._endless = set[int]()

    async def serve(self, reading: asyncio.StreamReader, writing: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        self.connections += 1
        number, paths, bodies = self.connections, dict[int, str](), dict[int, bytes]()
        connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8"))
        connection.initiate_connection()
        if self.streams_max is not None:
            connection.update_settings({h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: self.streams_max})
        writing.write(connection.data_to_send())
        try:
            while data := await reading.read(65_536):
                for event in connection.receive_data(data):
                    if isinstance(event, h2.events.RequestReceived):
                        paths[event.stream_id] = dict(event.headers)[":path"]
                    elif isinstance(event, h2.events.DataReceived):
                        bodies[event.stream_id] = bodies.get(event.stream_id, b"") + event.data
                        connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                    elif isinstance(event, h2.events.WindowUpdated) and event.stream_id in self._endless:
                        _send_on(connection, event.stream_id)
                    elif isinstance(event, h2.events.StreamEnded):
                        at = event.stream_id
                        if self._answer(connection, at, Http2Request(paths[at], bodies.get(at, b""), number)):
                            return
                writing.write(connection.data_to_send())
        except (ConnectionError, ssl.SSLError):
            pass
        finally:
            writing.write(connection.data_to_send())
            writing.close()

    def _answer(self, connection: h2.connection.H2Connection, stream: int, got: Http2Request) -> bool:
        """Do with a request what `say` returns. Returns whether to close the connection."""
        said = self.say(got)
        if said == "goaway before":
            connection.close_connection(last_stream_id=stream - 2)
            return True
        self.got.append(got)
        if isinstance(said, int):
            connection.send_headers(stream, [(":status", str(said))], end_stream=True)
        elif said in ("reset", "refused"):
            codes = h2.errors.ErrorCodes
            connection.reset_stream(stream, codes.REFUSED_STREAM if said == "refused" else codes.INTERNAL_ERROR)
        elif said == "endless":
            self._endless.add(stream)
            connection.send_headers(stream, [(":status", "200")])
            _send_on(connection, stream)
        elif said == "goaway after":
            connection.send_headers(stream, [(":status", "200")], end_stream=True)
            connection.close_connection(last_stream_id=stream)
            return True
        return said == "hang up"


def _send_on(connection: h2.connection.H2Connection, stream: int) -> None:
    """Send as much of an endless body as flow control allows."""
    with contextlib.suppress(h2.exceptions.StreamClosedError):
        while size := min(connection.local_flow_control_window(stream), connection.max_outbound_frame_size):
            connection.send_data(stream, b"x" * size)


@asynccontextmanager
async def http2_server(tls: ssl.SSLContext) -> AsyncIterator[Http2Server]:
    """Run a server on this machine that speaks only HTTP/2."""
    tls.set_alpn_protocols(["h2"])
    running = Http2Server()
    server = await asyncio.start_server(running.serve, "127.0.0.1", 0, ssl=tls)
    running.port = server.sockets[0].getsockname()[1]
    try:
        yield running
    finally:
        server.close()
