"""A store that is a standby's, or was fenced, takes no writes; and a promotion is one step that can be repeated."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from coroutines import Run
from edges import G, edge_of, writes_of
from embedded_engine import open_embedded

from kith.core.clock import Hlc, HybridClock
from kith.core.errors import Conflict, NotPrimary, ReadOnlyStandby, StoreMismatch, StoreMoved, TokenTooOld
from kith.core.events import RECORD_CHANGED, Event, LogPosition
from kith.engines.embedded import group_checkpoints, segments, shipping, store_role
from kith.engines.embedded.changes import announced, edge_changed
from kith.engines.embedded.closed_note import ClosedNote
from kith.engines.embedded.confirmations import ConfirmedEvent
from kith.engines.embedded.edge_store import EmbeddedEdges
from kith.engines.embedded.environment import Environment
from kith.engines.embedded.event_log import LogWriter
from kith.engines.embedded.event_rows import EVENTS_PER_ROW
from kith.engines.embedded.history import HISTORY, StorePositions
from kith.engines.embedded.journal import JOURNAL_FILE
from kith.engines.embedded.log_store import EmbeddedLog
from kith.engines.embedded.shipping import SNAPSHOT_END, Shipping
from kith.engines.embedded.store_file import STORE_FILE
from kith.graph.edge import EdgeWrite, State
from kith.log.store import Failure
from kith.records.store import RecordKind
from kith.run.config import Settings
from kith.run.machines.following import StandbyFollower
from kith.run.opening import wiring
from kith.run.opening.folders import refuse_closed
from kith.standby.source import Epoch
from kith.watch.watch import Watch

OLD, NEW = "http://old", "http://new"


@pytest.fixture
def primary(tmp_path: Path, run: Run) -> Iterator[tuple[Environment, EmbeddedEdges]]:
    """A store with one edge."""
    with open_embedded(tmp_path / "primary") as (environment, edges):
        run(edges.declare(["follows"]))
        run(edges.apply(writes_of(edge_of(1, 2))))
        yield environment, edges


@pytest.fixture
def standby(tmp_path: Path, primary: tuple[Environment, EmbeddedEdges], run: Run) -> Path:
    """The folder of a standby of the primary, made from a snapshot."""
    folder = tmp_path / "standby"
    folder.mkdir()
    (folder / STORE_FILE).write_bytes(run(snapshot_of(primary[0])))
    with Environment(folder) as store:
        store_role.close_to_writes(store, ClosedNote("standby", OLD))
        store.sync()
    return folder


def following(folder: Path) -> Environment:
    """A standby's store, opened to follow."""
    return Environment(folder, follows=True)


async def snapshot_of(environment: Environment) -> bytes:
    """A snapshot without its end marker."""
    source = Shipping(environment)
    try:
        snapshot = b"".join([chunk async for chunk in source.snapshot()])
    finally:
        await source.close()
    return snapshot[: -len(SNAPSHOT_END) - 32]


def ship(source: Environment, target: Environment) -> int:
    """Bring `target` up to date with `source`."""
    return segments.replay(target, segments.next_segment(source, segments.last_event(target), 1 << 20))


def test_a_standby_takes_the_log_of_its_primary_and_nothing_else(
    primary: tuple[Environment, EmbeddedEdges], standby: Path, run: Run
) -> None:
    run(primary[1].apply(writes_of(edge_of(1, 3))))
    with following(standby) as store:
        assert ship(primary[0], store) == segments.last_event(primary[0]) == 2
    with open_embedded(standby) as (_, edges):
        assert run(edges.exists_many(1, [(1, 2), (1, 3)])) == [True, True]
        with pytest.raises(ReadOnlyStandby) as raised:
            run(edges.apply(writes_of(edge_of(1, 4))))
        assert raised.value.details == {"primary": OLD}
        with pytest.raises(ReadOnlyStandby):
            run(edges.put_note("any", b"1"))


def test_a_standby_keeps_events_of_a_newer_primary_whole(
    primary: tuple[Environment, EmbeddedEdges], standby: Path, run: Run
) -> None:
    """A record of a kind that this Kith does not know, and an edge with more fields after its expiry."""
    record = announced(Event(0, None, RECORD_CHANGED, max(RecordKind) + 1, 7, 0, Hlc(1))) + b"of tomorrow"
    edge = edge_changed(None, msgspec.structs.replace(edge_of(1, 3), expires_ms=1 << 50)) + b"of tomorrow"
    with primary[0].commit() as write:
        writer = LogWriter(write.txn, primary[0].log)
        for event in (record, edge):
            writer.append(event)
        writer.flush()

    with following(standby) as store:
        StandbyFollower(Settings(data=str(standby)), store, cast(Any, Direct(primary[0], run))).step(0)
        assert all(segments.event_at(store, number) == segments.event_at(primary[0], number) for number in (2, 3))


