"""Edge files of every kind are read alike, and a refused line is named with its number and reason."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from edge_files import COMPRESSIONS, NUMBER, RANGE, SELF, SHORT, FileContent, all_of, compressed, got, put
from hypothesis import given, settings
from hypothesis import strategies as st

from kith.commands.transfer import formats, lines
from kith.commands.transfer.formats import EdgeFileWriter, kind_of, read
from kith.commands.transfer.lines import RefusedLine
from kith.core.errors import BadRequest
from kith.core.ids import ID_MAX
from kith.graph.edge import POSITION_MIN

TEXT_KINDS = (".csv", ".tsv", ".txt", ".edgelist", ".edges")


# Kinds


@pytest.mark.parametrize("how", COMPRESSIONS)
@pytest.mark.parametrize("kind", TEXT_KINDS)
@pytest.mark.parametrize("separator", [b",", b"\t", b" ", b"   ", b", ", b" \t "])
def test_any_name_of_a_text_file_allows_any_separator_and_compression(
    tmp_path: Path, kind: str, how: str, separator: bytes
) -> None:
    data = b"".join(separator.join(row) + b"\n" for row in ((b"1", b"2"), (b"3", b"4")))
    assert got(tmp_path, data, kind + how) == FileContent([(1, 2), (3, 4)], [])


@pytest.mark.parametrize("how", COMPRESSIONS)
@pytest.mark.parametrize("kind", [".ndjson", ".jsonl"])
def test_ndjson_accepts_ids_as_strings_and_as_numbers(tmp_path: Path, kind: str, how: str) -> None:
    data = b'{"source":"1","destination":2}\n{"destination":"4","source":"3","note":[]}\n'
    assert got(tmp_path, data, kind + how) == FileContent([(1, 2), (3, 4)], [])


def test_ndjson_positions_are_optional_in_each_row(tmp_path: Path) -> None:
    data = b'{"source":"1","destination":"2","position":"-5"}\n{"source":"3","destination":"4"}\n'
    assert got(tmp_path, data, ".ndjson").rows == [(1, 2, -5), (3, 4)]


def test_a_file_name_without_a_known_ending_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    for name in ("edges", "edges.gz", "edges.xlsx", "edges.zip", ".csv"):
        with pytest.raises(BadRequest, match=r"\.csv.*\.parquet"):
            kind_of(tmp_path / name)
    assert kind_of(Path("a.b.csv.gz")) == formats.TEXT


@pytest.mark.parametrize("kind", [".csv", ".csv.gz", ".csv.zst", ".ndjson"])
def test_an_empty_file_has_no_edges(tmp_path: Path, kind: str) -> None:
    assert got(tmp_path, b"", kind) == FileContent([], [])


@pytest.mark.parametrize("data", [b"\n", b"\n\n\n", b"#\n", b"# only a comment", b"source,destination\n", b"  \r\n"])
def test_a_file_without_rows_has_no_edges(tmp_path: Path, data: bytes) -> None:
    assert got(tmp_path, data) == FileContent([], [])


# Lines


@pytest.mark.parametrize("ending", [b"", b"\n", b"\n\n"])
@pytest.mark.parametrize("border", [b"\n", b"\r\n"])
@pytest.mark.parametrize("header", [b"", b"source,destination", b"id_1,id_2", b"# a comment", b'"from","to"'])
def test_header_comment_and_line_ends_do_not_matter(
    tmp_path: Path, header: bytes, border: bytes, ending: bytes
) -> None:
    lines = [header] * bool(header) + [b"1,2", b"3,4"]
    assert got(tmp_path, border.join(lines) + ending) == FileContent([(1, 2), (3, 4)], [])


def test_comments_may_stand_anywhere(tmp_path: Path) -> None:
    assert got(tmp_path, b"# a\n# b\n1 2\n# c 5 6\n\n3 4\n#", ".txt") == FileContent([(1, 2), (3, 4)], [])


@pytest.mark.parametrize(
    "head", [b"destination,source", b"id,source,destination", b",Source,Destination", b'"x" "source" "destination"']
)
def test_columns_are_found_by_the_names_in_the_header(tmp_path: Path, head: bytes) -> None:
    """A table exported with its index begins with a column that has no name."""
    for mark in (b"", b"\xef\xbb\xbf"):
        with pytest.raises(BadRequest, match="source, destination and, if there is a third, position"):
            got(tmp_path, mark + head + b"\n0,5,7\n")
    for right in (b"Source,destination\n5,7\n", b"# source destination\n5 7\n"):
        assert got(tmp_path, right) == FileContent([(5, 7)], [])


def test_a_byte_order_mark_does_not_lose_the_first_edge(tmp_path: Path) -> None:
    assert got(tmp_path, b"\xef\xbb\xbf1,2\n3,4\n") == FileContent([(1, 2), (3, 4)], [])


def test_quoted_columns_are_numbers(tmp_path: Path) -> None:
    assert got(tmp_path, b'"1","2"\n"3","4"\n') == FileContent([(1, 2), (3, 4)], [])


def test_the_third_column_is_the_position_and_the_rest_is_ignored(tmp_path: Path) -> None:
    assert got(tmp_path, b"1,2,30\n4,5,-60\n").rows == [(1, 2, 30), (4, 5, -60)]
    assert got(tmp_path, b"1,2,30,7\n4,5,60,8\n").rows == [(1, 2, 30), (4, 5, 60)]
    assert got(tmp_path, b"1,2\n3,4,5\n").rows == [(1, 2), (3, 4, 5)]


def test_the_greatest_ids_and_positions_are_accepted(tmp_path: Path) -> None:
    data = f"{ID_MAX},0,{ID_MAX}\n0,{ID_MAX},{POSITION_MIN}\n".encode()
    assert got(tmp_path, data).rows == [(ID_MAX, 0, ID_MAX), (0, ID_MAX, POSITION_MIN)]


BAD_LINES = [
    (b"7,7", SELF),
    (b"x,2", NUMBER),
    (b"1,two", NUMBER),
    (b"1.5,2", NUMBER),
    (b"1e3,2", NUMBER),
    (b"0x10,2", NUMBER),
    (b"1_000,2", NUMBER),
    (b"1 2,3", NUMBER),
    (b"1,2 3", NUMBER),
    (b"1,2,x", NUMBER),
    (b"1+2,3", NUMBER),
    (b"1\r2,3", NUMBER),
    (b"\xff,2", NUMBER),
    (b"1,2\x00", NUMBER),
    (b"9223372036854775808,2", RANGE),
    (b"1,9223372036854775808", RANGE),
    (b"10000000000000000000,2", RANGE),
    (b"99999999999999999999,2", RANGE),
    (b"-1,2", RANGE),
    (b"1,-2", RANGE),
    (b"1", SHORT),
    (b"1,", SHORT),
    (b",1", SHORT),
    (b",", SHORT),
    (b"1,,2", SHORT),  # the second column is missing, not the third
    (b",1,2", SHORT),
    (b"1,2,9223372036854775808", "position out of range"),
    (b"1,2,-9223372036854775809", "position out of range"),
]


@pytest.mark.parametrize(("bad", "reason"), BAD_LINES)
def test_a_bad_line_is_refused_with_number_and_reason_and_its_neighbours_are_read(
    tmp_path: Path, bad: bytes, reason: str
) -> None:
    for before in ([b"1,2"], [b"# head", b"1,2"], [b"source,destination", b"1,2"]):
        data = b"\n".join([*before, bad, b"3,4"]) + b"\n"
        found = got(tmp_path, data)
        assert [row[:2] for row in found.rows] == [(1, 2), (3, 4)]
        assert [line for line, _ in found.refused] == [len(before) + 1]
        assert found.refused[0][1] == reason


@pytest.mark.parametrize(("bad", "reason"), BAD_LINES)
def test_a_file_of_bad_lines_alone_is_refused_line_by_line(tmp_path: Path, bad: bytes, reason: str) -> None:
    found = got(tmp_path, b"1,2\n" + (bad + b"\n") * 3)
    assert found == FileContent([(1, 2)], [(2, reason), (3, reason), (4, reason)])


def test_a_short_and_a_long_line_do_not_make_two_good_ones(tmp_path: Path) -> None:
    assert got(tmp_path, b"1 2\n3\n4 5 6\n7 8\n", ".txt").refused == [(2, SHORT)]
    assert got(tmp_path, b"1 2\n3 4 5\n6\n7 8\n", ".txt").refused == [(3, SHORT)]
    assert got(tmp_path, b"1 2 9\n3 4\n5 6 7 8\n", ".txt").rows == [(1, 2, 9), (3, 4), (5, 6, 7)]
    assert got(tmp_path, b"1 2\n3 \n4\r5 6\n", ".txt").refused[0] == (2, SHORT)
    assert got(tmp_path, b"1 2\n3 \n4\x0b5 6\n", ".txt").refused[0] == (2, SHORT)


BAD_OBJECTS = [
    b"{", b"null", b"[1,2]", b'"text"', b"7", b"{}", b'{"source":1}', b'{"source":null,"destination":2}',
    b'{"source":"x","destination":2}', b'{"source":1,"destination":2,"position":[]}', b"[" * 5000, b"\xff\xfe",
    b'{"source":1.9,"destination":2}', b'{"source":true,"destination":2}', b'{"source":1e999,"destination":2}',
]  # fmt: skip


@pytest.mark.parametrize("bad", BAD_OBJECTS)
def test_a_row_of_ndjson_that_is_no_edge_is_refused_by_number(tmp_path: Path, bad: bytes) -> None:
    good = b'{"source":"1","destination":"2"}\n'
    found = got(tmp_path, good + bad + b"\n" + good, ".ndjson")
    assert (len(found.rows), [line for line, _ in found.refused]) == (2, [2])
    found = got(tmp_path, bad + b"\n" + good, ".ndjson")
    assert (len(found.rows), [line for line, _ in found.refused]) == (1, [1])


def test_ndjson_refuses_the_edges_that_text_refuses(tmp_path: Path) -> None:
    data = (
        b'{"source":7,"destination":7}\n{"source":-1,"destination":2}\n{"source":9223372036854775808,"destination":2}'
    )
    assert got(tmp_path, data, ".ndjson").refused == [(1, SELF), (2, RANGE), (3, RANGE)]


# The two parsers


def slow_only(path: Path, chunk_bytes: int) -> FileContent:
    """The file as the line parser reads it, without NumPy."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "parse_fast", lambda block, first_line: None)
        return all_of(path, chunk_bytes=chunk_bytes)


