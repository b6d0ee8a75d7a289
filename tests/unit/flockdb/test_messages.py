"""Thrift messages are reassembled from any pieces, and malformed ones are refused before decoding."""

from __future__ import annotations

import random
import struct

import pytest
from flockdb_client import message, simple, term

from kith.flockdb.interface import read_call, shapes
from kith.flockdb.messages import DEPTH_MAX, MESSAGE_BYTES_MAX, VALUES_MAX, Inbound, Malformed

CONTAINS = message("contains", source_id=1, graph_id=2, destination_id=3)
OLDER = message("contains", strict=False, source_id=1, graph_id=2, destination_id=3)
SELECT = message(
    "select2",
    queries=[shapes.SelectQuery(operations=[simple(1, states=[0, 1])] * 3, page=shapes.Page(count=1, cursor=-1))],
)
EXECUTE = message(
    "execute",
    operations=shapes.ExecuteOperations(
        operations=[shapes.ExecuteOperation(operation_type=1, term=term(1, others=range(50)), position=5)] * 4,
        priority=3,
    ),
)
DEEP = b"\x0c\0\1" * 1_000 + b"\0" * 1_001
HEAD = struct.pack(">I", 0x80010001) + struct.pack(">i", 3) + b"get" + struct.pack(">i", 1)


def framed(*messages: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(raw)) + raw for raw in messages)


def buffered(*messages: bytes) -> bytes:
    return b"".join(messages)


def taken(inbound: Inbound) -> list[bytes]:
    found = []
    while (raw := inbound.take()) is not None:
        found.append(raw)
    return found


@pytest.mark.parametrize("written", [framed, buffered])
@pytest.mark.parametrize("first", [CONTAINS, OLDER, SELECT], ids=["contains", "older", "select2"])
def test_messages_are_reassembled_from_pieces_of_any_size(written: object, first: bytes) -> None:
    messages = [first, SELECT, EXECUTE, OLDER, CONTAINS, EXECUTE]
    raw = framed(*messages) if written is framed else buffered(*messages)
    rng = random.Random(4)
    for most in (1, 7, 100, len(raw)):
        inbound, found, at = Inbound(), list[bytes](), 0
        while at < len(raw):
            piece = raw[at : at + rng.randint(1, most)]
            inbound.feed(piece)
            found += taken(inbound)
            at += len(piece)
        assert found == messages
        assert inbound.framed is (written is framed)


def test_the_longest_frame_is_accepted_though_its_last_bytes_come_late() -> None:
    rest = len(message("counts_of_destinations_for", source_ids=b"", graph_id=1))
    longest = message("counts_of_destinations_for", source_ids=bytes(MESSAGE_BYTES_MAX - rest), graph_id=1)
    raw, inbound = framed(longest), Inbound()
    inbound.feed(raw[:-2])
    assert inbound.take() is None
    inbound.feed(raw[-2:])
    assert inbound.take() == longest


def test_altered_bytes_are_refused_or_decoded_and_never_break_the_reader() -> None:
    rng = random.Random(6)
    for _ in range(3_000):
        raw = bytearray(rng.choice([CONTAINS, OLDER, SELECT, EXECUTE]))
        for _ in range(rng.randint(1, 4)):
            raw[rng.randrange(len(raw))] = rng.choice([0, 1, 8, 11, 12, 13, 15, 127, 128, 255, rng.randrange(256)])
        inbound = Inbound()
        inbound.feed(bytes(raw) + bytes(rng.randrange(30)))
        while True:
            try:
                whole = inbound.take()
            except Malformed:
                continue
            if whole is None:
                break
            read_call(whole)


@pytest.mark.parametrize(
    ("body", "match"),
    [
        (DEEP, f"{DEPTH_MAX} levels"),
        (b"\x0f\0\1" + b"\x0f\0\0\0\1" * 1_000 + b"\x02\0\0\0\1\1\0", f"{DEPTH_MAX} levels"),
        (b"\x0b\0\1\x7f\xff\xff\xff", "out of bounds"),
        (b"\x0b\0\1\xff\xff\xff\xff", "out of bounds"),
        (b"\x0f\0\1\x0c\x7f\xff\xff\xff", "out of bounds"),
        (b"\x63\0\1", "no type 99"),
        (b"\x0f\0\1\x0c" + struct.pack(">i", VALUES_MAX) + b"\0" * VALUES_MAX + b"\0", f"{VALUES_MAX} values"),
    ],
    ids=["structs", "lists", "long text", "negative text", "long list", "type", "values"],
)
def test_the_error_for_a_malformed_body_says_what_is_wrong(body: bytes, match: str) -> None:
    inbound = Inbound()
    inbound.feed(HEAD + body)
    with pytest.raises(Malformed, match=match) as refused:
        inbound.take()
    assert refused.value.head == ("get", 1)


@pytest.mark.parametrize(
    ("raw", "match"),
    [
        (framed(HEAD + DEEP), f"{DEPTH_MAX} levels"),
        (HEAD + DEEP, f"{DEPTH_MAX} levels"),
        (framed(CONTAINS[:-1]), "in the middle"),
        (framed(HEAD + b"\x63\0\1"), "no type 99"),
        (framed(b""), "in the middle"),
        (struct.pack(">i", MESSAGE_BYTES_MAX + 1) + bytes(MESSAGE_BYTES_MAX + 1), "a frame may have"),
    ],
    ids=["deep frame", "deep", "cut frame", "type in a frame", "empty frame", "long frame"],
)
def test_a_refused_message_does_not_affect_its_neighbours(raw: bytes, match: str) -> None:
    good = framed(CONTAINS) if raw[0] == 0 else CONTAINS
    inbound, found, refused = Inbound(), list[bytes](), list[str]()
    stream = good + raw + good
    for at in range(0, len(stream), 100_000):
        inbound.feed(stream[at : at + 100_000])
        while True:
            try:
                whole = inbound.take()
            except Malformed as error:
                refused.append(str(error))
                continue
            if whole is None:
                break
            found.append(whole)
    assert found == [CONTAINS, CONTAINS]
    assert len(refused) == 1
    assert match in refused[0]


@pytest.mark.parametrize(
    ("raw", "match"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "name of a method"),
        (framed(CONTAINS) + struct.pack(">i", -5), "-5 bytes"),
        (b"\x80\x02\0\1" + CONTAINS, "not Thrift's binary protocol"),
        (struct.pack(">I", 0x80010001) + struct.pack(">i", 5_000) + bytes(8), "name of a method"),
    ],
    ids=["http", "negative frame", "version", "long name"],
)
def test_after_bytes_that_are_no_message_nothing_more_is_read(raw: bytes, match: str) -> None:
    inbound = Inbound()
    inbound.feed(raw)
    with pytest.raises(Malformed, match=match):
        taken(inbound)
    inbound.feed(CONTAINS)
    assert inbound.take() is None
    assert inbound.ended


def test_a_message_that_never_ends_is_refused_once_it_is_too_long() -> None:
    inbound = Inbound()
    inbound.feed(HEAD + b"\x0f\0\1\x0b" + struct.pack(">i", 100))
    for _ in range(MESSAGE_BYTES_MAX // 100_000):
        inbound.feed(struct.pack(">i", 100_000) + bytes(100_000))
        assert inbound.take() is None
    inbound.feed(struct.pack(">i", 100_000) + bytes(100_000))
    with pytest.raises(Malformed, match="bytes at most"):
        inbound.take()
