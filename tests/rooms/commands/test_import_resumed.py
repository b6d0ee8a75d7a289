"""An interrupted or killed import is finished by the next run; until then nobody can use the graph."""

from __future__ import annotations

import contextlib
import errno
import gzip
import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import IO

import msgspec
import pytest
from coroutines import Run
from edge_imports import (
    ALICE,
    ELSEWHERE,
    Silent,
    bring,
    die,
    do,
    file_of,
    graph_content,
    random_rows,
    wanted,
)
from store_wrappers import ProcessDied

from kith.commands.backup import backup
from kith.commands.edges import discard_import
from kith.core.clock import wall_ms
from kith.core.errors import BadRequest, Conflict, KithError, StoreFull, StoreMismatch, StoreUnavailable
from kith.engines.embedded.environment import Environment, WriteTransaction
from kith.engines.embedded.folder_locks import alone
from kith.graph.edge import State
from kith.run.backups import schedule
from kith.run.config import Settings
from kith.run.opening.folders import open_environment
from kith.run.serving import supervisor


def cut_short(set_to: Settings, path: Path, calls: int, **how: bool) -> None:
    """Start an import that dies when it reports progress for the `calls`-th time."""
    with pytest.raises(ProcessDied):
        bring(set_to, path, progress=Silent(calls), **how)


@pytest.mark.usefixtures("tiny", "small_chunks")
@pytest.mark.parametrize(
    ("way", "calls"),
    [*(("bulk", calls) for calls in (0, 1, 5, 13, 30, 44, 45, 46, 50, 54, 58)),  # from the 45th on it writes ranges
     *(("merge", calls) for calls in (0, 1, 5, 13, 30, 44))],
)  # fmt: skip
def test_an_import_cut_short_resumes_and_ends_the_same(set_to: Settings, tmp_path: Path, calls: int, way: str) -> None:
    if way == "merge":
        do(set_to, ("follow", 50, 51))
    rows = random_rows(7, 120, 3)
    path = file_of(tmp_path, rows)
    refused = sum(row[0] == row[1] for row in rows)
    cut_short(set_to, path, calls)
    done = bring(set_to, path)
    assert (done.way, done.refused) == (way, refused)
    assert way == "merge" or done.applied == len(wanted(rows))  # includes those written before the interruption
    assert {pair: end for pair, end in graph_content(set_to).edges.items() if pair != (50, 51)} == wanted(rows)  # type: ignore[arg-type]


class Writing(Silent):
    """Records the progress reports about writing."""

    def __init__(self) -> None:
        super().__init__()
        self.recorded: list[tuple[int, int]] = []

    def writing(self, *done_of: int) -> None:
        self.recorded.append((done_of[0], done_of[1]))


@pytest.mark.usefixtures("tiny", "small_chunks")
def test_a_resumed_import_first_reports_what_was_written_before(set_to: Settings, tmp_path: Path) -> None:
    path = file_of(tmp_path, random_rows(7, 120, 3))
    whole = Writing()
    bring(msgspec.structs.replace(set_to, data=str(tmp_path / "whole")), path, progress=whole)
    assert whole.recorded[0] == (0, whole.recorded[-1][0])
    cut_short(set_to, path, 54)
    rest = Writing()
    bring(set_to, path, progress=rest)
    assert 0 < rest.recorded[0][0] < rest.recorded[-1][0]
    assert rest.recorded == whole.recorded[-len(rest.recorded) :]


@pytest.mark.usefixtures("tiny", "small_chunks")
def test_another_file_must_wait_until_the_first_is_done(set_to: Settings, tmp_path: Path) -> None:
    first, other = file_of(tmp_path, random_rows(1, 100, 3)), file_of(tmp_path, [(1, 2)], "other.csv")
    cut_short(set_to, first, 10)
    with pytest.raises(
        Conflict, match=r"another import into 'follows' of edges.csv was cut short: run it again as it was"
    ):
        bring(set_to, other)
    bring(set_to, first)
    assert bring(set_to, other).way == "merge"


