"""Edge files as arrays, in bounded memory.

Text (.csv, .tsv, .txt, .edgelist; separator comma, tab or blanks), NDJSON (.ndjson, .jsonl) and Parquet;
text and NDJSON also .gz or .zst. Columns: source, destination and, if there is a third, position. Lines that
start with # are comments; a first line without digits is a header. A chunk of clean lines is parsed by NumPy
in one go; a chunk with anything odd in it is parsed line by line, to name the lines that are refused.
"""

from __future__ import annotations

import gzip
import importlib
import io
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import zstandard
from numpy.typing import NDArray

from kith.core.errors import BadRequest
from kith.core.ids import ID_MAX
from kith.graph.edge import POSITION_MAX, POSITION_MIN

CHUNK_BYTES = 4 << 20
_PARQUET_ROWS = 200_000
_HEAD_LINES = 100
TEXT, NDJSON, PARQUET = "text", "ndjson", "parquet"
_KINDS = {
    ".csv": TEXT, ".tsv": TEXT, ".txt": TEXT, ".edgelist": TEXT, ".edges": TEXT,
    ".ndjson": NDJSON, ".jsonl": NDJSON, ".parquet": PARQUET,
}  # fmt: skip
_FIELDS = ("source", "destination", "position")


class Refused(NamedTuple):
    """A line that is not an edge we take, and why."""

    line: int
    reason: str


class Chunk(NamedTuple):
    """Some lines of a file. `edges`: (n, 2) or, with positions, (n, 3), int64; `line`: the last line read."""

    edges: NDArray[np.int64]
    refused: list[Refused]
    line: int
    bytes_read: int  # of the file on disk


def kind_of(path: Path) -> str:
    """The kind of a file by its name; BadRequest lists what can be read."""
    suffixes = [suffix for suffix in path.suffixes if suffix not in (".gz", ".zst")]
    kind = _KINDS.get(suffixes[-1] if suffixes else "")
    if kind is None:
        raise BadRequest(
            f"cannot tell what {path.name} is; name it {', '.join(_KINDS)}, with .gz or .zst if compressed"
        )
    return kind


def read(path: Path, skip_lines: int = 0, chunk_bytes: int = CHUNK_BYTES) -> Iterator[Chunk]:
    """The file in chunks, from the line after `skip_lines` on. Self-edges are refused here, once for all paths.

    Raises BadRequest where the file cannot be read at all or ends in the middle (of a compressed stream).
    """
    kind = kind_of(path)
    if kind == PARQUET:
        yield from _parquet(path, skip_lines)
        return
    parse_line = _parse_text if kind == TEXT else _parse_json
    with path.open("rb") as raw:
        line = 0
        for block in _blocks(raw, path, chunk_bytes):
            lines = block.count(b"\n") + (not block.endswith(b"\n"))
            first, line = line + 1, line + lines
            if line <= skip_lines:
                continue
            skipped = max(0, skip_lines + 1 - first)
            rest = b"\n".join(block.split(b"\n")[skipped:]) if skipped else block
            parsed = _fast(rest, first + skipped) if kind == TEXT else None
            edges, refused = parsed or _slow(rest, first + skipped, parse_line)
            yield Chunk(edges, refused, line, raw.tell())


def _blocks(raw: IO[bytes], path: Path, chunk_bytes: int) -> Iterator[bytes]:
    """Whole lines, about `chunk_bytes` at a time."""
    stream: Any = raw
    if path.suffix == ".gz":
        stream = gzip.GzipFile(fileobj=raw)
    elif path.suffix == ".zst":
        stream = zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True)
    rest = b""
    try:
        while data := stream.read(chunk_bytes):
            cut = data.rfind(b"\n") + 1
            if cut:
                yield rest + data[:cut]
                rest = data[cut:]
            else:
                rest += data
    except (EOFError, OSError, zstandard.ZstdError) as error:
        raise BadRequest(
            f"{path.name} is cut off or damaged ({error}); what came before is kept, run again with a whole file"
        ) from error
    if rest:
        yield rest


def _fast(block: bytes, first_line: int) -> tuple[NDArray[np.int64], list[Refused]] | None:
    """The edges of a block in which every line is two or three plain numbers; None if any is not."""
    while first_line <= _HEAD_LINES and (block.startswith(b"#") or (first_line == 1 and _is_header(block))):
        block, first_line = block[block.find(b"\n") + 1 :], first_line + 1
    columns = len(block[: block.find(b"\n")].replace(b",", b" ").split())
    if columns not in (2, 3) or any(odd in block for odd in (b"#", b"-", b'"', b".")):
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            numbers = np.fromstring(block.replace(b",", b" "), np.int64, sep=" ")
        except (ValueError, DeprecationWarning):
            return None
    lines = block.count(b"\n") + (not block.endswith(b"\n"))
    # ID_MAX is also what an overflow looks like
    if len(numbers) != columns * lines or (numbers == ID_MAX).any() or not _aligned(block, columns):
        return None
    edges = numbers.reshape(-1, columns)
    selves = edges[:, 0] == edges[:, 1]
    return edges[~selves], [Refused(first_line + int(at), "self-edge") for at in np.flatnonzero(selves)]


def _aligned(block: bytes, columns: int) -> bool:
    """Whether every line holds one row: a line short by a number and one long by one would add up."""
    text = np.frombuffer(block, np.uint8)
    blank = (text == 9) | (text == 32) | (text == 44)
    gaps = np.concatenate([[0], np.cumsum(blank & ~np.concatenate([[False], blank[:-1]]))])
    borders = np.concatenate([[0], np.flatnonzero(text == 10), [] if block.endswith(b"\n") else [len(block)]])
    return bool((np.diff(gaps[borders.astype(np.int64)]) == columns - 1).all())


