"""What a move records about itself, and where consumers resume after it."""

from __future__ import annotations

import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock, patch

import msgspec
import pytest
from cast import START_MS
from coroutines import Run
from edges import edge_of
from engines import EMBEDDED
from reference_credentials import ReferenceCredentials
from small_s3 import small_s3
from store_types import Logged

from kith.core.clock import Hlc, wall_ms
from kith.core.errors import StoreUnavailable
from kith.core.events import LogPosition
from kith.engines.blobs.blob_store import FolderBlobs, open_blobs
from kith.graph.edge import EdgeWrite
from kith.log.store import Failure
from kith.media.blobs import BlobStore
from kith.media.media import Media, keys_of, media_record
from kith.moving import store_writer
from kith.moving.store_writer import StoreSide, StoreWriter
from kith.run.moves import progress, resume_positions
from kith.run.moves.mover import Mover
from kith.run.moves.progress import POINTS_MAX, MatchingPositions, MoveProgress
from kith.run.opening.stores import OpenStores


def test_the_progress_of_a_move_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert progress.read(tmp_path) is None
    noted = MoveProgress(to="keyspace kith of the cluster", table="records", after=b"\0\xff", at=b"\1" * 8, spread=[5])
    noted.note_match(LogPosition(b"there"))
    progress.write(tmp_path, noted)
    assert progress.read(tmp_path) == noted
    progress.write(tmp_path, None)
    assert progress.read(tmp_path) is None


def test_of_many_points_the_first_and_the_newest_are_kept() -> None:
    noted = MoveProgress(to="there")
    for number in range(5 * POINTS_MAX):
        noted.at = number.to_bytes(8, "big")
        noted.note_match(LogPosition(b"%d" % number))
        noted.note_match(LogPosition(b"%d" % number))
    assert len(noted.points) <= POINTS_MAX
    assert [point.target for point in noted.points] == sorted((point.target for point in noted.points), key=int)
    assert [noted.points[at].target for at in (0, -2, -1)] == [b"0", b"4998", b"4999"]


async def six_follows(logged: Logged) -> list[LogPosition]:
    """Write follows one after the other; return the end of the log after each."""
    await logged.edges.declare(["follows"])
    ends = []
    for number in range(6):
        await logged.edges.apply([EdgeWrite(edge_of(1, 2 + number))])
        ends.append(await logged.log.end())
    return ends


def test_a_consumer_resumes_at_the_last_point_that_it_has_passed(tmp_path: Path, run: Run) -> None:
    assert EMBEDDED.logs

    async def scene() -> None:
        ends = await six_follows(logged)
        points = [MatchingPositions(ends[at], b"%d" % at) for at in (1, 3, 4)]
        found = [resume_positions._before(logged.log, end, points) for end in ends]
        assert [None if point is None else point.target for point in found] == [None, b"1", b"1", b"3", b"4", b"4"]

    with EMBEDDED.logs(tmp_path / "data", events_max=100) as logged:
        run(scene())


def test_on_the_way_back_a_consumer_misses_no_event_that_it_has_not_handled(tmp_path: Path, run: Run) -> None:
    assert EMBEDDED.logs
    groups = ["early", "failing", "far", "new"]

    async def scene() -> None:
        ends = await six_follows(logged)
        failed = (await logged.log.read(ends[1], 1)).events[0]
        for group, end in (("early", ends[0]), ("failing", ends[5]), ("far", ends[5])):
            await logged.log.save(group, end, {})
        await logged.log.save("failing", None, {failed.log_position: Failure("failing", failed, 1, "x", 0, 0)})
        points = [MatchingPositions(ends[at], b"%d" % at) for at in (1, 3, 4)]
        found = await resume_positions.positions_in_folder(SimpleNamespace(log=logged.log), points)  # type: ignore[arg-type]
        assert [(place.group, place.at) for place in found] == [("failing", b"1"), ("far", b"4"), ("new", b"4")]

    with (
        EMBEDDED.logs(tmp_path / "data", events_max=100) as logged,
        patch.object(resume_positions, "groups_of", AsyncMock(return_value=groups)),
    ):
        run(scene())


def test_a_server_key_that_is_revoked_during_a_move_is_not_valid_after_it(run: Run) -> None:
    async def keys_of_target(source: OpenStores, target: OpenStores) -> list[bytes]:
        for key in (b"kept", b"leaked"):
            await source.credentials.add_server_key(key)
        mover = Mover(source, None, None, Path(), MoveProgress(to="there"), lambda *_: None)  # type: ignore[arg-type]
        await mover.copy_credentials(source, target)
        await source.credentials.remove_server_key(b"leaked")
        await source.credentials.add_server_key(b"new")
        await mover.copy_credentials(source, target)
        return sorted(await target.credentials.server_keys())

    sides: list[Any] = [
        SimpleNamespace(
            credentials=ReferenceCredentials(), contents=SimpleNamespace(secrets=AsyncMock(return_value={})), log=None
        )
        for _ in range(2)
    ]
    assert run(keys_of_target(*sides)) == [b"kept", b"new"]


def test_a_file_that_arrives_incomplete_is_an_error() -> None:
    class Short(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"x" * 10)

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Short) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(StoreUnavailable, match="IncompleteRead"):
            store_writer._open_file(f"http://127.0.0.1:{server.server_address[1]}/file?signature=secret")
        server.shutdown()


def test_media_files_move_to_a_bucket_and_back_without_missing_ones(tmp_path: Path, run: Run) -> None:
    media = [Media(at, 1, START_MS, "jpg", 1, 1, 3, 0, bytes([at]) * 16) for at in range(3)]
    records = [media_record(one, Hlc(1)) for one in media]

    async def copied(source: BlobStore, target: BlobStore) -> None:
        one, other = (StoreSide(None, None, None, None, None, blobs) for blobs in (source, target))  # type: ignore[arg-type]
        await StoreWriter(one, other, wall_ms).files(records)

    async def scene() -> None:
        here, there, back = (
            FolderBlobs(tmp_path / "here", sync=False),
            bucket(),
            FolderBlobs(tmp_path / "b", sync=False),
        )
        for one in media[:2]:
            for key in keys_of(one):
                await here.put(key, key.encode(), "image/jpeg")
        await copied(here, there)
        await copied(here, there)
        await copied(there, back)
        assert {file.read_bytes() for file in (tmp_path / "b").rglob("*.*")} == {
            key.encode() for one in media[:2] for key in keys_of(one)
        }
        records[0] = media_record(msgspec.structs.replace(media[0], deleted=True), Hlc(2))
        await copied(there, back)
        assert len([*(tmp_path / "b").rglob("*.*")]) == 2

    def bucket() -> BlobStore:
        return open_blobs("s3://bucket/some/prefix", tmp_path, sync=True)

    with small_s3() as server, patch.dict(os.environ, server.environment):
        run(scene())
