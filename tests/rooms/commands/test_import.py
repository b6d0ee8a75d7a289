"""An import has the result of merging its rows one by one, by either path and however often it runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from edge_imports import (
    ALICE,
    BOB,
    CAROL,
    OLD,
    archive,
    bring,
    do,
    file_of,
    graph_content,
    merge,
    random_rows,
    wanted,
    without_import_times,
)
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from kith.core.errors import BadRequest, KithError
from kith.graph.edge import State
from kith.graph.node_jobs import NodeOperation
from kith.run.config import Settings
from kith.run.opening import folders
from kith.run.serving import supervisor

# A bulk load has the result of merging


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("mutual", [False, True], ids=["one way", "mutual"])
@pytest.mark.parametrize("width", [2, 3], ids=["without positions", "with positions"])
@pytest.mark.parametrize("seed", range(4))
def test_a_bulk_load_has_the_result_of_merging(
    set_to: Settings, tmp_path: Path, seed: int, width: int, mutual: bool
) -> None:
    rows = random_rows(seed, 150, width)
    path = file_of(tmp_path, rows)
    done = bring(set_to, path, mutual=mutual)
    merged = merge(set_to, path, "matches", mutual=mutual)
    assert (done.way, merged.way) == ("bulk", "merge")
    assert (done.rows, done.refused) == (merged.rows, merged.refused)
    loaded, expected = graph_content(set_to), graph_content(set_to, "matches")
    assert without_import_times(loaded, rows) == without_import_times(expected, rows)
    assert done.applied == len(loaded.edges)
    if width == 3 and not mutual:
        assert loaded.edges == wanted(rows)  # type: ignore[arg-type]
    assert not list(Path(set_to.data).glob("loading-*"))


@examples(max_examples=12)
@given(
    rows=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6), st.sampled_from([-3, 4, 5, 1 << 50])), max_size=40)
)
@pytest.mark.usefixtures("tiny")
def test_whatever_the_rows_the_greatest_position_of_each_edge_stays(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, int, int]]
) -> None:
    folder = tmp_path_factory.mktemp("import")
    set_to = Settings(data=str(folder / "data"), durability="relaxed", graphs=("matches",))
    path = file_of(folder, rows)
    bring(set_to, path)
    merge(set_to, path, "matches")
    assert graph_content(set_to).edges == graph_content(set_to, "matches").edges == wanted(rows)


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize(
    "rows",
    [[(ALICE, BOB, OLD), (ALICE, BOB)], [(ALICE, BOB), (ALICE, BOB, OLD)]],
    ids=["position first", "position last"],
)
def test_a_row_without_a_position_beside_one_with_means_the_same_both_ways(
    set_to: Settings, tmp_path: Path, rows: list[tuple[int, ...]]
) -> None:
    path = file_of(tmp_path, rows)
    bring(set_to, path)
    merge(set_to, path, "matches")
    assert without_import_times(graph_content(set_to), rows) == without_import_times(
        graph_content(set_to, "matches"), rows
    )


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("way", [bring, merge])
def test_nobody_is_connected_to_an_archived_user_by_an_import(set_to: Settings, tmp_path: Path, way: object) -> None:
    """An edge added to an archived node is stored archived, and comes back with the node."""
    rows = [(ALICE, BOB, 10), (BOB, CAROL, 20), (ALICE, CAROL, 30)]
    archive(set_to, BOB)
    way(set_to, file_of(tmp_path, rows))  # type: ignore[operator]
    seen = graph_content(set_to)
    assert seen.edges == {
        (ALICE, BOB): (State.ARCHIVED, 10),
        (BOB, CAROL): (State.ARCHIVED, 20),
        (ALICE, CAROL): (State.NORMAL, 30),
    }
    archive(set_to, BOB, NodeOperation.RESTORE)
    assert graph_content(set_to).edges == wanted(rows)


# Into a graph in use


@pytest.mark.usefixtures("tiny")
def test_an_import_into_a_graph_in_use_adds_to_what_is_there(set_to: Settings, tmp_path: Path) -> None:
    do(set_to, ("follow", ALICE, BOB), ("follow", BOB, CAROL), ("unfollow", BOB, CAROL))
    before = graph_content(set_to).edges[ALICE, BOB]
    done = bring(set_to, file_of(tmp_path, [(ALICE, BOB), (BOB, CAROL), (CAROL, ALICE)]))
    assert (done.way, done.applied) == ("merge", 2)
    seen = graph_content(set_to).edges
    assert {pair for pair, (state, _) in seen.items() if state is State.NORMAL} == {
        (ALICE, BOB), (BOB, CAROL), (CAROL, ALICE)
    }  # fmt: skip
    assert seen[ALICE, BOB] == before


@pytest.mark.usefixtures("tiny")
def test_what_a_user_does_after_an_import_wins(set_to: Settings, tmp_path: Path) -> None:
    bring(set_to, file_of(tmp_path, [(ALICE, BOB, 2**62), (ALICE, CAROL)]))
    do(set_to, ("unfollow", ALICE, BOB), ("unfollow", ALICE, CAROL))
    assert {state for state, _ in graph_content(set_to).edges.values()} == {State.REMOVED}


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("mutual", [False, True], ids=["one way", "mutual"])
@pytest.mark.parametrize("width", [2, 3], ids=["without positions", "with positions"])
def test_the_same_file_twice_changes_nothing(set_to: Settings, tmp_path: Path, width: int, mutual: bool) -> None:
    rows = list({row[:2]: row for row in random_rows(1, 100, width)}.values())
    if mutual:  # each pair once, so that the file has no edge twice
        rows = [row for row in rows if row[0] < row[1]]
    path = file_of(tmp_path, rows)
    bring(set_to, path, mutual=mutual)
    first = graph_content(set_to)
    again = bring(set_to, path, mutual=mutual)
    assert (again.way, again.applied) == ("merge", 0)
    assert graph_content(set_to) == first


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize(
    "rows", [[(ALICE, BOB, 9), (ALICE, BOB, 5)], [(ALICE, BOB, 5), (ALICE, BOB, 9)]], ids=["falling", "rising"]
)
def test_a_file_with_an_edge_at_two_positions_changes_nothing_the_second_time(
    set_to: Settings, tmp_path: Path, rows: list[tuple[int, ...]]
) -> None:
    path = file_of(tmp_path, rows)
    bring(set_to, path)
    assert graph_content(set_to).edges == {(ALICE, BOB): (State.NORMAL, 9)}
    assert bring(set_to, path).applied == 0
    assert graph_content(set_to).edges == {(ALICE, BOB): (State.NORMAL, 9)}


@pytest.mark.parametrize("way", [bring, merge])
def test_mutual_makes_edges_both_ways_at_one_position(set_to: Settings, tmp_path: Path, way: object) -> None:
    done = way(set_to, file_of(tmp_path, [(ALICE, BOB, 7), (CAROL, CAROL, 8)]), mutual=True)  # type: ignore[operator]
    assert (done.rows, done.applied, done.refused) == (1, 2, 1)
    assert graph_content(set_to).edges == wanted([(ALICE, BOB, 7), (BOB, ALICE, 7)])


def test_a_folder_that_is_served_takes_the_merge_path(set_to: Settings, tmp_path: Path) -> None:
    supervisor.prepare(set_to)
    with folders.serving(set_to):
        done = bring(set_to, file_of(tmp_path, [(ALICE, BOB, 7)]))
    assert done.way == "merge"
    assert graph_content(set_to).edges == wanted([(ALICE, BOB, 7)])


# Refused lines


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("way", ["bulk", "merge"])
def test_refused_lines_are_counted_and_named_in_the_report(set_to: Settings, tmp_path: Path, way: str) -> None:
    if way == "merge":
        do(set_to, ("follow", 8, 9))
    path = file_of(tmp_path, [("from", "to"), (ALICE, ALICE), (ALICE, BOB), ("x", 1), (-1, 2)])  # type: ignore[list-item]
    done = bring(set_to, path)
    assert (done.way, done.rows, done.refused, done.applied) == (way, 1, 3, 1)
    report = Path(set_to.data) / "imports" / "edges.csv.refused.tsv"
    assert report.read_text() == "2\tself-edge\n4\tnot a number\n5\tid out of range\n"
    bring(set_to, path)
    assert len(report.read_text().splitlines()) == 3


def test_a_missing_file_and_an_unknown_graph_are_refused(set_to: Settings, tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="there is no file"):
        bring(set_to, tmp_path / "none.csv")
    with pytest.raises(KithError, match="nobody"):
        bring(set_to, file_of(tmp_path, [(1, 2)]), "nobody")
    do(set_to, ("follow", 8, 9))
    with pytest.raises(KithError, match="nobody"):
        bring(set_to, file_of(tmp_path, [(1, 2)]), "nobody")


@pytest.mark.parametrize("data", ["", "# nothing\n", "5,5\n"], ids=["empty", "a comment", "a self-edge"])
def test_a_file_without_edges_leaves_an_empty_graph(set_to: Settings, tmp_path: Path, data: str) -> None:
    path = tmp_path / "edges.csv"
    path.write_text(data)
    assert bring(set_to, path).applied == 0
    assert graph_content(set_to).edges == {}
    supervisor.prepare(set_to)
