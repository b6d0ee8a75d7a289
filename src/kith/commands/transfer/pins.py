"""Imports a file of pins: lines `user item item ...` of numbers; `#` begins a comment.

A user becomes the owner of one board, and an item a post by the first user who pinned it. Ids of boards and posts are
derived from the numbers in the file, and dated 2023-01-01, before any real snowflake. So another import of the file, or
of another file of the same data set, finds the existing ones. The pins of a line keep its order, the last one newest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from kith.boards.board import Board, board_record
from kith.commands.transfer.formats import CHUNK_BYTES, TEXT, LineChunk, blocks, kind_of
from kith.commands.transfer.lines import NOT_A_NUMBER, OUT_OF_RANGE, SHORT, NumberRows, RefusedLine
from kith.core.clock import COUNTER_BITS, Hlc
from kith.core.errors import BadRequest
from kith.core.ids import EPOCH_MS, TIME_SHIFT, NodeId, made_at_ms
from kith.graph.edge import Edge, EdgeWrite, State
from kith.graph.graph import Graph
from kith.graph.graphs import AUTHORED, BOARDS
from kith.graph.shapes import Ids
from kith.posts.post import Draft, check_draft, post_from, post_record
from kith.records.store import RecordKind, RecordStore

NUMBERS_MAX = 1 << 40
"""Numbers of users and items in a file must be below this."""
_FIRST_POST, _FIRST_BOARD = NUMBERS_MAX, 2 * NUMBERS_MAX  # each 262 s of ids, in the first 15 minutes of 2023
VERSION = Hlc((EPOCH_MS + 1) << COUNTER_BITS)
"""Version of everything imported: older than any later change."""
_NAME = "Pins"
_BATCH = 5_000
_USER, _ITEM = 0, 1


def board_of(user: int) -> NodeId:
    """The id of a user's board."""
    return NodeId(_FIRST_BOARD + user)


def post_of(item: int) -> NodeId:
    """The id of an item's post."""
    return NodeId(_FIRST_POST + item)


def read_pins(path: Path, skip_lines: int = 0, chunk_bytes: int = CHUNK_BYTES) -> Iterator[LineChunk]:
    """The pins of a file as edges from board to post, in chunks, after `skip_lines` lines. Errors: BadRequest."""
    for chunk in _chunks(path, skip_lines, chunk_bytes):
        users, items, places = chunk.edges.T
        boards = _FIRST_BOARD + users
        yield chunk._replace(edges=np.stack([boards, _FIRST_POST + items, _made_ms(boards) + places], axis=1))


async def make_boards(path: Path, graph: Graph, records: RecordStore) -> None:
    """Create the missing boards and posts of a file. Errors: those of `read_pins`."""
    for chunk in _chunks(path, 0, CHUNK_BYTES):
        users = np.unique(chunk.edges[:, _USER]).tolist()
        for start in range(0, len(users), _BATCH):
            await _put_boards(users[start : start + _BATCH], graph, records)
        items, first = np.unique(chunk.edges[:, _ITEM], return_index=True)
        posts = list(zip(items.tolist(), chunk.edges[first, _USER].tolist(), strict=True))
        for start in range(0, len(posts), _BATCH):
            await _put_posts(posts[start : start + _BATCH], graph, records)


async def _put_boards(users: list[int], graph: Graph, records: RecordStore) -> None:
    number = graph.graphs.number(BOARDS)
    boards = [Board(user, board_of(user), made_at_ms(board_of(user)), _NAME) for user in users]
    stored = await records.get_many(RecordKind.BOARD, [board.id for board in boards])
    new = [board for board, record in zip(boards, stored, strict=True) if record is None]
    if new:
        edges = [_listed(number, board.owner, NodeId(board.id)) for board in new]
        await records.put([board_record(board, VERSION) for board in new], edges)


