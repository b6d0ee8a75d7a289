"""Parses lines of an edge file into arrays: text (columns separated by commas, tabs or spaces) and NDJSON.

NumPy parses a block of clean lines in one go (`parse_fast`). A block with anything unusual is parsed line by line
(`parse_lines`), which reports the refused lines. Both must give the same result for the same block.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Annotated, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from kith.core.errors import BadRequest
from kith.core.ids import ID_MAX
from kith.graph.edge import POSITION_MAX, POSITION_MIN

SHORT, NOT_A_NUMBER, OUT_OF_RANGE = "fewer than two columns", "not a number", "id out of range"
SELF_EDGE, POSITION_OUT_OF_RANGE = "self-edge", "position out of range"
NOT_AN_EDGE = 'not an object like {"source": "1", "destination": "2"}'
_HEAD_LINES = 100
_PLAIN = b"0123456789, \t\r\n"
_NUMBER = re.compile(rb"-?[0-9]{1,40}")
_BEGINS_A_NUMBER = tuple(bytes([byte]) for byte in b"0123456789+-.")

LineNumbers = tuple[int, ...]
"""Source, destination and, if the line has one, position."""
NumberRows = NDArray[np.int64]
"""Shape (n, 2); with positions (n, 3). Where only some rows have a position (n, 4): the last column is 1 for these."""


class RefusedLine(NamedTuple):
    """A refused line: its number in the file, and the reason."""

    line: int
    reason: str


def parse_text(block: bytes, first_line: int) -> tuple[NumberRows, list[RefusedLine]]:
    """Parse whole lines of text; a first line without numbers is a header."""
    return parse_fast(block, first_line) or parse_lines(block, first_line, _text_row)


def parse_ndjson(block: bytes, first_line: int) -> tuple[NumberRows, list[RefusedLine]]:
    """Parse whole lines of NDJSON."""
    return parse_lines(block, first_line, _json_row)


def refusal(row: LineNumbers) -> str | None:
    """Why a row is refused; None if it is accepted."""
    if len(row) < 2:
        return SHORT
    if not (0 <= row[0] <= ID_MAX and 0 <= row[1] <= ID_MAX):
        return OUT_OF_RANGE
    if row[0] == row[1]:
        return SELF_EDGE
    if len(row) == 3 and not POSITION_MIN <= row[2] <= POSITION_MAX:
        return POSITION_OUT_OF_RANGE
    return None


def parse_fast(block: bytes, first_line: int) -> tuple[NumberRows, list[RefusedLine]] | None:
    """Parse a block in which every line is two or three plain numbers; None if any line is not."""
    while first_line <= _HEAD_LINES and (block.startswith(b"#") or (first_line == 1 and _is_header(_line(block)))):
        block, first_line = block[len(_line(block)) + 1 :], first_line + 1
    if block.translate(None, _PLAIN) or block.count(b"\r") != block.count(b"\r\n"):
        return None
    block = block.replace(b", ", b",")
    separator = b"," if b"," in block else b"\t" if b"\t" in block else b" "
    columns = len(_line(block).split(separator if separator != b" " else None))
    if columns not in (2, 3) or not _aligned(block, separator, columns):
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            numbers = np.fromstring(block.replace(b",", b" "), np.int64, sep=" ")
        except (ValueError, DeprecationWarning):
            return None
    lines = block.count(b"\n") + (not block.endswith(b"\n"))
    if len(numbers) != columns * lines or (numbers == ID_MAX).any():  # an overflow also gives ID_MAX
        return None
    edges = numbers.reshape(-1, columns)
    selves = edges[:, 0] == edges[:, 1]
    return edges[~selves], [RefusedLine(first_line + int(index), SELF_EDGE) for index in np.flatnonzero(selves)]


def _aligned(block: bytes, separator: bytes, columns: int) -> bool:
    """Whether every line has the right number of separators. The total would hide a short line next to a long one.

    A run of spaces is one separator. Each comma and each tab is one, and must have no spaces beside it.
    """
    if (separator != b" " and b" " in block) or (separator == b"," and b"\t" in block):
        return False
    text = np.frombuffer(block, np.uint8)
    separates = text == separator[0]
    if separator == b" ":
        separates[1:] &= ~separates[:-1]
    before = np.concatenate([[0], np.cumsum(separates)])
    borders = np.concatenate([[0], np.flatnonzero(text == 10), [] if block.endswith(b"\n") else [len(block)]])
    return bool((np.diff(before[borders.astype(np.int64)]) == columns - 1).all())


def parse_lines(
    block: bytes, first_line: int, parse: Callable[[bytes, int], LineNumbers | str | None]
) -> tuple[NumberRows, list[RefusedLine]]:
    """Parse a block line by line. `parse(line, number)` gives a row, the reason to refuse it, or None for a header."""
    rows: list[LineNumbers] = []
    refused = []
    for number, raw in enumerate(block.split(b"\n"), first_line):
        line = raw.strip()
        if not line or line.startswith(b"#"):
            continue
        row = parse(line, number)
        if isinstance(row, tuple):
            if reason := refusal(row):
                refused.append(RefusedLine(number, reason))
            else:
                rows.append(row)
        elif row:
            refused.append(RefusedLine(number, row))
    widths = set(map(len, rows))
    if widths == {2, 3}:
        rows = [(*row, 1) if len(row) == 3 else (*row, 0, 0) for row in rows]
    return np.array(rows, np.int64).reshape(-1, 4 if len(widths) > 1 else max(widths, default=2)), refused


def _line(block: bytes) -> bytes:
    """The first line."""
    end = block.find(b"\n")
    return block if end < 0 else block[:end]


def _columns(line: bytes) -> list[bytes]:
    separator = b"," if b"," in line else b"\t" if b"\t" in line else None
    return [column.strip().strip(b'"') for column in line.split(separator)]


def _is_header(line: bytes) -> bool:
    """Whether the first two columns are names: neither is empty or begins like a number."""
    return bool(line.strip()) and all(
        column and not column.startswith(_BEGINS_A_NUMBER) for column in _columns(line)[:2]
    )


def check_header(block: bytes, name: str) -> None:
    """Raise BadRequest if the header has the columns source and destination, but not as the first two."""
    needed = [b"source", b"destination"]
    columns = [] if block.startswith(b"#") else [column.lower() for column in _columns(_line(block))]
    if columns[:2] != needed and set(needed) <= set(columns):
        names = b", ".join(columns).decode(errors="replace")
        raise BadRequest(
            f"{name} has the columns {names}; it needs source, destination and, if there is a third, position"
        )


def _text_row(line: bytes, number: int) -> LineNumbers | str | None:
    if number == 1 and _is_header(line):
        return None
    columns = _columns(line)
    if len(columns) < 2 or not columns[0] or not columns[1]:
        return SHORT
    columns = columns[:3] if len(columns) > 2 and columns[2] else columns[:2]
    if not all(map(_NUMBER.fullmatch, columns)):
        return NOT_A_NUMBER
    return tuple(map(int, columns))


_Number = int | Annotated[str, msgspec.Meta(pattern="^-?[0-9]{1,40}$")]


class _JsonRow(msgspec.Struct):
    source: _Number
    destination: _Number
    position: _Number | None = None


_decode_row = msgspec.json.Decoder(_JsonRow).decode


def _json_row(line: bytes, number: int) -> LineNumbers | str:
    try:
        row = _decode_row(line)
        numbers = (row.source, row.destination) if row.position is None else (row.source, row.destination, row.position)
        return tuple(map(int, numbers))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return NOT_AN_EDGE