def _slow(block: bytes, first_line: int, parse: Any) -> tuple[NDArray[np.int64], list[Refused]]:
    rows, refused = [], []
    lines = block.split(b"\n")
    if lines and not lines[-1]:
        lines.pop()
    for number, raw in enumerate(lines, first_line):
        text = raw.strip()
        if not text or text.startswith(b"#") or (number == 1 and _is_header(text)):
            continue
        row = parse(text)
        reason = row if isinstance(row, str) else _refusal(row)
        if reason:
            refused.append(Refused(number, reason))
        else:
            rows.append(row)
    width = max(map(len, rows), default=2)
    if any(len(row) != width for row in rows):
        rows = [row if len(row) == width else (*row, _NO_POSITION) for row in rows]
    return np.array(rows, np.int64).reshape(-1, width), refused


_NO_POSITION = POSITION_MIN  # a row without a position among rows with one; the import gives it its own


def _is_header(text: bytes) -> bool:
    first = text[: text.find(b"\n")] if b"\n" in text else text
    return not first.startswith(b"{") and not first[:1].isdigit() and not first.startswith((b"-", b'"', b" ", b"\t"))


def _parse_text(text: bytes) -> tuple[int, ...] | str:
    separator = b"," if b"," in text else b"\t" if b"\t" in text else None
    parts = [part.strip().strip(b'"') for part in text.split(separator)]
    if len(parts) < 2:
        return "fewer than two columns"
    try:
        return tuple(int(part) for part in parts[:3] if part)
    except ValueError:
        return "not a number"


def _parse_json(text: bytes) -> tuple[int, ...] | str:
    try:
        value = json.loads(text)
        return tuple(int(value[field]) for field in _FIELDS if field in value or field != "position")
    except (ValueError, TypeError, KeyError, RecursionError):
        return 'not an object like {"source": "1", "destination": "2"}'


def _refusal(row: tuple[int, ...]) -> str | None:
    if len(row) < 2:
        return "fewer than two columns"
    if not (0 <= row[0] <= ID_MAX and 0 <= row[1] <= ID_MAX):
        return "id out of range"
    if row[0] == row[1]:
        return "self-edge"
    if len(row) == 3 and not POSITION_MIN < row[2] <= POSITION_MAX:
        return "position out of range"
    return None


def _parquet(path: Path, skip_lines: int) -> Iterator[Chunk]:
    parquet = _pyarrow("pyarrow.parquet")
    try:
        file = parquet.ParquetFile(path)
    except Exception as error:
        raise BadRequest(f"{path.name} is not a Parquet file: {error}") from error
    names = file.schema_arrow.names
    columns = [name for name in _FIELDS if name in names] if "source" in names else names[:3]
    size, line, total = path.stat().st_size, 0, max(1, file.metadata.num_rows)
    for batch in file.iter_batches(_PARQUET_ROWS, columns=columns):
        first, line = line, line + batch.num_rows
        if line <= skip_lines:
            continue
        try:
            rows = np.stack([column.cast("int64").to_numpy(zero_copy_only=False) for column in batch.columns], axis=1)
        except Exception as error:
            raise BadRequest(f"{path.name}: columns {columns} must be whole numbers: {error}") from error
        rows = rows[max(0, skip_lines - first) :].astype(np.int64)
        bad = (rows[:, :2] < 0).any(axis=1) | (rows[:, 0] == rows[:, 1])
        refused = [
            Refused(line - len(rows) + int(at) + 1, _refusal(tuple(rows[at].tolist())) or "id out of range")
            for at in np.flatnonzero(bad)
        ]
        yield Chunk(rows[~bad], refused, line, size * line // total)


def _pyarrow(module: str) -> Any:
    """pyarrow is an extra: 40 MB that most never need."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise BadRequest("Parquet needs an extra: pip install 'kith-social[parquet]'") from None


class Writer:
    """Writes edges to a file of any kind that `read` takes. Use as a context."""

    def __init__(self, path: Path) -> None:
        self._kind = kind_of(path)
        self._path = path
        self._partial = path.with_name(path.name + ".part")
        self._stream: Any = None
        self._parquet: Any = None

    def __enter__(self) -> Writer:
        raw = self._partial.open("wb")
        if self._path.suffix == ".gz":
            self._stream = io.BufferedWriter(gzip.GzipFile(fileobj=raw, mode="wb", mtime=0), 1 << 20)
        elif self._path.suffix == ".zst":
            self._stream = zstandard.ZstdCompressor().stream_writer(raw)
        else:
            self._stream = raw
        self._raw = raw
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self._parquet is not None:
            self._parquet.close()
        self._stream.close()
        self._raw.close()
        if kind is None:
            self._partial.replace(self._path)
        else:
            self._partial.unlink(missing_ok=True)

    def write(self, rows: NDArray[np.int64]) -> None:
        """Append rows (n, 2) or, with positions, (n, 3)."""
        if self._kind == PARQUET:
            self._write_parquet(rows)
            return
        if self._kind == NDJSON:
            fields = _FIELDS[: rows.shape[1]]
            line = "{" + ",".join(f'"{field}":"%d"' for field in fields) + "}\n"
        else:
            line = ("," if self._path.suffixes[0] == ".csv" else "\t").join(["%d"] * rows.shape[1]) + "\n"
        self._stream.write(((line * len(rows)) % tuple(rows.ravel().tolist())).encode())

    def _write_parquet(self, rows: NDArray[np.int64]) -> None:
        pyarrow, parquet = _pyarrow("pyarrow"), _pyarrow("pyarrow.parquet")
        table = pyarrow.table(dict(zip(_FIELDS, rows.T, strict=False)))
        if self._parquet is None:
            self._parquet = parquet.ParquetWriter(self._stream, table.schema)
        self._parquet.write_table(table)