async def _put_posts(posts: list[tuple[int, int]], graph: Graph, records: RecordStore) -> None:
    """Create missing posts. `posts`: items, each with the user who pinned it first."""
    number = graph.graphs.number(AUTHORED)
    stored = await records.get_many(RecordKind.POST, [post_of(item) for item, _ in posts])
    new = [(post_of(item), item, user) for (item, user), record in zip(posts, stored, strict=True) if record is None]
    if new:
        drafts = [check_draft(Draft(text=f"Item {item}")) for _, item, _ in new]
        new_records = [
            post_record(post_from(id_, user, made_at_ms(id_), draft), VERSION)
            for (id_, _, user), draft in zip(new, drafts, strict=True)
        ]
        await records.put(new_records, [_listed(number, user, id_) for id_, _, user in new])


def _listed(graph: int, owner: int, id_: NodeId) -> EdgeWrite:
    return EdgeWrite(Edge(graph, NodeId(owner), id_, State.NORMAL, made_at_ms(id_), VERSION))


def _made_ms(ids: Ids) -> Ids:
    return (ids >> TIME_SHIFT) + EPOCH_MS


def _chunks(path: Path, skip_lines: int, chunk_bytes: int) -> Iterator[LineChunk]:
    """The file in chunks whose rows are user, item, and the item's index in its line."""
    if kind_of(path) != TEXT:
        raise BadRequest(f"{path.name} is no text: pins come in lines `user item item ...`")
    line = 0
    with path.open("rb") as raw:
        for block in blocks(raw, path, chunk_bytes):
            lines = block.splitlines()
            first, line = line + 1, line + len(lines)
            if line > skip_lines:
                skipped = max(0, skip_lines + 1 - first)
                rest = b"\n".join(lines[skipped:]) if skipped else block
                rows, refused = _parse_fast(rest) or _parse_lines(lines[skipped:], first + skipped)
                yield LineChunk(rows, refused, line, raw.tell())


def _parse_fast(block: bytes) -> tuple[NumberRows, list[RefusedLine]] | None:
    """The rows of a block of clean lines; None if any line is not."""
    if block.translate(None, b"0123456789 \t\r\n") or block.count(b"\r") != block.count(b"\r\n"):
        return None
    digits = np.concatenate([[False], np.frombuffer(block, np.uint8) > ord(" "), [False]])
    starts, ends = np.flatnonzero(digits[1:] & ~digits[:-1]), np.flatnonzero(digits[:-1] & ~digits[1:])
    line_ends = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n"))
    lines, firsts, sizes = np.unique(np.searchsorted(line_ends, starts), return_index=True, return_counts=True)
    if not len(lines) or (ends - starts).max() >= len(str(NUMBERS_MAX)) or sizes.min() < 2:
        return None
    numbers = np.fromstring(block, np.int64, sep=" ")
    places = np.arange(len(numbers)) - np.repeat(firsts, sizes) - 1
    rows = np.stack([np.repeat(numbers[firsts], sizes), numbers, places], axis=1)
    return rows[places >= 0], []


def _parse_lines(lines: Sequence[bytes], first_line: int) -> tuple[NumberRows, list[RefusedLine]]:
    rows: list[tuple[int, int, int]] = []
    refused: list[RefusedLine] = []
    for line, text in enumerate(lines, first_line):
        words = text.split()
        if not words or text.startswith(b"#"):
            continue
        if len(words) < 2:
            refused.append(RefusedLine(line, SHORT))
        elif not all(map(bytes.isdigit, words)):
            refused.append(RefusedLine(line, NOT_A_NUMBER))
        elif max(map(len, words)) > len(str(NUMBERS_MAX)) or max(map(int, words)) >= NUMBERS_MAX:
            refused.append(RefusedLine(line, OUT_OF_RANGE))
        else:
            user, *items = map(int, words)
            rows += [(user, item, place) for place, item in enumerate(items)]
    return np.array(rows, np.int64).reshape(-1, 3), refused
