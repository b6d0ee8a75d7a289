"""Keys and rows of edges, lists and nodes as bytes. All numbers are big-endian, so bytes sort as the numbers do.

Each graph has one database, where the edges and lists of a node lie side by side, so that a follow touches two pages:

    edge   key  source u64 | destination u64
           row  (updated_at << 2 | state) u64 | position
                position: nothing (it equals the milliseconds of updated_at), 6 bytes (unsigned) or 8 (signed)
                of an edge that expires: position, 8 bytes | expires_ms u64 (see `expiries`)
    list   a run of blocks (see `runs`) under  node u64 | 128 + direction << 2 + state, u8
           list row  position, sign flipped, u64 | other end u64

    node   database nodes: key  id u64, row  state u8 | private u8 | labels u8; only nodes that differ from `Node()`

Ids are below 2**63, so the byte after the node tells an edge (below 128) from a list. An edge costs 34, 40 or
42 bytes in LMDB with its header, an entry of a list 16; docs/decisions/0001 compares the layouts.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kith.core.clock import Hlc, ms_of
from kith.core.ids import NodeId
from kith.core.paging import Mark
from kith.graph.edge import Direction, Edge, State
from kith.graph.shapes import Listing, Node

STATE_BITS = 2
STATE_MASK = (1 << STATE_BITS) - 1
STATE_BYTE = 7
"""Offset of the byte of an edge's row that holds its state, in the bits of STATE_MASK. NORMAL is 0."""
SIGN = 1 << 63
POSITION_6_MAX = 1 << 48
_PAIR = struct.Struct(">QQ")
_WORD = struct.Struct(">Q")
_PREFIX = struct.Struct(">QB")
_LIST = 128
_OUT_LIST, _IN_LIST = _LIST | Direction.OUT << STATE_BITS, _LIST | Direction.IN << STATE_BITS
_TAIL = struct.Struct(">QBB")
TAIL_KEY = _TAIL.size
_PACKED_ONE_BY_ONE_MAX = 32
"""Beyond this many keys, NumPy packs them faster."""
EDGE_KEY = ROW = _PAIR.size
EXPIRING_ROW = 24
"""The length of the row of an edge that expires. The rows of other edges are shorter."""
_STATES = tuple(State)
_STATES_BY_BYTE = tuple(_STATES[byte & STATE_MASK] for byte in range(256))

pair_key = _PAIR.pack
"""(source, destination) -> the key of their edge."""


node_key = _WORD.pack
"""id -> the key of a node's own row."""


def node_row(node: Node) -> bytes:
    """The stored row of a node."""
    return bytes([node.state, node.private, node.labels])


def read_node(row: bytes) -> Node:
    """The node of a stored row."""
    return Node(_STATES[row[0]], bool(row[1]), row[2])


def edge_row(edge: Edge) -> bytes:
    """The stored row of an edge."""
    word = _WORD.pack((edge.updated_at << STATE_BITS) | edge.state)
    position = edge.position
    if edge.expires_ms:
        return word + position.to_bytes(8, "big", signed=True) + _WORD.pack(edge.expires_ms)
    if position == ms_of(edge.updated_at):
        return word
    if 0 <= position < POSITION_6_MAX:
        return word + position.to_bytes(6, "big")
    return word + position.to_bytes(8, "big", signed=True)


def read_edge(graph: int, source: int, destination: int, row: bytes) -> Edge:
    """The edge of a stored row."""
    word = int.from_bytes(row[:8], "big")
    updated_at = word >> STATE_BITS
    ends, state = (NodeId(source), NodeId(destination)), _STATES[word & STATE_MASK]
    if len(row) == EXPIRING_ROW:
        position = int.from_bytes(row[8:16], "big", signed=True)
        return Edge(graph, *ends, state, position, Hlc(updated_at), expiry_of(row))
    position = ms_of(updated_at) if len(row) == 8 else int.from_bytes(row[8:], "big", signed=len(row) == 16)
    return Edge(graph, *ends, state, position, Hlc(updated_at))


def expiry_of(row: bytes) -> int:
    """When the edge of a stored row expires, in ms since the epoch; 0: never."""
    return int.from_bytes(row[16:], "big")