numbers = st.one_of(st.integers(0, 9), st.integers(0, 10**6), st.integers(ID_MAX - 2, ID_MAX)).map(str)
clean_rows = st.integers(2, 3).flatmap(lambda width: st.lists(st.lists(numbers, min_size=width, max_size=width)))


@given(
    clean_rows, st.sampled_from([",", "\t", " ", ", "]), st.sampled_from(["\n", "\r\n"]), st.booleans(), st.booleans()
)
def test_fast_and_slow_agree_on_clean_files(
    tmp_path: Path, rows: list[list[str]], separator: str, border: str, header: bool, ends: bool
) -> None:
    text = border.join([*(["from,to"] if header else []), *map(separator.join, rows)]) + border * ends
    path = put(tmp_path, text.encode())
    found = all_of(path)
    assert found == slow_only(path, formats.CHUNK_BYTES)
    assert len(found.rows) == sum(row[0] != row[1] for row in rows)
    assert len(found.rows) + len(found.refused) == len(rows)


fields = st.sampled_from(["1", "2", "3", "40", "+5", "", "9223372036854775807", "9223372036854775808", "-1", "x"])
separators = st.sampled_from([",", " ", "\t", ", ", "  ", "\r", "\x0b", "+", "#", ".", '"'])
endings = st.sampled_from(["\n", "\n", "\n", "\r\n", " \n", "\n\n", "\n "])
plain = st.sampled_from(["1", "2", "3", "40"])


