"""`moving` moves a store to any engine, and from any engine, while the store is written to.

The other side is a data folder, as for users of `kith move`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import msgspec
import pytest
from coroutines import Run
from edges import edge_of
from engines import EMBEDDED, Engine
from move_scene import KillableMove, MoveWrites, answers

from kith.core.clock import Hlc, wall_ms
from kith.graph.edge import EdgeWrite, State
from kith.moving import log_replay, table_copy
from kith.moving.contents import Contents
from kith.moving.store_comparison import compare, kinds
from kith.moving.store_writer import StoreSide
from kith.notifications.inbox import PERIOD_MS, InboxRow, base_of
from kith.notifications.notice import Notice, notice_record
from kith.records.store import Claim, Record, RecordKind, Write

PORT = "sides"
PERIOD = wall_ms() // PERIOD_MS


@pytest.fixture
def side(engine: Engine, tmp_path: Path, run: Run) -> Iterator[StoreSide]:
    assert engine.sides
    with engine.sides(tmp_path / "side") as opened:
        run(opened.edges.declare(["follows", "blocks"]))
        yield opened


@pytest.fixture
def folder(tmp_path: Path, run: Run) -> Iterator[StoreSide]:
    assert EMBEDDED.sides
    with EMBEDDED.sides(tmp_path / "folder") as opened:
        run(opened.edges.declare(["follows", "blocks"]))
        yield opened


async def moved(source: StoreSide, target: StoreSide, seed: int) -> KillableMove:
    """Move a store during writes, by a process that is killed now and then."""
    chosen, history, moving = random.Random(seed), MoveWrites(source, seed), KillableMove(source, target)
    for _ in range(chosen.randrange(120)):
        await history.step()
    await moving.begin()
    for _ in range(chosen.randrange(40, 120)):
        if chosen.random() < 0.5:
            await history.step()
        else:
            await moving.step()
        if chosen.random() < 0.1:
            moving.stop(chosen)
    await moving.finish()
    return moving


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_a_store_that_is_written_to_arrives_whole_whichever_process_is_killed(
    side: StoreSide, folder: StoreSide, run: Run, seed: int, back: bool
) -> None:
    async def scene(source: StoreSide, target: StoreSide) -> None:
        moving = await moved(source, target, seed)
        results = await moving.compared()
        assert [(result.kind, result.examples) for result in results if result.differing] == []
        assert sum(result.rows for result in results) > 10
        assert await answers(target) == await answers(source)

    with patch.object(table_copy, "ROWS", 5), patch.object(log_replay, "EVENTS", 7):
        run(scene(*((side, folder) if back else (folder, side))))


def test_differences_are_found_in_either_store(side: StoreSide, folder: StoreSide, run: Run) -> None:
    async def scene() -> None:
        moving = await moved(folder, side, 3)
        await side.edges.apply([EdgeWrite(edge_of(1, 2, state=State.NEGATIVE, version=10**6))])
        await side.records.put([Record(RecordKind.BOARD, 77, Hlc(1), b"of nobody")])
        await folder.inboxes.add([InboxRow(5, base_of(PERIOD) + 5)])
        await side.records.put_many([Write([], Claim(b"k" * 16, b"another", wall_ms(), 10**6))])
        await folder.edges.put_note("some/lost", b"1")
        differences = {result.kind: (result.differing, result.examples) for result in await moving.compared()}
        assert differences == {
            "accounts": (0, []),
            "edges": (1, ["(1, 1, 2)"]),
            "records": (1, ["(<RecordKind.BOARD: 13>, 77)"]),
            "claims of keys": (1, [f"{b'k' * 16!r}"]),
            "rows of inboxes": (1, [f"InboxRow(user=5, notice={base_of(PERIOD) + 5})"]),
            "notes": (1, ["some/lost"]),
        }

    run(scene())


def test_inbox_rows_removed_during_a_move_are_removed_in_the_target(
    side: StoreSide, folder: StoreSide, run: Run
) -> None:
    new_notice, old_notice = base_of(PERIOD), base_of(PERIOD - 1)
    stays, removed_row, of_removed, expired_row = (
        InboxRow(4, new_notice),
        InboxRow(5, new_notice),
        InboxRow(6, new_notice),
        InboxRow(7, old_notice),
    )

    async def rows() -> set[object]:
        return set(await all_of(side.contents, "inbox_rows", 1_000))

    async def scene() -> None:
        moving = KillableMove(folder, side)
        await folder.records.put([notice_record(Notice(old_notice, "follow", 1, 7, wall_ms()), Hlc(1))])
        await folder.inboxes.add([stays, removed_row, of_removed, expired_row])
        await moving.begin()
        await moving.catch_up()
        assert await rows() == {stays, removed_row, of_removed, expired_row}
        await folder.inboxes.remove(5, [new_notice])
        await folder.edges.change_node(6, state=State.REMOVED)
        await folder.inboxes.remove_all(6)
        await folder.inboxes.expire(PERIOD * PERIOD_MS)
        await folder.records.forget_below(RecordKind.NOTICE, new_notice, 10)
        await moving.finish()
        assert await rows() == {stays, removed_row}, "the log holds removed accounts and expired weeks, not single rows"
        row_kind = {kind.name: kind for kind in kinds(wall_ms)}["rows of inboxes"]
        assert (await compare(row_kind, folder, side, moving.catch_up)).differing == 1
        mended = {kind.name: kind for kind in kinds(wall_ms, moving=True)}["rows of inboxes"]
        assert (await compare(mended, folder, side, moving.catch_up)).differing == 0
        assert await rows() == {stays}

    run(scene())


async def all_of(contents: Contents, table: str, limit: int) -> list[object]:
    """All rows of a table, read in parts of `limit`."""
    rows: list[object] = []
    after, is_first = None, True
    while is_first or after is not None:
        is_first = False
        part = await getattr(contents, table)(after, limit)
        assert len(part.rows) <= limit
        rows += part.rows
        after = part.after
    return rows


@pytest.mark.parametrize("limit", [1, 2, 1_000])
def test_contents_are_listed_once_in_parts_of_any_size(side: StoreSide, run: Run, limit: int) -> None:
    users = [1, 2, 4_095, 4_096, 2**40, 2**41 + 1, 2**63 - 1]
    rows = {InboxRow(user, base_of(PERIOD - week) + offset) for user in users for week in (0, 1) for offset in (0, 9)}
    edges = [edge_of(n, n + k + 1, version=n + k) for n in range(4) for k in range(3)]
    edges.append(msgspec.structs.replace(edge_of(9, 8), graph=2))
    records = [Record(kind, id_, Hlc(7), b"%d" % id_) for kind in RecordKind for id_ in (0, 3, 2**63 - 1)]
    claims = [Claim(bytes([n]) * 16, b"%d" % n, wall_ms(), 10**6) for n in range(5)]

    async def scene() -> None:
        await side.inboxes.add(list(rows))
        await side.edges.apply([EdgeWrite(edge, as_is=True) for edge in edges])
        await side.records.put(records)
        await side.records.put_many([Write([], claim) for claim in claims])
        for node in (0, 5, 2**63 - 1):
            await side.edges.change_node(node, private=True)
        for n in range(3):
            await side.edges.put_note(f"note/{n}", b"%d" % n)
        contents = side.contents
        listed = await all_of(contents, "inbox_rows", limit)
        assert (len(listed), set(listed)) == (len(rows), rows)
        assert sorted(map(repr, await all_of(contents, "edges", limit))) == sorted(map(repr, edges))
        assert sorted(map(repr, await all_of(contents, "records", limit))) == sorted(map(repr, records))
        listed_claims = await all_of(contents, "claims", limit)
        assert sorted(listed_claims) == sorted(
            (written_claim.key, written_claim.now_ms + written_claim.keep_ms, written_claim.value)
            for written_claim in claims
        )
        assert sorted(row[0] for row in await all_of(contents, "nodes", limit)) == [0, 5, 2**63 - 1]  # type: ignore[index]
        assert {key: note for key, note in (await contents.notes()).items() if key.startswith("note/")} == {
            f"note/{n}": b"%d" % n for n in range(3)
        }

    run(scene())


def test_a_secret_is_replaced(side: StoreSide, run: Run) -> None:
    async def scene() -> None:
        await side.contents.put_secret("signing", b"1" * 32)
        await side.contents.put_secret("signing", b"2" * 32)
        assert (await side.contents.secrets())["signing"] == b"2" * 32

    run(scene())