@pytest.mark.usefixtures("tiny", "small_chunks")
@pytest.mark.parametrize("way", ["bulk", "merge"])
@pytest.mark.parametrize("mutual", [False, True])
def test_an_import_resumed_with_the_other_mutual_flag_is_refused_or_redone(
    set_to: Settings, tmp_path: Path, way: str, mutual: bool
) -> None:
    rows = [(2 * n, 2 * n + 1, n) for n in range(100)]
    both = {(source, destination) for s, d, _ in rows for source, destination in ((s, d), (d, s))}
    path = file_of(tmp_path, rows)
    if way == "merge":
        do(set_to, ("follow", 0, 1))
    cut_short(set_to, path, 10, mutual=mutual)
    if way == "bulk":
        with pytest.raises(Conflict, match=rf"of edges.csv{' --mutual' if mutual else ''} was cut short"):
            bring(set_to, path, mutual=not mutual)
    elif not mutual:
        bring(set_to, path, mutual=True)
        assert graph_content(set_to).edges.keys() == both
    else:
        bring(set_to, path)
        assert both > graph_content(set_to).edges.keys() >= {row[:2] for row in rows}


@pytest.mark.usefixtures("tiny", "small_chunks")
@pytest.mark.parametrize("calls", [0, 10, 50], ids=["begun", "reading", "writing"])
def test_an_import_that_was_cut_short_can_be_dropped(set_to: Settings, tmp_path: Path, calls: int) -> None:
    path = file_of(tmp_path, random_rows(1, 100, 3))
    cut_short(set_to, path, calls)
    with pytest.raises(StoreMismatch, match=r"of edges.csv was cut short.*`kith import discard --graph follows`"):
        supervisor.prepare(set_to)
    path.unlink()
    with alone(Path(set_to.data)), pytest.raises(Conflict, match="stop it first"):
        discard_import(set_to, "follows")
    discard_import(set_to, "follows")
    supervisor.prepare(set_to)
    assert graph_content(set_to).edges == {}
    rows = random_rows(2, 100, 3)
    assert bring(set_to, file_of(tmp_path, rows, "other.csv")).way == "bulk"
    assert graph_content(set_to).edges == wanted(rows)  # type: ignore[arg-type]
    with pytest.raises(BadRequest, match="no import into an empty graph 'follows' was cut short"):
        discard_import(set_to, "follows")
    assert graph_content(set_to).edges == wanted(rows)  # type: ignore[arg-type]


@pytest.mark.usefixtures("tiny", "small_chunks")
@pytest.mark.parametrize("calls", [0, 10, 50])
def test_a_graph_half_loaded_is_not_served(set_to: Settings, tmp_path: Path, calls: int) -> None:
    path = file_of(tmp_path, random_rows(1, 100, 3))
    cut_short(set_to, path, calls)
    with pytest.raises(StoreMismatch, match="cut short"):
        supervisor.prepare(set_to)
    bring(set_to, path)
    supervisor.prepare(set_to)


@pytest.mark.usefixtures("tiny", "small_chunks")
def test_a_graph_half_loaded_is_not_served_after_an_import_into_another(set_to: Settings, tmp_path: Path) -> None:
    first = file_of(tmp_path, random_rows(1, 100, 3))
    cut_short(set_to, first, 50)
    with contextlib.suppress(Conflict):  # being told to wait for the first import is fine too
        bring(set_to, file_of(tmp_path, [(1, 2)], "other.csv"), "matches")
    with pytest.raises(StoreMismatch, match="follows"):
        supervisor.prepare(set_to)
    bring(set_to, first)
    supervisor.prepare(set_to)


