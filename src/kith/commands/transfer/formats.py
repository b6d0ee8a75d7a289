"""Reads and writes edge files in bounded memory.

Formats: text (.csv, .tsv, .txt, .edgelist, .edges; columns separated by commas, tabs or spaces), NDJSON (.ndjson,
.jsonl) and Parquet; text and NDJSON also compressed (.gz, .xz, .zst). Columns: source, destination and, optionally,
position. Lines that start with # are comments; a first line without numbers is a header.
"""

from __future__ import annotations

import contextlib
import fcntl
import gzip
import importlib
import lzma
import os
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from kith.commands.transfer.lines import (
    SHORT,
    NumberRows,
    RefusedLine,
    check_header,
    parse_ndjson,
    parse_text,
    refusal,
)
from kith.core.errors import BadRequest, Conflict

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

CHUNK_BYTES = 4 << 20
LINE_BYTES_MAX = 16 << 20
_PARQUET_ROWS = 200_000
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
TEXT, NDJSON, PARQUET = "text", "ndjson", "parquet"
_KINDS = {
    ".csv": TEXT, ".tsv": TEXT, ".txt": TEXT, ".edgelist": TEXT, ".edges": TEXT,
    ".ndjson": NDJSON, ".jsonl": NDJSON, ".parquet": PARQUET,
}  # fmt: skip
_COMPRESSED = (".gz", ".xz", ".zst")
_FIELDS = ("source", "destination", "position")


class LineChunk(NamedTuple):
    """Consecutive lines of a file. `line`: number of the last line read."""

    edges: NumberRows
    refused: list[RefusedLine]
    line: int
    bytes_read: int  # of the file on disk


def kind_of(path: Path) -> str:
    """The kind of a file by its name. Errors: BadRequest, which lists the supported kinds."""
    kind = _KINDS.get(_suffix(path))
    if kind is None:
        raise BadRequest(
            f"cannot tell what {path.name} is; name it {', '.join(_KINDS)}, with .gz, .xz or .zst if compressed"
        )
    return kind


def _suffix(path: Path) -> str:
    """The suffix that tells the kind: .csv of edges.2024.csv.gz."""
    return Path(path.stem).suffix if path.suffix in _COMPRESSED else path.suffix


def read(path: Path, skip_lines: int = 0, chunk_bytes: int = CHUNK_BYTES) -> Iterator[LineChunk]:
    """Read a file in chunks, after the first `skip_lines` lines. Self-edges are refused here, for every kind of import.

    Errors: BadRequest where the file cannot be read, its header has other columns first, or a compressed file is
    truncated.
    """
    kind = kind_of(path)
    if kind == PARQUET:
        yield from _parquet(path, skip_lines)
        return
    parse = parse_text if kind == TEXT else parse_ndjson
    with path.open("rb") as raw:
        line = 0
        for block in blocks(raw, path, chunk_bytes):
            if kind == TEXT and not line:
                check_header(block.removeprefix(_BYTE_ORDER_MARK), path.name)
            lines = block.count(b"\n") + (not block.endswith(b"\n"))
            first, line = line + 1, line + lines
            if line <= skip_lines:
                continue
            skipped = max(0, skip_lines + 1 - first)
            rest = b"\n".join(block.split(b"\n")[skipped:]) if skipped else block
            edges, refused = parse(rest.removeprefix(_BYTE_ORDER_MARK), first + skipped)
            yield LineChunk(edges, refused, line, raw.tell())


def lines(path: Path) -> Iterator[bytes]:
    """The lines of a text file, plain or compressed. Errors: BadRequest where it is truncated."""
    with path.open("rb") as raw:
        for block in blocks(raw, path, CHUNK_BYTES):
            yield from block.splitlines()


def blocks(raw: IO[bytes], path: Path, chunk_bytes: int) -> Iterator[bytes]:
    """Blocks of whole lines of a text file, about `chunk_bytes` each.

    Errors: BadRequest where the file is truncated, or has a line of more than LINE_BYTES_MAX.
    """
    stream = _open(raw, path)
    rest = b""
    try:
        while data := stream.read(chunk_bytes):
            cut = data.rfind(b"\n") + 1
            if cut:
                yield rest + data[:cut]
                rest = data[cut:]
            else:
                rest += data
            if len(rest) > LINE_BYTES_MAX:
                raise BadRequest(
                    f"{path.name} has a line of more than {LINE_BYTES_MAX >> 20} MB; is it text, by lines?"
                )
    except (EOFError, OSError, zlib.error, lzma.LZMAError, zstd.ZstdError) as error:
        raise BadRequest(f"{path.name} is cut off or damaged ({error}); run again with a whole file") from error
    if rest:
        yield rest


def _open(raw: IO[bytes], path: Path) -> Any:
    """The content of a file: `raw` itself, or a stream that decompresses it, and raises where it is truncated."""
    if path.suffix == ".gz":
        return gzip.GzipFile(fileobj=raw)
    if path.suffix == ".xz":
        return lzma.LZMAFile(raw)
    return zstd.ZstdFile(raw) if path.suffix == ".zst" else raw


def _create(raw: IO[bytes], path: Path) -> Any:
    """A stream that compresses for `_open`, or `raw` itself. The same content always gives the same file."""
    if path.suffix == ".gz":
        return gzip.GzipFile(fileobj=raw, mode="wb", mtime=0)
    if path.suffix == ".xz":
        return lzma.LZMAFile(raw, "w")
    if path.suffix != ".zst":
        return raw
    stream = zstd.ZstdFile(raw, "w", options={zstd.CompressionParameter.checksum_flag: 1})
    stream.write(b"")  # else a file without edges would lack its end mark
    return stream


