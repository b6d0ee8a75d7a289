"""Finds messages of Thrift's binary protocol in untrusted bytes, before they are decoded.

    buffered    message | message | ...
    framed      length i32 | message | length i32 | message | ...
    message     0x8001 u16 | 0 | kind u8 | name | sequence i32 | struct
                or, older: name | kind u8 | sequence i32 | struct
    name        length i32 | bytes

The first bytes tell framed from buffered. Each byte is checked once, as it arrives: lengths, types, depth and the
number of values. So the decoder never reads past the end, and no message takes long.

An invalid message costs only that message if the start of the next one is known: after a frame, and after a message
that is only nested too deep. Otherwise nothing that follows can be read.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

MESSAGE_BYTES_MAX = 4 << 20
"""Most bytes of a message: some 500,000 ids. A larger one is refused."""
VALUES_MAX = 200_000
"""Most values of a message that are checked one by one: some 20,000 operations of `execute`."""
DEPTH_MAX = 16
"""Most levels of nested structs and lists; the deepest in the interface has 6."""
NAME_BYTES_MAX = 100

_I32 = struct.Struct(">i")
_STOP, _STRING, _STRUCT, _MAP, _SET, _LIST = 0, 11, 12, 13, 14, 15
_FIXED = {2: 1, 3: 1, 4: 8, 6: 2, 8: 4, 10: 8}  # bool, byte, double, i16, i32, i64
_FIELD_HEAD_BYTES = 3
_VERSION_MASK, _VERSION_1 = 0xFFFF0000, 0x80010000


class Head(NamedTuple):
    """The method and sequence number at the start of a message."""

    method: str = ""
    sequence: int = 0


class Malformed(Exception):
    """A message that cannot be read. `head`: its head, as far as it arrived."""

    def __init__(self, message: str, head: Head) -> None:
        super().__init__(message)
        self.head = head


class _NotThrift(Exception):
    """These bytes are not a message of the protocol."""


class _Incomplete(Exception):
    """The bytes end before the message does."""


class _OpenContainer:
    """A struct, list or map whose end has not arrived: the types of its items (empty: a struct), and how many
    are left.
    """

    def __init__(self, kinds: tuple[int, ...] = (), length: int = 0) -> None:
        self.kinds, self.values_left, self.turn = kinds, length * len(kinds), 0


class Inbound:
    """The bytes that one client has sent and that were not taken yet."""

    def __init__(self) -> None:
        self.framed: bool | None = None  # None: too few bytes to tell
        self.ended = False  # nothing that arrives can be read any more
        self._data = bytearray()
        self._skipped = 0  # bytes still to arrive of a refused frame
        self._begin()

    def feed(self, data: bytes) -> None:
        """Add bytes from the client."""
        self._data += data

    def take(self) -> bytes | None:
        """The next whole message; None if it has not arrived, or nothing more can be read. Malformed."""
        if self.framed is None:
            self.framed = self._tell_framed()
        if self.framed is None or self.ended:
            return None
        skipped = min(self._skipped, len(self._data))
        del self._data[:skipped]
        self._skipped -= skipped
        try:
            if self.framed:
                return self._take_framed()
            self._scan(len(self._data))
        except _Incomplete:
            if self.framed or len(self._data) <= MESSAGE_BYTES_MAX:
                return None
            wrong = f"a message may have {MESSAGE_BYTES_MAX} bytes at most"
        except _NotThrift as error:
            wrong = str(error)
        else:
            return self._take_message(0, self._position, self._position)
        self.ended = True
        raise Malformed(wrong, self._head(0))

    def _tell_framed(self) -> bool | None:
        """The first number is a version (buffered; negative), the length of a frame, or the length of an older name.

        Then comes a version or the length of a name. Letters read as a length are too large for one.
        """
        if len(self._data) < 2 * _I32.size:
            return None
        first, second = (self._int(position, len(self._data)) for position in (0, _I32.size))
        return first >= 0 and second <= NAME_BYTES_MAX

    def _take_framed(self) -> bytes:
        length = self._int(0, len(self._data))
        if length < 0:
            raise _NotThrift(f"a frame has {length} bytes")
        end = _I32.size + length
        if length > MESSAGE_BYTES_MAX:
            self._skipped = end
            raise Malformed(f"a frame may have {MESSAGE_BYTES_MAX} bytes, this one says {length}", Head())
        if len(self._data) < end:
            raise _Incomplete
        self._position = _I32.size
        try:
            self._scan(end)
        except (_Incomplete, _NotThrift) as error:
            head = self._head(_I32.size)
            del self._data[:end]
            self._begin()
            raise Malformed(str(error) or "a frame ends in the middle of its message", head) from None
        return self._take_message(_I32.size, self._position, end)

    def _take_message(self, start: int, end: int, rest_start: int) -> bytes:
        head = self._head(start) if self._is_deep else None
        message = bytes(memoryview(self._data)[start:end])
        del self._data[:rest_start]
        self._begin()
        if head is not None:
            raise Malformed(f"a message may be nested {DEPTH_MAX} levels deep at most", head)
        return message

    def _begin(self) -> None:
        self._position, self._values_left = 0, VALUES_MAX
        self._has_head = self._is_deep = False
        self._open: list[_OpenContainer] = []

    def _scan(self, end: int) -> None:
        """Continue to the end of the message. On _Incomplete it resumes later without checking anything twice."""
        if not self._has_head:
            self._position = self._head_end(end)
            self._open, self._has_head = [_OpenContainer()], True
        while self._open:
            top = self._open[-1]
            if not top.kinds:
                self._field(end)
            elif not top.values_left:
                self._open.pop()
            else:
                kind = top.kinds[top.turn]
                self._value(kind, self._position, end)
                top.values_left -= 1
                top.turn = (top.turn + 1) % len(top.kinds)

    def _head(self, start: int) -> Head:
        """The head of the message that starts there, if it has arrived."""
        if not self._has_head:
            return Head()
        versioned = self._int(start, len(self._data)) < 0
        start += 2 * _I32.size if versioned else _I32.size
        name_end = start + self._int(start - _I32.size, len(self._data))
        sequence = self._int(name_end + (not versioned), len(self._data))
        return Head(self._data[start:name_end].decode(errors="replace"), sequence)

    def _head_end(self, end: int) -> int:
        first = self._int(self._position, end)
        position = self._position
        if first < 0:
            if first & _VERSION_MASK != _VERSION_1:
                raise _NotThrift("this is not Thrift's binary protocol")
            position += _I32.size
        name = self._int(position, end)
        if not 0 <= name <= NAME_BYTES_MAX:
            raise _NotThrift(f"the name of a method may have {NAME_BYTES_MAX} bytes at most")
        position += _I32.size + name + _I32.size + (first >= 0)
        if position > end:
            raise _Incomplete
        return position

    def _field(self, end: int) -> None:
        if self._position >= end:
            raise _Incomplete
        kind = self._data[self._position]
        if kind == _STOP:
            self._position += 1
            self._open.pop()
        else:
            self._value(kind, self._position + _FIELD_HEAD_BYTES, end)

    def _value(self, kind: int, position: int, end: int) -> None:
        """Skip a value, or enter it."""
        entered = None
        if kind in _FIXED:
            position += _FIXED[kind]
        elif kind == _STRING:
            position += _I32.size + self._length(position, end)
        elif kind == _STRUCT:
            entered = _OpenContainer()
        elif kind in (_LIST, _SET, _MAP):
            kinds = tuple(self._data[position : position + (2 if kind == _MAP else 1)])
            position += len(kinds)
            length = self._length(position, end)
            position += _I32.size
            if all(kind in _FIXED for kind in kinds):
                position += length * sum(_FIXED[kind] for kind in kinds)
            else:
                entered = _OpenContainer(kinds, length)
        else:
            raise _NotThrift(f"there is no type {kind}")
        if position > end:
            raise _Incomplete
        self._values_left -= 1
        if not self._values_left:
            raise _NotThrift(f"a message may have {VALUES_MAX} values at most, beside packed ids; send several")
        self._position = position
        if entered:
            self._is_deep |= len(self._open) == DEPTH_MAX
            self._open.append(entered)

    def _int(self, position: int, end: int) -> int:
        if position + _I32.size > end:
            raise _Incomplete
        return int(_I32.unpack_from(self._data, position)[0])

    def _length(self, position: int, end: int) -> int:
        length = self._int(position, end)
        if not 0 <= length <= MESSAGE_BYTES_MAX:
            raise _NotThrift(f"a length of {length} is out of bounds")
        return length
