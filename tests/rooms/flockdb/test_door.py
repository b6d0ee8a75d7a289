"""Real Thrift clients at a real socket: two libraries, both transports, and clients that send nonsense."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any

import pytest
import thriftpy2.rpc
from flockdb_client import message, page, read_answer, selected, simple
from servers import eventually
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TMessageType, TType
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TFramedTransport
from thriftpy2.protocol import TCyBinaryProtocolFactory
from thriftpy2.transport import TCyBufferedTransportFactory, TCyFramedTransportFactory

from kith.flockdb.door import ThriftDoor
from kith.flockdb.interface import shapes

from .conftest import Service

TERM = shapes.QueryTerm(source_id=1, graph_id=1, is_forward=True, destination_ids=struct.pack("<3q", 7, 8, 9))
ADDING = shapes.ExecuteOperations(operations=[shapes.ExecuteOperation(operation_type=1, term=TERM)], priority=3)


async def stopped(server: asyncio.Server, door: ThriftDoor) -> None:
    server.close()
    await door.close()


@contextmanager
def listening(service: Service, **limits: Any) -> Iterator[int]:
    """The port of a door that a loop serves in a thread, while the test's own thread is a client."""
    door = ThriftDoor(service.calls, **limits)
    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(door.listen(socket.create_server(("127.0.0.1", 0))))
    thread = Thread(target=loop.run_forever)
    thread.start()
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        asyncio.run_coroutine_threadsafe(stopped(server, door), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@pytest.mark.parametrize("transport", [TCyBufferedTransportFactory, TCyFramedTransportFactory])
def test_a_client_by_thriftpy2_works_on_both_transports(service: Service, transport: Callable[[], Any]) -> None:
    with listening(service) as port:
        client = thriftpy2.rpc.make_client(
            shapes.FlockDB,
            "127.0.0.1",
            port,
            proto_factory=TCyBinaryProtocolFactory(decode_response=False),
            trans_factory=transport(),
        )
        client.execute(ADDING)
        assert client.contains(1, 1, 8)
        assert client.get(1, 1, 8).destination_id == 8
        (rows,) = client.select2([shapes.SelectQuery(operations=[simple(1)], page=page(10))])
        assert selected(rows).ids == [9, 8, 7]
        assert client.count([simple(1)]) == 3
        assert client.get_metadata(1, 1).count == 3
        with pytest.raises(shapes.FlockException):
            client.get(1, 1, 99)
        assert client.contains(1, 1, 9), "the connection survives an error"
        client.close()


@pytest.mark.parametrize("transport", [TBufferedTransport, TFramedTransport])
@pytest.mark.parametrize("strict", [True, False], ids=["version", "no version"])
def test_a_client_by_apache_thrift_works_on_both_transports(
    service: Service, transport: Callable[[Any], Any], strict: bool
) -> None:
    with listening(service) as port:
        connection = transport(TSocket("127.0.0.1", port))
        connection.open()
        protocol = TBinaryProtocol(connection, strictWrite=strict)
        for destination, expected in ((8, False), (9, False)):
            protocol.writeMessageBegin("contains", TMessageType.CALL, destination)
            protocol.writeStructBegin("contains_args")
            for number, kind, value in ((1, TType.I64, 1), (2, TType.I32, 1), (3, TType.I64, destination)):
                protocol.writeFieldBegin("", kind, number)
                (protocol.writeI64 if kind == TType.I64 else protocol.writeI32)(value)
                protocol.writeFieldEnd()
            protocol.writeFieldStop()
            protocol.writeStructEnd()
            protocol.writeMessageEnd()
            connection.flush()
            assert protocol.readMessageBegin() == ("contains", TMessageType.REPLY, destination)
            protocol.readStructBegin()
            assert protocol.readFieldBegin()[1:] == (TType.BOOL, 0)
            assert protocol.readBool() is expected
            protocol.readFieldEnd()
            assert protocol.readFieldBegin()[1] == TType.STOP
            protocol.readMessageEnd()
        connection.close()


class Raw:
    """A connection of bytes."""

    def __init__(self, port: int) -> None:
        self.socket = TSocket("127.0.0.1", port)
        self.socket.open()

    def ask(self, raw: bytes) -> bytes:
        """Send bytes; return the first bytes that come back, b"" if the connection was closed."""
        self.socket.handle.settimeout(20)
        self.socket.handle.sendall(raw)
        return bytes(self.socket.handle.recv(65_536))


CALL = message("contains", source_id=1, graph_id=1, destination_id=2)
DEEP = struct.pack(">I", 0x80010001) + struct.pack(">i", 3) + b"get" + bytes(4) + b"\x0c\0\1" * 1_000 + bytes(1_001)


def framed(raw: bytes, length: int | None = None) -> bytes:
    return struct.pack(">i", len(raw) if length is None else length) + raw


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (CALL[:-1] + b"\x63\0\1", "no type 99"),
        (b"GET / HTTP/1.1\r\n\r\n", "name of a method"),
        (CALL[:-1] + (b"\x0b\0\5" + struct.pack(">i", 2_000_000) + bytes(2_000_000)) * 3, "bytes at most"),
    ],
    ids=["altered", "http", "endless"],
)
def test_nonsense_is_answered_and_closes_its_connection_and_no_other(service: Service, raw: bytes, why: str) -> None:
    with listening(service) as port:
        good, bad = Raw(port), Raw(port)
        assert read_answer("contains", good.ask(CALL)) is False
        with pytest.raises(RuntimeError, match=why):
            read_answer("contains", bad.ask(raw))
        assert bad.ask(b"") == b""
        assert read_answer("contains", good.ask(CALL)) is False


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (DEEP, "levels deep"),
        (framed(DEEP), "levels deep"),
        (framed(CALL[:-5]), "in the middle of its message"),
        (framed(bytes(5_000_000)), "a frame may have"),
    ],
    ids=["nested", "nested in a frame", "cut", "oversized"],
)
def test_a_refused_message_is_answered_and_the_connection_lives(service: Service, raw: bytes, why: str) -> None:
    in_frames, good = raw[0] == 0, CALL if raw[0] else framed(CALL)
    with listening(service) as port:
        client = Raw(port)
        for sent, refused in ((good, False), (raw, True), (good, False)):
            answer = client.ask(sent)[4 if in_frames else 0 :]
            if refused:
                with pytest.raises(RuntimeError, match=why):
                    read_answer("contains", answer)
            else:
                assert read_answer("contains", answer) is False