def test_shipped_events_are_there_after_a_replay_of_the_journal(
    primary: tuple[Environment, EmbeddedEdges], standby: Path, run: Run, tmp_path: Path
) -> None:
    run(primary[1].apply(writes_of(edge_of(1, 3))))
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    with following(standby) as store:
        base = (standby / STORE_FILE).read_bytes()  # as a power cut may leave it, with the journal whole
        ship(primary[0], store)
        (crashed / STORE_FILE).write_bytes(base)
        (crashed / JOURNAL_FILE).write_bytes((standby / JOURNAL_FILE).read_bytes())
    with Environment(crashed) as opened:
        assert segments.last_event(opened) == 2
        shipped, original = segments.next_segment(opened, 1, 1 << 20), segments.next_segment(primary[0], 1, 1 << 20)
        assert list(segments.numbered(shipped)) == list(segments.numbered(original)), "logged times included"


def test_a_fenced_store_acknowledges_nothing_more(
    primary: tuple[Environment, EmbeddedEdges], standby: Path, run: Run
) -> None:
    with following(standby) as store:
        epoch = store_role.begin_promotion(store)
    assert store_role.fence(primary[0], epoch, NEW) == 1
    assert store_role.fence(primary[0], epoch, NEW) == 1, "fencing may be repeated"
    with pytest.raises(NotPrimary) as raised:
        run(primary[1].apply(writes_of(edge_of(1, 3))))
    assert raised.value.details == {"primary": NEW}
    assert segments.last_event(primary[0]) == 1


def test_a_store_that_was_moved_acknowledges_nothing_more_and_says_where_it_is(
    primary: tuple[Environment, EmbeddedEdges], run: Run
) -> None:
    store_role.close_to_writes(primary[0], ClosedNote("moved", "keyspace kith of the cluster"))
    with pytest.raises(StoreMoved, match="was moved to keyspace kith of the cluster") as raised:
        run(primary[1].apply(writes_of(edge_of(1, 3))))
    assert raised.value.details == {"to": "keyspace kith of the cluster"}
    with pytest.raises(StoreMismatch, match=r"kith move .* --back"):
        refuse_closed(primary[0])
    primary[0].reopen()
    run(primary[1].apply(writes_of(edge_of(1, 3))))
    assert segments.last_event(primary[0]) == 2


def test_only_a_newer_epoch_fences_and_only_one_of_two(
    primary: tuple[Environment, EmbeddedEdges], standby: Path
) -> None:
    for no_newer in (Epoch([]), store_role.epoch_of(primary[0])):
        with pytest.raises(Conflict):
            store_role.fence(primary[0], no_newer, NEW)
    with following(standby) as store:
        store_role.fence(primary[0], store_role.begin_promotion(store), NEW)
    with pytest.raises(Conflict, match="http://new was made the primary already"):
        store_role.fence(primary[0], Epoch([(77, 0)]), "http://third")


def test_a_promotion_that_was_cut_short_resumes_with_its_epoch(
    primary: tuple[Environment, EmbeddedEdges], standby: Path
) -> None:
    with following(standby) as store:
        first = store_role.begin_promotion(store)
    with following(standby) as store:
        assert store_role.begin_promotion(store) == first
        result = store_role.promote(store, None)
        assert (result.epoch, result.shared) == (first.restores[-1][0], 1)
        assert store_role.read_closed_note(store) is None
        with pytest.raises(Conflict):
            store_role.promote(store, None)
        with pytest.raises(Conflict, match="no standby any more"):
            ship(primary[0], store)


def promoted(folder: Path) -> Path:
    """The folder of a standby, made a primary without notifying the old one."""
    with following(folder) as store:
        store_role.begin_promotion(store)
        store_role.promote(store, None)
    return folder


