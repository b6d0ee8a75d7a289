"""Rows as bytes. Everything is big-endian, so that LMDB's byte order is our order.

    graph database e<number>   key  source u64 | destination u64
                               row  (updated_at << 2 | state) u64 | position
      where position is nothing (it equals the milliseconds of updated_at), 6 bytes (unsigned) or 8 (signed)
    lists  database l<number>  see `runs`; prefix  direction << 2 | state, u8 | node u64
                               list row  position, sign flipped, u64 | other end u64

A row costs 34, 40 or 42 bytes in LMDB with its header; docs/decisions/0001 compares the layouts.
"""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray

from kith.core.clock import Hlc, ms_of
from kith.core.ids import NodeId
from kith.core.paging import Mark
from kith.graph.edge import Direction, Edge, State
from kith.graph.store import Listing

STATE_BITS = 2
SIGN = 1 << 63
_POSITION_6_MAX = 1 << 48
_PAIR = struct.Struct(">QQ")
_WORD = struct.Struct(">Q")
_PREFIX = struct.Struct(">BQ")
STATES = tuple(State)

pair_key = _PAIR.pack
"""(source, destination) -> the key of their edge."""


def edge_row(edge: Edge) -> bytes:
    """The stored row of an edge."""
    word = _WORD.pack((edge.updated_at << STATE_BITS) | edge.state)
    position = edge.position
    if position == ms_of(edge.updated_at):
        return word
    if 0 <= position < _POSITION_6_MAX:
        return word + position.to_bytes(6, "big")
    return word + position.to_bytes(8, "big", signed=True)


def read_edge(graph: int, source: int, destination: int, row: bytes) -> Edge:
    """The edge of a stored row."""
    word = int.from_bytes(row[:8], "big")
    updated_at = word >> STATE_BITS
    position = ms_of(updated_at) if len(row) == 8 else int.from_bytes(row[8:], "big", signed=len(row) == 16)
    return Edge(graph, NodeId(source), NodeId(destination), STATES[word & 3], position, Hlc(updated_at))


def list_prefix(listing: Listing) -> bytes:
    """Where the run of a list lies."""
    return _PREFIX.pack((listing.direction << 2) | listing.state, listing.node)


def read_prefix(graph: int, prefix: bytes) -> Listing:
    """The list of a run."""
    tag, node = _PREFIX.unpack(prefix)
    return Listing(graph, node, Direction(tag >> 2), STATES[tag & 3])


def list_row(position: int, other: int) -> bytes:
    """An entry of a list; bytes sort like (position, other end)."""
    return _PAIR.pack(position + SIGN, other)


def read_mark(row: bytes) -> Mark:
    """The (position, other end) of an entry."""
    position, other = _PAIR.unpack(row)
    return Mark(position - SIGN, other)


def ids_of(rows: bytes) -> NDArray[np.int64]:
    """The other ends in a run of entries, in their order."""
    return np.frombuffer(rows, ">i8").reshape(-1, 2)[:, 1].astype(np.int64)
