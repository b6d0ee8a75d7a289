"""Loads the types of `interface.thrift`, and converts calls and answers to and from bytes."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Any, NamedTuple

import thriftpy2
from thriftpy2.protocol import TCyBinaryProtocol
from thriftpy2.thrift import TApplicationException, TMessageType
from thriftpy2.transport import TCyMemoryBuffer

shapes: Any = thriftpy2.load(str(Path(__file__).with_name("interface.thrift")), module_name="kith_flockdb_thrift")
"""Structs, enums, the exception and the service, by their names in the file."""


class SelectOperation(enum.IntEnum):
    """SelectOperationType."""

    SIMPLE_QUERY = 1
    INTERSECTION = 2
    UNION = 3
    DIFFERENCE = 4


class ExecuteOperation(enum.IntEnum):
    """ExecuteOperationType."""

    ADD = 1
    REMOVE = 2
    ARCHIVE = 3
    NEGATE = 4


class Priority(enum.IntEnum):
    """How soon an operation is to be done."""

    LOW = 1
    MEDIUM = 2
    HIGH = 3


class ThriftCall(NamedTuple):
    """A call: its method, its sequence number, and its arguments by name; None if the method is unknown."""

    method: str
    sequence: int
    arguments: dict[str, Any] | None


def read_call(message: bytes) -> ThriftCall:
    """Decode a message that `messages.Inbound` found whole."""
    protocol = TCyBinaryProtocol(TCyMemoryBuffer(message), strict_read=False)
    method, kind, sequence = protocol.read_message_begin()
    if kind != TMessageType.CALL or method not in shapes.FlockDB.thrift_services:
        return ThriftCall(str(method), sequence, None)
    arguments = getattr(shapes.FlockDB, f"{method}_args")()
    protocol.read_struct(arguments)
    return ThriftCall(method, sequence, arguments.__dict__)


def write_result(call: ThriftCall, result: Any) -> bytes:
    """The answer to a call: a value of its type, None for a method without a result, or a FlockException."""
    answer = getattr(shapes.FlockDB, f"{call.method}_result")()
    if isinstance(result, shapes.FlockException):
        answer.ex = result
    elif result is not None:
        answer.success = result
    return _written(call, TMessageType.REPLY, answer)


def write_refusal(call: ThriftCall, kind: int, message: str) -> bytes:
    """The answer to a call that the interface does not have: a TApplicationException of this kind."""
    return _written(call, TMessageType.EXCEPTION, TApplicationException(kind, message))


def _written(call: ThriftCall, kind: int, body: Any) -> bytes:
    buffer = TCyMemoryBuffer()
    protocol = TCyBinaryProtocol(buffer)
    protocol.write_message_begin(call.method, kind, call.sequence)
    protocol.write_struct(body)
    return bytes(buffer.getvalue())