def test_tokens_of_shipped_events_hold_at_the_new_primary_and_others_do_not(
    primary: tuple[Environment, EmbeddedEdges], standby: Path, run: Run
) -> None:
    def place() -> LogPosition:
        return primary[0].positions.of(segments.last_event(primary[0]))

    shipped = place()
    run(primary[1].apply(writes_of(edge_of(1, 3))))  # which is never shipped
    lost_position = place()
    with open_embedded(promoted(standby)) as (environment, edges):
        run(edges.apply(writes_of(edge_of(1, 4), edge_of(1, 5))))
        log = EmbeddedLog(environment, edges._commits)
        assert run(log.reached(shipped))
        assert not run(log.reached(lost_position))


def test_a_watcher_of_the_primary_resumes_at_a_standby_that_is_behind(
    primary: tuple[Environment, EmbeddedEdges], standby: Path, run: Run
) -> None:
    run(primary[1].apply(writes_of(edge_of(1, 3))))
    no_observer: Any = None
    with following(standby) as store:

        def watching(environment: Environment) -> Watch:
            return Watch(EmbeddedLog(environment, no_observer), no_observer, bytes(32), no_observer, time.monotonic)

        async def scene() -> None:
            place = await watching(primary[0]).place(None)
            resuming = asyncio.create_task(watching(store).place(watching(primary[0]).token(place)))
            await asyncio.sleep(0)
            ship(primary[0], store)
            assert await resuming == place

        run(scene())


class Direct:
    """A primary without HTTP."""

    url = OLD

    def __init__(self, source: Environment, run: Run) -> None:
        self._source, self._run = source, run

    def log(self, after: int, has: int | None, wait_ms: int, **more: Any) -> bytes | None:
        async def asked() -> bytes | None:
            source = Shipping(self._source)
            try:
                return await source.log(after, has, wait_ms / 1000, **more)
            finally:
                await source.close()

        return self._run(asked())