def state_of(row: bytes) -> State:
    """The state in a stored edge row."""
    return _STATES[row[STATE_BYTE] & STATE_MASK]


def state_at(row: bytes, now_ms: int) -> State:
    """The state of a stored edge row at a moment: REMOVED if it has expired by then."""
    if len(row) == EXPIRING_ROW and expiry_of(row) <= now_ms:
        return State.REMOVED
    return _STATES[row[STATE_BYTE] & STATE_MASK]


def states_of(rows: Sequence[bytes | None]) -> list[State | None]:
    """The state in each stored edge row; None where there is none."""
    states, state_byte = _STATES_BY_BYTE, STATE_BYTE
    return [None if row is None else states[row[state_byte]] for row in rows]


def list_prefix(listing: Listing | tuple[int, int, Direction, State]) -> bytes:
    """The prefix of a list's run."""
    _, node, direction, state = listing
    return _PREFIX.pack(node, _LIST | direction << STATE_BITS | state)


def tail_keys(direction: Direction, nodes: NDArray[np.int64]) -> list[bytes]:
    """The keys of the tails (see `runs`) of the lists of NORMAL edges of `nodes`."""
    tag = list_tag(direction, State.NORMAL)
    if len(nodes) <= _PACKED_ONE_BY_ONE_MAX:
        return [_TAIL.pack(node, tag, 1) for node in nodes.tolist()]
    keys = np.empty((len(nodes), TAIL_KEY), np.uint8)
    keys[:, :8] = nodes.astype(">u8").view(np.uint8).reshape(-1, 8)
    keys[:, 8:] = tag, 1
    packed = keys.tobytes()
    return [packed[offset : offset + TAIL_KEY] for offset in range(0, len(packed), TAIL_KEY)]


def list_prefixes(source: int, destination: int, state: State) -> tuple[bytes, bytes]:
    """The prefixes of the two lists of an edge in this state: its source's and its destination's."""
    return _PREFIX.pack(source, _OUT_LIST | state), _PREFIX.pack(destination, _IN_LIST | state)


def list_tag(direction: Direction, state: State) -> int:
    """The last byte of a list's prefix."""
    return _LIST | (direction << STATE_BITS) | state


def read_prefix(graph: int, prefix: bytes) -> Listing:
    """The list whose run has this prefix."""
    node, tag = _PREFIX.unpack(prefix)
    return Listing(graph, node, Direction((tag - _LIST) >> STATE_BITS), _STATES[tag & STATE_MASK])


def after_lists(key: bytes) -> bytes:
    """The first key that may belong to the next node, given a key inside the lists of one."""
    return (int.from_bytes(key[:8], "big") + 1).to_bytes(8, "big")


def list_row(position: int, other_end: int) -> bytes:
    """An entry of a list; its bytes sort like (position, other end)."""
    return _PAIR.pack(position + SIGN, other_end)


AFTER_ALL = b"\xff" * ROW
"""A place after every entry of a list, because other ends are below 2**63."""


def just_before(row: bytes) -> bytes:
    """The place directly before an entry: the entries after this place include it."""
    number = int.from_bytes(row, "big")
    return (number - 1).to_bytes(ROW, "big") if number else b""


def just_after(row: bytes) -> bytes:
    """The place directly after an entry: the entries before this place include it."""
    return row + b"\0"


def read_mark(row: bytes) -> Mark:
    """The (position, other end) of an entry."""
    position, other_end = _PAIR.unpack(row)
    return Mark(position - SIGN, other_end)


def read_marks(rows: bytes) -> list[Mark]:
    """The (position, other end) of each of the packed entries."""
    new = tuple.__new__  # what `Mark(...)` does, without a call of a Python function
    return [new(Mark, (position - SIGN, other_end)) for position, other_end in _PAIR.iter_unpack(rows)]


def ids_of(rows: bytes) -> NDArray[np.int64]:
    """The other ends of packed entries, in their order."""
    return np.frombuffer(rows, ">i8").reshape(-1, 2)[:, 1].astype(np.int64)