@pytest.mark.usefixtures("tiny", "small_chunks")
@pytest.mark.parametrize("calls", [10, 50])
def test_a_graph_half_loaded_takes_no_other_writer(set_to: Settings, tmp_path: Path, calls: int) -> None:
    """A second import must not merge into a graph that the first one is loading in sorted order."""
    path = file_of(tmp_path, random_rows(1, 100, 3))
    cut_short(set_to, path, calls)
    with alone(Path(set_to.data)) as only:  # as the first import holds it
        assert only
        with pytest.raises(KithError):
            bring(set_to, file_of(tmp_path, [(1, 2)], "other.csv"))
    bring(set_to, path)
    graph_content(set_to)


def _spoil(folder: Path, how: str) -> None:
    """Damage a file in the working folder of an import."""
    run = next(folder.glob("*.in.npy"))
    if how == "a run is cut short":
        os.truncate(run, run.stat().st_size // 2)
    elif how == "a run is gone":
        run.unlink()
    else:
        (folder / "state.json").write_bytes(b"")


@pytest.mark.usefixtures("tiny", "small_chunks")
@pytest.mark.parametrize("how", ["a run is cut short", "a run is gone", "its state is empty"])
@pytest.mark.parametrize("calls", [30, 54], ids=["reading", "writing"])
def test_an_import_with_a_damaged_working_folder_restarts_unless_it_has_written(
    set_to: Settings, tmp_path: Path, calls: int, how: str
) -> None:
    rows = random_rows(7, 120, 3)
    path = file_of(tmp_path, rows)
    cut_short(set_to, path, calls)
    assert (Path(set_to.data) / "loading-follows").stat().st_mode & 0o077 == 0, "its edges are private"
    _spoil(Path(set_to.data) / "loading-follows", how)
    if calls == 54:
        with pytest.raises(StoreMismatch, match="gone or damaged, and with it the rest of an import; drop all of it"):
            bring(set_to, path)
        discard_import(set_to, "follows")
        bring(set_to, path)
        assert graph_content(set_to).edges == wanted(rows)
    else:
        assert bring(set_to, path).resumed_at_line == 0
        assert graph_content(set_to).edges == wanted(rows)


@pytest.fixture
def written(
    set_to: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny: None, small_chunks: None
) -> list[tuple[int, ...]]:
    """The rows of edges.csv; its load was killed after its last commit, before its working folder was removed."""

    rows = random_rows(1, 100, 3)
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", die)
        with pytest.raises(ProcessDied):
            bring(set_to, file_of(tmp_path, rows))
    return rows


ONE_MORE = (ALICE, ELSEWHERE + 5, 1)


@pytest.mark.parametrize("then", ["the same file", "another file", "a server"])
def test_a_load_killed_after_its_last_commit_is_done(
    set_to: Settings, tmp_path: Path, written: list[tuple[int, ...]], then: str
) -> None:
    if then == "the same file":
        bring(set_to, tmp_path / "edges.csv")
    elif then == "another file":
        bring(set_to, file_of(tmp_path, [ONE_MORE], "other.csv"))
        written.append(ONE_MORE)
    else:
        supervisor.prepare(set_to)
    assert graph_content(set_to).edges == wanted(written)  # type: ignore[arg-type]


def test_an_unfollow_since_a_load_killed_after_its_last_commit_is_not_undone(
    set_to: Settings, tmp_path: Path, written: list[tuple[int, ...]]
) -> None:
    def removed() -> set[tuple[int, int]]:
        return {pair for pair, (state, _) in graph_content(set_to).edges.items() if state is State.REMOVED}

    do(set_to, ("unfollow", *next(pair for pair in wanted(written))))  # type: ignore[arg-type]
    before = removed()
    assert len(before) == 1
    bring(set_to, file_of(tmp_path, [ONE_MORE], "other.csv"))
    assert removed() == before


@pytest.mark.usefixtures("tiny", "small_chunks")
def test_after_a_damaged_file_the_whole_one_can_be_imported(set_to: Settings, tmp_path: Path) -> None:
    """The message of the refusal promises this."""
    rows = [(n, n + 1, n * 7919 % 1_000_003) for n in range(600)]
    whole = gzip.compress("".join(f"{s},{d},{p}\n" for s, d, p in rows).encode())
    path = tmp_path / "edges.csv.gz"
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(BadRequest, match="run again with a whole file"):
        bring(set_to, path)
    path.write_bytes(whole)
    bring(set_to, path)
    assert graph_content(set_to).edges == wanted(rows)


@pytest.mark.usefixtures("tiny", "small_chunks")
def test_lines_refused_before_a_kill_stay_counted_and_reported(set_to: Settings, tmp_path: Path) -> None:
    path = file_of(tmp_path, [(n % 5, n % 7, n) for n in range(200)])
    selves = [n + 1 for n in range(200) if n % 5 == n % 7]
    for calls in (2, 3, 4, 5):
        cut_short(set_to, path, calls)
    assert bring(set_to, path).refused == len(selves)
    report = (Path(set_to.data) / "imports" / "edges.csv.refused.tsv").read_text().splitlines()
    assert sorted({int(line.split("\t")[0]) for line in report}) == selves


@pytest.mark.usefixtures("tiny", "small_chunks")
def test_an_import_onto_a_full_disk_says_so_and_resumes_once_there_is_room(set_to: Settings, tmp_path: Path) -> None:
    path = file_of(tmp_path, random_rows(7, 120, 3))

    def cut(target: IO[bytes], _: object) -> None:
        """Fail as numpy does, without an errno."""
        target.write(b"part")
        raise OSError("168 requested and 4 written")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("numpy.save", cut)
        with pytest.raises(StoreUnavailable, match="could not load the graph: 168 requested and 4 written"):
            bring(set_to, path)
        patch.setattr("os.statvfs", lambda _: SimpleNamespace(f_bavail=0, f_frsize=4_096))
        with pytest.raises(StoreFull, match="no room on the disk"):
            bring(set_to, path)
    assert bring(set_to, path).way == "bulk"


@pytest.mark.usefixtures("tiny", "small_chunks")
@pytest.mark.parametrize("calls", [10, 50], ids=["while it reads", "while it writes"])
def test_an_import_that_filled_the_disk_can_be_dropped(
    set_to: Settings, tmp_path: Path, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut_short(set_to, file_of(tmp_path, random_rows(7, 120, 3)), calls)
    commit = Environment.commit

    def commit_if_there_is_room(store: Environment) -> contextlib.AbstractContextManager[WriteTransaction]:
        if (store.folder / "loading-follows").exists():
            raise OSError(errno.ENOSPC, "No space left on device")
        return commit(store)

    monkeypatch.setattr(Environment, "commit", commit_if_there_is_room)
    discard_import(set_to, "follows")
    supervisor.prepare(set_to)
    assert graph_content(set_to).edges == {}


@pytest.mark.usefixtures("tiny", "small_chunks")
@pytest.mark.parametrize("calls", [10, 50], ids=["while it reads", "while it writes"])
def test_a_folder_with_an_unfinished_import_is_not_backed_up(
    run: Run, set_to: Settings, tmp_path: Path, calls: int
) -> None:
    """No backup holds what the import needs to resume."""
    path, kept = file_of(tmp_path, random_rows(7, 120, 3)), str(tmp_path / "kept")
    cut_short(set_to, path, calls)
    with pytest.raises(StoreMismatch, match=r"was cut short, or is under way: wait for it, or run the same"):
        backup(set_to, kept, whole=True)
    with open_environment(set_to, create=False) as store:
        run(schedule.run_due(set_to, schedule.open_maker(set_to, store, kept), wall_ms()))
    assert "was cut short" in schedule.read_status(set_to).error
    bring(set_to, path)
    assert backup(set_to, kept, whole=False).parts
