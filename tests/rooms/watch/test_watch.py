"""Watchers of one process, over a small log in memory: what they are sent, and what they cost others."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import msgspec
import pytest
from cast import ALICE, BOB, FakeClock
from coroutines import Run, run_coroutine
from reference_edges import ReferenceEdges
from reference_logs import ReferenceLog
from services import Services

from kith.access.policy import ReadPolicy
from kith.core.clock import Hlc
from kith.core.errors import BadToken, StoreUnavailable
from kith.core.events import BULK_LOADED, CLAIM_TAKEN, NODE_CHANGED, NOWHERE, RECORD_CHANGED, RECORD_FORGOTTEN, Event
from kith.graph.graphs import Graphs
from kith.log.store import Batch
from kith.posts.post import Post, post_record
from kith.records.store import RecordKind
from kith.watch import watch
from kith.watch.change_filter import ChangeFilter, filter_of
from kith.watch.changes import KINDS, EdgeChanged, change_from, kind_of
from kith.watch.visibility import ChangeVisibility, PendingChange
from kith.watch.watch import POSITION_EVERY_S, READ_BYTES_TARGET, READ_EVENTS_MAX, Watch, _EventIndex

_TURNS_MAX = 10_000


class RecordingWatcher:
    """A watcher that records what it is sent."""

    frame = msgspec.json.Encoder().encode_lines
    user = None
    has_room = True

    def __init__(self, wanted: ChangeFilter) -> None:
        self.filter = wanted
        self.ended: str | None = None
        self.raw, self.place, self.sizes = b"", "", list[int]()
        self.waiting = self.waiting_most = self.heres = 0

    def write(self, raw: bytes) -> None:
        self.raw += raw
        self.sizes.append(len(raw))
        self.waiting += raw.count(b"\n")
        self.waiting_most = max(self.waiting, self.waiting_most)

    def send_position(self, token: str) -> None:
        self.heres, self.place = self.heres + 1, token

    async def wait_for_room(self) -> None:
        """Takes everything at once."""
        self.waiting = 0

    def end(self, why: str) -> None:
        self.ended = self.ended or why

    @property
    def told(self) -> list[Any]:
        return [msgspec.json.decode(line) for line in self.raw.splitlines()]


class Log(ReferenceLog):
    """Counts how often it is read."""

    reads = 0

    async def read(self, after: Any, limit: int) -> Batch:
        self.reads += 1
        return await super().read(after, limit)


class Scene:
    """A log, edges that are written to it, and its watchers. `now_s` is their clock."""

    def __init__(self) -> None:
        self.edges, self.now_s = ReferenceEdges(), 0.0
        self.log = Log(self.edges)
        self.watch = Watch(self.log, lambda: self.edges.declare(()), b"secret" * 8, cast(Any, None), lambda: self.now_s)

    async def happen(self, graph: int, count: int = 1) -> None:
        for number in range(count):
            await self.log.announce(Event(graph, None, 0, 1, number, 7, Hlc(1)))

    @asynccontextmanager
    async def watching(self, at: Any = None, **wanted: Any) -> AsyncIterator[RecordingWatcher]:
        graphs = Graphs(await self.edges.declare(()))
        watcher = RecordingWatcher(
            filter_of(wanted.get("kinds", ()), wanted.get("graphs", ()), wanted.get("nodes", ()), graphs)
        )
        await self.watch.follow(watcher, await self.log.end() if at is None else at)
        try:
            yield watcher
        finally:
            self.watch.leave(watcher)


async def until(condition: Callable[[], Any]) -> None:
    """Let other tasks run until the condition holds."""
    for _ in range(_TURNS_MAX):
        if condition():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("it never became so")


def in_scene(act: Callable[[Scene], Any]) -> None:
    async def play() -> None:
        scene = Scene()
        await scene.edges.declare(["follows"])
        try:
            await act(scene)
        finally:
            await scene.watch.close()

    run_coroutine(play())


def test_a_newly_declared_graph_is_sent_by_its_name() -> None:
    async def act(scene: Scene) -> None:
        async with scene.watching() as live:
            await scene.happen(1)
            await until(lambda: len(live.told) == 1)
            await scene.edges.declare(["boards"])
            await scene.happen(2)
            async with scene.watching(NOWHERE) as later:
                await until(lambda: len(live.told) == len(later.told) == 2)
            assert [change["graph"] for change in later.told] == ["follows", "boards"]
            assert live.told == later.told
            assert live.ended is None

    in_scene(act)


def test_a_token_of_the_future_is_refused_as_of_another_store() -> None:
    async def act(scene: Scene) -> None:
        later = Scene()
        await later.happen(1, count=2)
        token = later.watch.token(await later.log.end())
        await scene.happen(1)
        with pytest.raises(BadToken, match="another store"):
            await scene.watch.place(token)
        await scene.happen(1)
        assert await scene.watch.place(token) == await scene.log.end()

    in_scene(act)


def test_other_tasks_run_while_a_watcher_of_little_reads_a_long_log() -> None:
    async def act(scene: Scene) -> None:
        await scene.happen(1, 25 * READ_EVENTS_MAX)
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(other())
        async with scene.watching(NOWHERE, nodes=[999_999]) as watcher:
            assert watcher.told == []
        task.cancel()
        assert turns >= 5

    in_scene(act)


def test_missed_changes_are_sent_in_small_parts() -> None:
    async def act(scene: Scene) -> None:
        await scene.happen(1, 5 * READ_EVENTS_MAX + 7)
        async with scene.watching(NOWHERE) as watcher:
            assert len(watcher.told) == 5 * READ_EVENTS_MAX + 7
            assert watcher.waiting_most <= READ_EVENTS_MAX

    in_scene(act)


def test_of_a_history_of_long_posts_fewer_are_sent_at_once() -> None:
    """So a watcher that takes none of it has little buffered."""
    post = Post(7, 9, 0, "text", "long" * 500, None, (), "public", (), (), b"{}")
    event = Event(0, None, RECORD_CHANGED, RecordKind.POST, 7, 0, Hlc(1), data=post_record(post, Hlc(1)).data)

    async def act(scene: Scene) -> None:
        for _ in range(READ_EVENTS_MAX):
            await scene.log.announce(event)
        async with scene.watching(NOWHERE) as watcher:
            assert len(watcher.told) == READ_EVENTS_MAX
            assert max(watcher.sizes[1:]) <= READ_BYTES_TARGET

    in_scene(act)


@pytest.mark.parametrize("state", [RECORD_CHANGED, RECORD_FORGOTTEN, 200])
def test_records_and_events_of_a_newer_kith_are_skipped(state: int) -> None:
    """Kinds of records, and of events, that this Kith does not know."""

    async def act(scene: Scene) -> None:
        async with scene.watching() as live:
            await scene.log.announce(Event(0, None, state, max(RecordKind) + 1, 7, 0, Hlc(1), data=b"of tomorrow"))
            await scene.happen(1)
            await until(lambda: live.told)
            async with scene.watching(NOWHERE) as later:
                assert [change["kind"] for change in later.told] == ["edge"]
            assert (live.ended, later.ended) == (None, None)

    in_scene(act)


def test_a_record_that_cannot_be_read_is_reported_and_ends_no_watcher() -> None:
    async def act(scene: Scene) -> None:
        async with scene.watching() as live, scene.watching(kinds=["post"], nodes=[7]) as of_node:
            for data in (b"\xc1", b"\x90", b""):
                await scene.log.announce(Event(0, None, RECORD_CHANGED, RecordKind.POST, 7, 0, Hlc(1), data=data))
            await scene.happen(1)
            await until(lambda: len(live.told) == 4 or live.ended)
            assert [change["kind"] for change in live.told] == ["unreadable"] * 3 + ["edge"]
            assert (live.told[0]["what"], live.told[0]["id"]) == ("post", "7")
            assert (of_node.told, of_node.ended) == (live.told[:3], None)
            async with scene.watching(NOWHERE) as later:
                assert (later.told, later.ended) == (live.told, None)

    in_scene(act)


def test_a_user_whose_changes_cannot_be_read_ends_no_other_watcher() -> None:
    class Failing:
        def may_see(self, *_: Any) -> bool:
            raise ValueError("a defect")

    async def act(scene: Scene) -> None:
        scene.watch._visibility = cast(Any, Failing())
        async with scene.watching() as live, scene.watching() as of_user:
            of_user.user = cast(Any, 7)
            await scene.happen(1, 3)
            await until(lambda: len(live.told) == 3 or live.ended)
            assert (len(live.told), live.ended, of_user.ended) == (3, None, "failed")

    in_scene(act)


def test_a_watcher_that_joins_the_others_gets_each_change_once_though_the_store_is_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watch, "_RETRY_S", 0.0)

    async def act(scene: Scene) -> None:
        async with scene.watching() as live:
            await scene.happen(1, 450)
            await until(lambda: len(live.told) == 450)
            end, read, turn = await scene.log.end(), scene.log.read, 0

            async def falters(after: Any, limit: int) -> Batch:
                nonlocal turn
                turn += after != end
                if turn == 1 and after != end:
                    return Batch((), after)  # it had read this far when all the rest happened
                if turn == 3 and after != end:
                    raise StoreUnavailable("away for a moment")
                return await read(after, limit)

            scene.log.read = falters  # type: ignore[method-assign]
            async with scene.watching(NOWHERE) as late:
                await scene.happen(1)
                await until(lambda: len(live.told) == 451 and live.told[-1] in late.told)
                assert turn > 3
                assert late.told == live.told

    in_scene(act)


def test_the_log_is_not_read_while_nobody_watches() -> None:
    async def act(scene: Scene) -> None:
        async with scene.watching():
            await until(lambda: scene.log.reads > 1)
        await until(lambda: not [task for task in asyncio.all_tasks() if task.get_name() == "kith-watch"])
        read = scene.log.reads
        await scene.happen(1)
        await asyncio.sleep(0)
        assert scene.log.reads == read
        async with scene.watching() as again:
            await scene.happen(1, 3)
            await until(lambda: len(again.told) == 3)

    in_scene(act)


def test_a_watcher_of_little_gets_its_position_while_it_reads_a_long_past() -> None:
    """Otherwise a client takes the silence for a lost connection, and restarts at the same place, for ever."""

    async def act(scene: Scene) -> None:
        await scene.happen(1, 3 * READ_EVENTS_MAX)
        read = scene.log.read

        async def slow(after: Any, limit: int) -> Batch:
            scene.now_s += POSITION_EVERY_S / 2
            return await read(after, limit)

        scene.log.read = slow  # type: ignore[method-assign]
        async with scene.watching(NOWHERE, nodes=[999_999]) as watcher:
            assert watcher.heres >= 2
            assert watcher.told == []
            assert await scene.log.reached(await scene.watch.place(watcher.place))

    in_scene(act)


def test_a_watcher_of_little_gets_its_position_however_much_else_happens() -> None:
    async def act(scene: Scene) -> None:
        async with scene.watching(nodes=[999_999]) as watcher:
            read = scene.log.read

            async def busy(after: Any, limit: int) -> Batch:
                await scene.happen(1)
                scene.now_s += POSITION_EVERY_S
                return await read(after, limit)

            scene.log.read = busy  # type: ignore[method-assign]
            await until(lambda: watcher.heres > 3)
            assert watcher.told == []

    in_scene(act)


@pytest.mark.parametrize(
    "wanted", [{"graphs": ["follows"]}, {"kinds": ["edge"]}, {"nodes": [5]}, {"kinds": ["loaded"]}]
)
def test_an_import_of_a_graph_is_sent_to_all_who_watch_its_edges(wanted: dict[str, Any]) -> None:
    """Its edges are not sent one by one: a watcher without this event would keep an old list for ever."""

    async def act(scene: Scene) -> None:
        await scene.edges.declare(["likes"])
        start = await scene.log.end()
        async with scene.watching(**wanted) as live, scene.watching(graphs=["likes"]) as other:
            await scene.log.announce(Event(1, None, BULK_LOADED, 9, 0, 0, Hlc(1)))
            await scene.happen(2)
            await until(lambda: live.told and other.told)
            (loaded, *_) = live.told
            assert (loaded["kind"], loaded["graph"], loaded["edges"]) == ("loaded", "follows", 9)
            assert [one["kind"] for one in other.told] == ["edge"]
            async with scene.watching(start, **wanted) as later:
                await until(lambda: later.told)
            assert later.told[0] == loaded

    in_scene(act)


@pytest.mark.parametrize("seed", range(4))
def test_a_watcher_of_nodes_gets_the_events_about_them_and_no_others(seed: int) -> None:
    """Compared with a check of every event, for all kinds of events and any number of nodes."""
    chosen = random.Random(seed)
    graphs = Graphs({"follows": 1})
    events = [
        Event(1, None, 0, chosen.randrange(6), chosen.randrange(6), 7, Hlc(1)),
        Event(0, None, NODE_CHANGED, 3, 0, 0, Hlc(1), data=bytes([0, 0, 0])),
        Event(0, None, CLAIM_TAKEN, 3, 3, 0, Hlc(1)),
        *[Event(1, None, BULK_LOADED, 3, 0, 0, Hlc(1))] * (seed % 2),
    ] * 5 + [Event(1, None, 0, chosen.randrange(6), chosen.randrange(6), at, Hlc(1)) for at in range(20)]
    chosen.shuffle(events)
    by_node = _EventIndex(events, graphs)
    everything = frozenset(KINDS)
    for size in range(1, 9):
        for _ in range(10):
            nodes = frozenset(str(chosen.randrange(8)) for _ in range(size))
            wanted = ChangeFilter(everything, nodes=nodes)
            about = [event for event in events if kind_of(event) and wanted.matches(change_from(event, "", graphs))]
            assert by_node.of(nodes) == about
    assert by_node.of(None) is events


def test_a_user_who_reads_the_past_is_not_sent_an_expired_edge_as_live(run: Run, clock: FakeClock) -> None:
    """Neither once the log reports its end nor before."""

    async def play() -> None:
        room = await Services.in_memory(clock=clock)
        room.edges.events.now_ms = clock
        graphs, privacy = Graphs(await room.edges.declare(())), room.graph.privacy
        visibility = ChangeVisibility(room.edges, room.records, privacy, ReadPolicy(room.graph, privacy), {})

        async def states() -> list[str]:
            pending = [PendingChange(event, change_from(event, "", graphs)) for event in room.edges.log]
            changes = [change for _, change in await visibility.visible_changes(ALICE, pending, graphs)]
            return [change.state for change in changes if isinstance(change, EdgeChanged)]

        await room.people.follow(ALICE, BOB, clock.ms + 60_000)
        assert await states() == ["normal"]
        clock.ms += 60_000
        assert [await states() for _ in range(2)] == [[], ["removed"]]

    run(play())
