"""Watchers of a log in partitions, read in another order each time: each change once, each source in its order."""

from __future__ import annotations

import asyncio
import random
from typing import Any, cast

import msgspec
import pytest
from coroutines import run_coroutine
from reference_edges import ReferenceEdges
from reference_logs import HostileLog, Partitions, ReferenceLog
from scrambled_edges import ScrambledEdges

from kith.core.clock import Hlc
from kith.core.events import NOWHERE, Event, LogPosition
from kith.graph.graphs import Graphs
from kith.watch.change_filter import ChangeFilter, filter_of
from kith.watch.watch import READ_EVENTS_MAX, Watch

SOURCES, EVENTS, _TURNS_MAX = 7, 400, 20_000


class Reader:
    """A watcher that takes its changes in parts: it has room for `room_max` of them."""

    frame = msgspec.json.Encoder().encode_lines
    user = None

    def __init__(self, wanted: ChangeFilter, room_max: int = 10**9) -> None:
        self.filter, self._room_max = wanted, room_max
        self.ended: str | None = None
        self.told: list[dict[str, Any]] = []
        self.waiting, self.most, self.asked = 0, 0, 0

    @property
    def has_room(self) -> bool:
        return self.waiting < self._room_max

    def write(self, raw: bytes) -> None:
        lines = raw.splitlines()
        self.told += [msgspec.json.decode(line) for line in lines]
        self.waiting += len(lines)
        self.most = max(self.most, len(lines))

    def send_position(self, token: str) -> None:
        """Nothing to note."""

    async def wait_for_room(self) -> None:
        self.asked += 1
        await asyncio.sleep(0.01)
        self.waiting = 0

    def end(self, why: str) -> None:
        self.ended = self.ended or why


def hostile(seed: int) -> ReferenceLog:
    return HostileLog(ScrambledEdges(seed, events=Partitions(3, random.Random(seed))), random.Random(seed))


def plain(seed: int) -> ReferenceLog:
    return ReferenceLog(ReferenceEdges())


async def happen(log: ReferenceLog, chance: random.Random) -> None:
    """Announce all events, in bursts."""
    for number in range(EVENTS):
        await log.announce(Event(1, None, 0, chance.randrange(SOURCES), number, 7, Hlc(1)))
        if chance.random() < 0.05:
            await asyncio.sleep(0.01)


async def until(condition: Any) -> None:
    for _ in range(_TURNS_MAX):
        if condition():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("it never became so")


def check(told: list[dict[str, Any]], sources: set[int]) -> None:
    """Check that these are changes of the sources, each once and in order."""
    numbers = {source: [int(one["destination"]) for one in told if one["source"] == str(source)] for source in sources}
    assert all(found == sorted(set(found)) for found in numbers.values())
    assert len(told) == sum(map(len, numbers.values()))


def watch_of(log: ReferenceLog) -> Watch:
    async def graphs() -> dict[str, int]:
        return {"follows": 1}

    return Watch(log, graphs, b"secret" * 8, cast(Any, None), lambda: 0.0)


GRAPHS = Graphs({"follows": 1})


@pytest.mark.parametrize("open_", [plain, hostile])
@pytest.mark.parametrize("seed", range(4))
def test_a_watcher_that_comes_back_with_its_token_gets_each_change_once(open_: Any, seed: int) -> None:
    async def play() -> None:
        chance, log = random.Random(seed), open_(seed)
        watch = watch_of(log)
        some = {2, 5}
        writing = asyncio.create_task(happen(log, random.Random(seed)))
        whole, told, at = Reader(filter_of((), (), (), GRAPHS)), list[dict[str, Any]](), NOWHERE
        following = asyncio.create_task(watch.follow(whole, NOWHERE))
        while len(told) < EVENTS:
            reader = Reader(filter_of((), (), (), GRAPHS))
            await watch.follow(reader, at)
            enough = min(EVENTS - len(told), chance.randint(1, 90))
            await until(lambda reader=reader, enough=enough: len(reader.told) >= enough)
            watch.leave(reader)
            reader.end("gone")
            told += reader.told
            found = watch.place(told[-1]["token"])
            at = await found
        await writing
        check(told, set(range(SOURCES)))
        await following
        await until(lambda: len(whole.told) == EVENTS)
        check(whole.told, set(range(SOURCES)))
        narrow = Reader(filter_of((), (), tuple(some), GRAPHS))
        middle = [one for one in whole.told if int(one["source"]) in some][10]
        await watch.follow(narrow, await watch.place(middle["token"]))
        rest = [one["destination"] for one in whole.told if int(one["source"]) in some][11:]
        of_some = [one for one in narrow.told if int(one["source"]) in some]
        assert sorted(one["destination"] for one in of_some) == sorted(rest)
        await watch.close()

    run_coroutine(play())


@pytest.mark.parametrize("open_", [plain, hostile])
def test_a_watcher_without_room_reads_on_its_own_and_misses_nothing(open_: Any) -> None:
    async def play() -> None:
        log = open_(3)
        watch = watch_of(log)
        slow, fast = (Reader(filter_of((), (), (), GRAPHS), room_max) for room_max in (20, 10**9))
        await watch.follow(slow, await log.end())
        await watch.follow(fast, await log.end())
        writing = asyncio.create_task(happen(log, random.Random(1)))
        await until(lambda: len(slow.told) == len(fast.told) == EVENTS)
        await writing
        assert slow.asked > 0
        assert slow.ended is None
        for reader in (slow, fast):
            check(reader.told, set(range(SOURCES)))
            assert reader.most <= READ_EVENTS_MAX
        await watch.close()

    run_coroutine(play())


def test_a_token_covers_the_changes_that_were_sent_and_no_others() -> None:
    async def play() -> None:
        log = hostile(5)
        watch = watch_of(log)
        await happen(log, random.Random(5))
        reader = Reader(filter_of((), (), (), GRAPHS))
        await watch.follow(reader, NOWHERE)
        await until(lambda: len(reader.told) == EVENTS)
        marks = {event.destination: event.log_position for event in (await log.read(NOWHERE, 10**6)).events}
        for at in range(0, EVENTS, 37):
            place: LogPosition = await watch.place(reader.told[at]["token"])
            covered = {number for number, mark in marks.items() if log.covers(place, mark)}
            assert covered == {int(one["destination"]) for one in reader.told[: at + 1]}
        await watch.close()

    run_coroutine(play())