def test_consumers_of_a_new_primary_resume_where_the_old_ones_were(
    primary: tuple[Environment, EmbeddedEdges], standby: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They resume once everything that the old ones handled has arrived. Their failures come along, up to a bound, and
    failures that were repaired go. Fan-out restarts, as timelines do.
    """
    environment, edges = primary
    log, position_of = EmbeddedLog(environment, edges._commits), environment.positions.of
    for followed in range(3, 3 + 2 * EVENTS_PER_ROW):
        run(edges.apply(writes_of(edge_of(1, followed))))
    last = segments.last_event(environment)
    for group in ("webhook/7", "push", "boards", "fanout"):
        run(log.save(group, position_of(last - 1 if group == "push" else last), {}))
    failed = [Failure("boards", event, 1, "why", 0, 0) for event in run(log.read(position_of(last - 6), 3)).events]
    run(log.save("boards", None, {failure.event.log_position: failure for failure in failed}))
    run(log.save("push", None, {failed[0].event.log_position: failed[0]}))
    monkeypatch.setattr(shipping, "SEGMENT_BYTES", 1)
    monkeypatch.setattr(group_checkpoints, "FAILURES_MAX", 2)

    with following(standby) as store:
        follower = StandbyFollower(Settings(data=str(standby)), store, cast(Any, Direct(environment, run)))
        assert not follower.step(0)
        assert not store.notes("group/")
        store.put_note(f"failure/boards/{1:020}", b"was mended since")
        is_level = False
        while not is_level:
            before = store.lmdb.info()["last_txnid"]
            is_level = follower.step(0)
            assert store.lmdb.info()["last_txnid"] == before + 1, "progress is in the commit of the last events"
    with open_embedded(promoted(standby)) as (new_primary, new_edges):
        its_log = EmbeddedLog(new_primary, new_edges._commits)
        progress = {group: run(its_log.progress(group)) for group in ("webhook/7", "push", "boards")}
        assert {group: saved and saved.behind.events for group, saved in progress.items()} == {
            "webhook/7": 0, "push": 1, "boards": 4
        }  # fmt: skip
        groups = ("boards", "push")
        failures = {group: [item.event.destination for item in run(its_log.failures(group))] for group in groups}
        first, second, _ = (failure.event.destination for failure in failed)
        assert failures == {"boards": [first, second], "push": [first]}
        assert new_primary.get_note("group/fanout") is None


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_standby_whose_clock_is_off_takes_over_with_versions_above_all_shipped_ones(
    primary: tuple[Environment, EmbeddedEdges], standby: Path, run: Run, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    """The same in reverse: the old primary follows it and takes over again, with a clock that was right."""
    now_ns, moved_ns = time.time_ns, 3_600_000_000_000
    shipped_version = HybridClock().next()
    run(primary[1].apply([EdgeWrite(msgspec.structs.replace(edge_of(1, 3), updated_at=shipped_version))]))
    with following(standby) as store:
        ship(primary[0], store)

    async def unfollow(folder: Path) -> Hlc:
        async with wiring.open_stores(Settings(data=str(folder)), "test", create=False) as stores:
            version = stores.graph.clock.next()
            removed = msgspec.structs.replace(edge_of(1, 3), state=State.REMOVED, updated_at=version)
            await stores.store.apply([EdgeWrite(removed)])
            assert await stores.store.exists_many(G, [(1, 3)]) == [False]
            return version

    monkeypatch.setattr(time, "time_ns", lambda: now_ns() + hours * moved_ns)
    later = run(unfollow(promoted(standby)))
    assert later > shipped_version
    monkeypatch.undo()
    with Environment(standby, create=False) as new_primary:
        ship(new_primary, primary[0])
    clock = HybridClock()
    primary[1].restore_clock(clock)
    assert clock.next() > later


def test_an_old_primary_without_events_of_its_own_follows_the_new_one(
    primary: tuple[Environment, EmbeddedEdges], standby: Path, run: Run
) -> None:
    with open_embedded(promoted(standby)) as (new_primary, edges):
        run(edges.apply(writes_of(edge_of(1, 4))))
        assert ship(new_primary, primary[0]) == 2
        assert primary[0].history() == new_primary.history()


def test_an_old_primary_with_events_of_its_own_is_refused(
    primary: tuple[Environment, EmbeddedEdges], standby: Path, run: Run
) -> None:
    run(primary[1].apply(writes_of(edge_of(1, 3))))
    with open_embedded(promoted(standby)) as (new_primary, edges):
        for friend in (4, 5, 6):
            run(edges.apply(writes_of(edge_of(1, friend))))
        with pytest.raises(Conflict, match="events of its own"):
            ship(new_primary, primary[0])


def test_a_read_of_forgotten_events_is_refused(primary: tuple[Environment, EmbeddedEdges], run: Run) -> None:
    primary[0].put_note("log/whole-after", b"1")

    async def asked() -> None:
        source = Shipping(primary[0])
        try:
            await source.log(0, None, 0)
        finally:
            await source.close()

    with pytest.raises(TokenTooOld):
        run(asked())


def test_confirmations_of_a_standby_count_for_its_history_only(tmp_path: Path) -> None:
    first, other = ConfirmedEvent(tmp_path, 0), ConfirmedEvent(tmp_path, 7)
    first.note(5)
    first.note(3)
    assert (first.sequence(), other.sequence()) == (5, 0)
    other.note(1)
    assert (first.sequence(), other.sequence()) == (0, 1)
    first.close()
    other.close()


def test_events_of_another_history_on_a_standby_confirm_nothing(
    primary: tuple[Environment, EmbeddedEdges], standby: Path, run: Run
) -> None:
    """A primary that was restored, or lost events in a power cut, gives their numbers to other events."""
    with following(standby) as store:
        follower = StandbyFollower(Settings(data=str(standby)), store, cast(Any, Direct(primary[0], run)))
        while not follower.step(0):
            pass
        primary[0].begin_history()
        with closing(ConfirmedEvent(primary[0].folder, primary[0].history().name)) as confirmed:
            follower.step(0)
            assert (confirmed.sequence(), store.history()) == (0, primary[0].history())
            follower.step(0)
            assert confirmed.sequence() == segments.last_event(store)


def test_a_process_of_a_standby_adopts_the_history_that_another_writes(standby: Path, run: Run) -> None:
    """The process that follows the primary writes it, after another machine was promoted and is followed now."""
    with Environment(standby, follows=True) as store:
        log = EmbeddedLog(store, cast(Any, None))
        before, _ = run(log.end()), run(log.read(LogPosition(b""), 10))
        history = store.history().restored(segments.last_event(store))
        store.put_note(HISTORY, msgspec.json.encode(history.restores))
        token = StorePositions(history).of(segments.last_event(store))
        assert run(log.reached(token))
        assert run(log.reached(before))
        assert run(log.end()) == token
        batch = run(log.read(LogPosition(b""), 10))
        assert (batch.next, batch.lost) == (token, False)