def lines_of(field: st.SearchStrategy[str], separator: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Lines of one to four fields."""
    line = st.tuples(field, st.lists(st.tuples(separator, field).map("".join), max_size=3).map("".join), endings)
    return st.lists(line.map("".join), max_size=6).map("".join)


near_clean = lines_of(plain, st.sampled_from([",", " ", "\t", "\r", "+"]))


@settings(max_examples=400)
@given(st.one_of(near_clean, lines_of(fields, separators)), st.sampled_from([1, 9, 30, 1000]))
def test_fast_and_slow_agree_on_dirty_files(tmp_path: Path, text: str, chunk_bytes: int) -> None:
    path = put(tmp_path, text.encode(), ".txt")
    assert all_of(path, chunk_bytes=chunk_bytes) == slow_only(path, chunk_bytes)


def test_most_clean_chunks_are_read_by_numpy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the tests above would compare the slow parser with itself."""
    monkeypatch.setattr(lines, "parse_lines", lambda *_: pytest.fail("the slow parser was asked"))
    for data in (b"1,2\n3,4\n", b"# head\n1\t2\t3\r\n4\t5\t6\r\n", b"id_1,id_2\n5,5\n6,7\n"):
        all_of(put(tmp_path, data))


# Chunks and resuming


def chunk_borders(path: Path, chunk_bytes: int) -> Iterator[int]:
    """The number of the last line of each chunk."""
    yield from (chunk.line for chunk in read(path, chunk_bytes=chunk_bytes))


MIXED = b"from,to\n1,2\n3,3\n# five\n5,6\nx\n\n7,8\n9\n10,11,12\r\n13,14"


@pytest.mark.parametrize("how", COMPRESSIONS)
@pytest.mark.parametrize("chunk_bytes", [1, 2, 3, 5, 7, 11, 16, 40, 1000])
def test_chunk_borders_change_nothing(tmp_path: Path, chunk_bytes: int, how: str) -> None:
    path = put(tmp_path, MIXED, ".csv" + how)
    found = all_of(path, chunk_bytes=chunk_bytes)
    assert [row[:2] for row in found.rows] == [(1, 2), (5, 6), (7, 8), (10, 11), (13, 14)]
    assert found.refused == [(3, SELF), (6, SHORT), (9, SHORT)]
    assert list(chunk_borders(path, chunk_bytes))[-1] == 11


@pytest.mark.parametrize("chunk_bytes", [1, 5, 11, 1000])
@pytest.mark.parametrize("skip_lines", range(13))
def test_exactly_the_given_number_of_lines_is_skipped(tmp_path: Path, skip_lines: int, chunk_bytes: int) -> None:
    path = put(tmp_path, MIXED)
    at = {2: (1, 2), 5: (5, 6), 8: (7, 8), 10: (10, 11), 11: (13, 14)}
    found = all_of(path, skip_lines, chunk_bytes)
    assert [row[:2] for row in found.rows] == [row for line, row in at.items() if line > skip_lines]
    assert [line for line, _ in found.refused] == [line for line in (3, 6, 9) if line > skip_lines]


@given(st.lists(st.sampled_from(["1 2", "3 3", "4 5 6", "x", "", "#"])), st.integers(1, 20), st.data())
def test_resuming_after_any_chunk_gives_the_rest(
    tmp_path: Path, lines: list[str], chunk_bytes: int, data: st.DataObject
) -> None:
    path = put(tmp_path, "\n".join(lines).encode(), ".txt")
    whole = all_of(path, chunk_bytes=chunk_bytes)
    for border in chunk_borders(path, chunk_bytes):
        before = [chunk for chunk in read(path, chunk_bytes=chunk_bytes) if chunk.line <= border]
        after = all_of(path, border, data.draw(st.integers(1, 40)))
        rows = [tuple(row) for chunk in before for row in chunk.edges.tolist()]
        assert [row[:2] for row in rows + after.rows] == [row[:2] for row in whole.rows]
        assert [entry for chunk in before for entry in chunk.refused] + after.refused == whole.refused


@pytest.mark.parametrize("how", COMPRESSIONS)
def test_bytes_read_grow_to_the_size_of_the_file(tmp_path: Path, how: str) -> None:
    path = put(tmp_path, b"".join(b"%d,%d\n" % (n, n + 1) for n in range(30_000)), ".csv" + how)
    seen = [chunk.bytes_read for chunk in read(path, chunk_bytes=10_000)]
    assert seen == sorted(seen)
    assert seen[-1] == path.stat().st_size


# Damage


MANY = b"".join(b"%d %d\n" % (n, n * 7919 % 100_003 + 200_000) for n in range(20_000))


@pytest.mark.parametrize("how", [".gz", ".zst"])
@pytest.mark.parametrize("share", [0.0001, 0.1, 0.5, 0.9, 0.9999])
def test_a_compressed_file_cut_in_the_middle_says_so(tmp_path: Path, how: str, share: float) -> None:
    path = put(tmp_path, MANY, ".txt" + how)
    whole = path.read_bytes()
    path.write_bytes(whole[: max(3, int(len(whole) * share))])
    with pytest.raises(BadRequest, match="cut off or damaged"):
        all_of(path, chunk_bytes=10_000)


@pytest.mark.parametrize("how", [".gz", ".zst"])
def test_the_edges_read_from_a_cut_file_are_true(tmp_path: Path, how: str) -> None:
    """Half a number at the cut must not become an edge."""
    path = put(tmp_path, MANY, ".txt" + how)
    whole = path.read_bytes()
    rows: list[tuple[int, ...]] = []
    path.write_bytes(whole[: len(whole) // 2])
    chunks = read(path, chunk_bytes=10_000)
    with pytest.raises(BadRequest):
        rows.extend(tuple(row) for chunk in chunks for row in chunk.edges.tolist())
    assert all(destination == source * 7919 % 100_003 + 200_000 for source, destination in rows)


@pytest.mark.parametrize("how", [".gz", ".zst"])
def test_a_damaged_or_wrongly_named_file_says_so(tmp_path: Path, how: str) -> None:
    path = put(tmp_path, MANY, ".txt" + how)
    whole = path.read_bytes()
    for at in range(40, len(whole), len(whole) // 15):
        path.write_bytes(whole[:at] + bytes(byte ^ 0xFF for byte in whole[at : at + 8]) + whole[at + 8 :])
        with pytest.raises(BadRequest, match="cut off or damaged"):
            all_of(path)
    path.write_bytes(MANY)
    with pytest.raises(BadRequest, match="cut off or damaged"):
        all_of(path)


def test_a_file_without_line_ends_is_not_read_into_memory_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats, "LINE_BYTES_MAX", 20_000)
    path = put(tmp_path, b"1" * 50_000 + b"\n", ".txt")
    with pytest.raises(BadRequest, match="is it text, by lines"):
        list(read(path, chunk_bytes=10_000))
    assert len(MANY) > 20_000
    assert all_of(put(tmp_path, MANY, ".txt"))


@pytest.mark.parametrize("how", [".gz", ".zst"])
def test_concatenated_compressed_streams_are_read_as_one_file(tmp_path: Path, how: str) -> None:
    path = tmp_path / f"edges.txt{how}"
    path.write_bytes(compressed(b"1 2\n3", how) + compressed(b" 4\n5 6\n", how))
    assert all_of(path) == FileContent([(1, 2), (3, 4), (5, 6)], [])


def test_the_same_rows_are_written_as_the_same_bytes(tmp_path: Path) -> None:
    made = []
    for name in ("one.csv.gz", "one.csv.gz"):
        with EdgeFileWriter(tmp_path / name) as writer:
            writer.write(np.array([[1, 2]], np.int64))
        made.append((tmp_path / name).read_bytes())
    assert made[0] == made[1]


def test_refused_lines_are_reported_with_named_fields() -> None:
    assert RefusedLine(3, SELF) == (3, SELF)