def _parquet(path: Path, skip_lines: int) -> Iterator[LineChunk]:
    parquet, arrow = _pyarrow("pyarrow.parquet"), _pyarrow("pyarrow")
    try:
        file = parquet.ParquetFile(path)
        size, line, total = path.stat().st_size, 0, max(1, file.metadata.num_rows)
        names = file.schema_arrow.names
        columns = [name for name in _FIELDS if name in names] if "source" in names else names[:3]
        if len(columns) < 2 or ("source" in names and "destination" not in names):
            raise BadRequest(f"{path.name} needs the columns source and destination; it has {', '.join(names)}")
        for batch in file.iter_batches(_PARQUET_ROWS, columns=columns):
            first, line = line, line + batch.num_rows
            if line > skip_lines:
                rows, refused = _parquet_rows(batch, max(0, skip_lines - first), first, path)
                yield LineChunk(rows, refused, line, size * line // total)
    except (arrow.ArrowException, OSError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise BadRequest(f"{path.name} is not a Parquet file, or damaged: {error}") from error


def _parquet_rows(batch: Any, skip: int, rows_before: int, path: Path) -> tuple[NumberRows, list[RefusedLine]]:
    """The rows of a batch without its first `skip`, and refused rows. `rows_before`: rows before the batch."""
    arrow = _pyarrow("pyarrow")
    try:
        columns = [_in_ms(column).cast("int64") for column in batch.columns]
    except arrow.ArrowException as error:
        raise BadRequest(f"{path.name}: columns {batch.schema.names} must be whole numbers: {error}") from error
    rows = np.stack([column.fill_null(-1).to_numpy() for column in columns], axis=1)[skip:]
    missing = np.stack([column.is_null().to_numpy(zero_copy_only=False) for column in columns], axis=1)[skip:]
    bad = (rows[:, :2] < 0).any(axis=1) | (rows[:, 0] == rows[:, 1])
    refused = [
        RefusedLine(
            rows_before + skip + index + 1,
            SHORT if missing[index, :2].any() else refusal(tuple(rows[index, :2].tolist())) or SHORT,
        )
        for index in np.flatnonzero(bad).tolist()
    ]
    if missing[:, 2:].any():
        rows = np.column_stack([rows, ~missing[:, 2]])
    return rows[~bad], refused


def _in_ms(column: Any) -> Any:
    """A column; timestamps are converted to ms since the epoch, like positions."""
    arrow = _pyarrow("pyarrow")
    times = arrow.types.is_timestamp(column.type)
    return column.cast(arrow.timestamp("ms", column.type.tz), safe=False) if times else column


def _pyarrow(module: str) -> Any:
    """Import a module of pyarrow, an optional extra of 40 MB."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise BadRequest("Parquet needs an extra: pip install '.[parquet]' in a checkout of Kith") from None


def _locked(partial: Path, path: Path) -> IO[bytes]:
    """Lock the file that becomes `path`, until it is closed. Errors: Conflict while another command writes it."""
    while True:
        file = partial.open("ab")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise Conflict(f"another command is writing {path}; wait for it, or name another file") from None
        except OSError:  # a file system without locks
            pass
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), partial.stat()):
                return file
        file.close()  # another command, which has just ended, renamed or removed it


class EdgeFileWriter:
    """Writes edges to a file of any kind that `read` takes. The file appears when the context ends without an error.

    Errors: Conflict while another command writes the file.
    """

    def __init__(self, path: Path) -> None:
        self._kind = kind_of(path)
        self._path = path
        self._partial = path.with_name(path.name + ".part")
        self._parquet: Any = None

    def __enter__(self) -> EdgeFileWriter:
        self._lock = _locked(self._partial, self._path)
        self._raw = self._partial.open("wb")
        self._stream = _create(self._raw, self._path)
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        with self._lock, contextlib.ExitStack() as undo:
            undo.callback(self._partial.unlink, missing_ok=True)  # also where closing fails, as on a full disk
            with self._raw, self._stream:
                if self._kind == PARQUET and kind is None:
                    self._write_parquet(np.empty((0, 2), np.int64))
                if self._parquet is not None:
                    self._parquet.close()
            if kind is None:
                self._partial.replace(self._path)
                undo.pop_all()

    def write(self, rows: NumberRows) -> None:
        """Append rows (n, 2) or, with positions, (n, 3); all rows of a file have the same width."""
        if self._kind == PARQUET:
            self._write_parquet(rows)
            return
        if self._kind == NDJSON:
            fields = _FIELDS[: rows.shape[1]]
            line = "{" + ",".join(f'"{field}":"%d"' for field in fields) + "}\n"
        else:
            line = ("," if _suffix(self._path) == ".csv" else "\t").join(["%d"] * rows.shape[1]) + "\n"
        self._stream.write(((line * len(rows)) % tuple(rows.ravel().tolist())).encode())

    def _write_parquet(self, rows: NumberRows) -> None:
        arrow, parquet = _pyarrow("pyarrow"), _pyarrow("pyarrow.parquet")
        if self._parquet is None:
            schema = arrow.schema([(field, arrow.int64()) for field in _FIELDS[: rows.shape[1]]])
            self._parquet = parquet.ParquetWriter(self._stream, schema)
        if len(rows):
            self._parquet.write_table(arrow.table(dict(zip(_FIELDS, rows.T, strict=False))))