def test_unknown_methods_and_wrong_types_are_answered_and_the_connection_lives(service: Service) -> None:
    with listening(service) as port:
        client = Raw(port)
        call = CALL
        unknown = call.replace(b"contains", b"explodes")
        with pytest.raises(RuntimeError, match="explodes"):
            read_answer("contains", client.ask(unknown))
        wrong = (
            call[:-1].replace(b"\x0a\0\1" + struct.pack(">q", 1), b"\x0b\0\1" + struct.pack(">i", 2) + b"hi") + b"\0"
        )
        with pytest.raises(shapes.FlockException, match="source_id"):
            read_answer("contains", client.ask(wrong))
        assert read_answer("contains", client.ask(call)) is False


def test_an_idle_connection_and_one_beyond_the_limit_are_closed(service: Service) -> None:
    with listening(service, idle_s=0.05, connections_max=1) as port:
        first = Raw(port)
        second = Raw(port)
        assert second.ask(b"") == b""
        assert first.ask(b"") == b""


def test_a_client_that_takes_no_answers_is_disconnected(service: Service) -> None:
    unknown = struct.pack(">Ii", 0x80010001, 90) + b"x" * 90 + bytes(5)  # its answer names it, so it is long
    with listening(service, idle_s=0.2, connections_max=1) as port, socket.socket() as stuck:
        stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        stuck.settimeout(20)
        stuck.connect(("127.0.0.1", port))
        with pytest.raises(ConnectionError):
            stuck.sendall(unknown * 200_000)
        eventually(lambda: Raw(port).ask(CALL))
