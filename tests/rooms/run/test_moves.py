"""What a move notes of itself, and where consumers go on."""

from __future__ import annotations

from pathlib import Path

from coroutines import Run
from edges import edge_of
from engines import EMBEDDED

from kith.core.events import LogPosition
from kith.graph.edge import EdgeWrite
from kith.run.moves import places, progress
from kith.run.moves.progress import POINTS_MAX, MoveProgress, SamePlace


def test_a_move_is_read_as_it_was_noted(tmp_path: Path) -> None:
    assert progress.read(tmp_path) is None
    noted = MoveProgress(to="keyspace kith of the cluster", table="records", after=b"\0\xff", at=b"\1" * 8, spread=[5])
    noted.reached(LogPosition(b"there"))
    progress.write(tmp_path, noted)
    assert progress.read(tmp_path) == noted
    progress.write(tmp_path, None)
    assert progress.read(tmp_path) is None


def test_of_many_places_the_first_and_the_newest_are_kept() -> None:
    noted = MoveProgress(to="there")
    for number in range(5 * POINTS_MAX):
        noted.at = number.to_bytes(8, "big")
        noted.reached(LogPosition(b"%d" % number))
        noted.reached(LogPosition(b"%d" % number))
    assert len(noted.points) <= POINTS_MAX
    assert [point.target for point in noted.points] == sorted((point.target for point in noted.points), key=int)
    assert [noted.points[at].target for at in (0, -2, -1)] == [b"0", b"4998", b"4999"]


def test_a_consumer_goes_on_at_the_last_place_that_it_has_come_to(tmp_path: Path, run: Run) -> None:
    assert EMBEDDED.logs

    async def scene() -> None:
        await logged.edges.declare(["follows"])
        ends = []
        for number in range(6):
            await logged.edges.apply([EdgeWrite(edge_of(1, 2 + number))])
            ends.append(await logged.log.end())
        points = [SamePlace(ends[at], b"%d" % at) for at in (1, 3, 4)]
        found = [places._before(logged.log, end, points) for end in ends]
        assert [None if point is None else point.target for point in found] == [None, b"1", b"1", b"3", b"4", b"4"]

    with EMBEDDED.logs(tmp_path / "data", events_max=100) as logged:
        run(scene())
