"""Home without one of its parts: it uses what is left, loses nothing, and reports what was not available."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cast import ALICE, BOB, CAROL, DANA, FakeClock
from coroutines import Run, answer
from engines import EMBEDDED
from home_scene import GROUP, HomeScene, alices_home, failing, ids_of
from store_types import EngineStores

from kith.core.clock import Hlc
from kith.core.errors import StoreUnavailable
from kith.core.events import BULK_LOADED, NOWHERE, TIMELINE_REQUESTED, Event, LogPosition
from kith.core.ids import NodeId
from kith.core.paging import Window
from kith.graph.graphs import AUTHORED, FOLLOWS
from kith.home.degraded import Degraded
from kith.home.skeleton import unhandled
from kith.log.store import Failure

EVE = NodeId(77)


@pytest.fixture
def whole(tmp_path: Path, clock: FakeClock) -> Iterator[EngineStores]:
    """The embedded engine only: tests here count its log positions."""
    assert EMBEDDED.whole
    with EMBEDDED.whole(tmp_path, now_ms=clock) as opened:
        yield opened


@pytest.fixture
def home(run: Run, whole: EngineStores, clock: FakeClock) -> HomeScene:
    return alices_home(run, whole, clock)


def test_a_part_that_fails_repeatedly_is_named_once() -> None:
    degraded = Degraded()
    for part in ("timelines", "ranking", "timelines"):
        degraded.note(part)
    degraded.failed("ranking")
    assert degraded.parts == ["timelines", "ranking"]


def test_timelines_of_another_store_are_not_read(run: Run, home: HomeScene) -> None:
    run(home.graph.people.follow(ALICE, BOB))
    made = [run(home.post(BOB)).id for _ in range(3)]
    run(home.catch_up_fanout())
    home.timelines.put(ALICE, np.array([], np.int64))  # it claims to be whole, and is empty
    run(home.fanout.reset(home.timelines.name() + 1))
    page = run(home.page())
    assert (sorted(ids_of(page.posts)), page.degraded) == (made, ["timelines"])


ERRORS = {"a store is away": StoreUnavailable("away"), "a bug": RuntimeError("a bug"), "no message": ValueError()}


@pytest.mark.parametrize("error", ERRORS.values(), ids=ERRORS)
def test_without_ranking_home_is_newest_first_and_says_so(
    run: Run, home: HomeScene, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    made = [run(home.post(BOB)).id for _ in range(5)]
    monkeypatch.setattr(home.ranker, "score", failing(error))
    page = run(home.page(3))
    assert ids_of(page.posts) == made[:1:-1]
    assert (page.placed, page.degraded, home.served) == ({}, ["ranking"], [])
    monkeypatch.undo()
    assert run(home.all(3, page.rest)) == made[1::-1], "paging continues when ranking is back"


def test_ranking_that_fails_between_pages_loses_nothing(
    run: Run, home: HomeScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [
        run(home.post(author, "alike " * 20 if at % 4 == 3 else None)) for at in range(8) for author in (BOB, CAROL)
    ]
    first = run(home.page(3))
    monkeypatch.setattr(home.ranker, "score", failing(RuntimeError()))
    found = [*ids_of(first.posts), *run(home.all(3, first.rest))]
    assert len(found) == len(set(found))
    texts = Counter(post.text for post in made if post.id in found)
    assert texts == Counter({post.text for post in made})


def test_without_timelines_home_comes_from_the_outboxes(
    run: Run, home: HomeScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [run(home.post(author)).id for author in (BOB, CAROL)]
    run(home.catch_up_fanout())

    monkeypatch.setattr(home.timelines.store, "read", failing(OSError("the rings are torn")))
    page = run(home.page())
    assert set(ids_of(page.posts)) == set(made)
    assert page.degraded == ["timelines"]
    latest = run(home.feed.latest(ALICE, Window(10)))
    assert (ids_of(latest.posts), latest.degraded) == (made[::-1], ["timelines"])


def test_without_the_state_of_fan_out_home_comes_from_the_outboxes(
    run: Run, home: HomeScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [run(home.post(author)).id for author in (BOB, CAROL)]
    run(home.catch_up_fanout())
    home.timelines.put(ALICE, np.array([], np.int64))  # it claims to be whole, and is empty
    monkeypatch.setattr(home.fanout, "snapshot", failing(StoreUnavailable("away")))
    latest = run(home.feed.latest(ALICE, Window(10), refresh=True))
    assert (ids_of(latest.posts), latest.degraded) == (made[::-1], []), "outboxes need no state of fan-out"
    latest = run(home.feed.latest(ALICE, Window(10)))
    assert (ids_of(latest.posts), latest.degraded) == (made[::-1], ["fanout"])


def test_a_full_disk_takes_no_request_for_a_timeline_and_home_is_answered(
    run: Run, home: HomeScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = run(home.post(BOB))
    run(home.catch_up_fanout())
    monkeypatch.setattr(home.log, "announce", failing(StoreUnavailable("full")))
    page = run(home.page())
    assert (ids_of(page.posts), page.degraded) == ([made.id], ["timelines"])


def test_a_timeline_that_was_dropped_is_requested_at_once(run: Run, home: HomeScene) -> None:
    def requested() -> int:
        run(home.page())
        events = run(home.log.read(NOWHERE, 1_000)).events
        return sum(event.state == TIMELINE_REQUESTED and event.source == ALICE for event in events)

    assert [requested(), requested()] == [1, 1], "a timeline that does not come is not requested at each visit"
    run(home.catch_up_fanout())
    home.timelines.put(ALICE, np.array([], np.int64))
    assert requested() == 1
    home.timelines.drop(ALICE)
    assert [requested(), requested()] == [2, 2]


def test_a_timeline_is_requested_even_where_too_many_events_wait(
    run: Run, home: HomeScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thousands who come at once request one each; readers who come while all those wait must not be left without."""

    def requested() -> int:
        events = run(home.log.read(NOWHERE, 1_000)).events
        return sum(event.state == TIMELINE_REQUESTED and event.source == ALICE for event in events)

    run(home.catch_up_fanout())
    run(home.post(BOB))
    monkeypatch.setattr(unhandled, "UNHANDLED_MAX", 0)
    assert run(home.page()).degraded == ["fanout"]
    assert requested() == 1
    run(home.catch_up_fanout())
    home.timelines.put(ALICE, np.array([], np.int64))
    run(home.post(BOB))
    run(home.page())
    assert requested() == 1, "the timeline is there"


def test_without_outboxes_a_timeline_is_answered_and_says_so(
    run: Run, home: HomeScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [run(home.post(author)).id for author in (BOB, CAROL)]
    run(home.catch_up_fanout())
    home.timelines.put(ALICE, np.array(made[::-1], np.int64))
    skeletons = home.feed._skeletons
    for read in ("outboxes", "newest"):
        monkeypatch.setattr(skeletons._sources, read, failing(StoreUnavailable("away")))
    degraded = Degraded()
    noted = run(skeletons.usable_snapshot(NOWHERE, degraded, refresh=False))
    ids = run(skeletons.below(ALICE, None, 10, degraded, snapshot=noted)).ids
    assert (ids.tolist(), degraded.parts) == (made[::-1], ["outboxes"])


def test_without_the_store_there_is_no_home_and_it_says_so(
    run: Run, home: HomeScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(home.post(BOB))
    monkeypatch.setattr(home.posts, "read", failing(StoreUnavailable("gone")))
    assert run(answer(home.page())) is StoreUnavailable
    assert run(answer(home.feed.latest(ALICE, Window(5)))) is StoreUnavailable


@pytest.fixture
def pushed(run: Run, home: HomeScene) -> list[int]:
    """Alice's timeline, newest first, as the worker left it when it died."""
    ids = [run(home.post(CAROL)).id for _ in range(60)][::-1]
    run(home.catch_up_fanout())
    home.timelines.put(ALICE, np.array(ids, np.int64))
    return ids


def test_a_post_is_at_home_at_once_while_no_worker_runs(run: Run, home: HomeScene, pushed: list[int]) -> None:
    for _ in range(3):
        new = run(home.post(BOB)).id
        run(home.post(EVE))  # Alice does not follow her
        pushed.insert(0, new)
        latest = run(home.feed.latest(ALICE, Window(5)))
        assert (ids_of(latest.posts), latest.degraded) == (pushed[:5], [])
        assert new in ids_of(run(home.page()).posts)
    home.clock.ms += 3_000
    latest = run(home.feed.latest(ALICE, Window(5)))
    assert (ids_of(latest.posts), latest.degraded) == (pushed[:5], ["fanout"]), "by now the worker counts as down"


def test_posts_that_the_worker_has_handled_come_from_the_timeline(run: Run, home: HomeScene, pushed: list[int]) -> None:
    handled = run(home.post(BOB)).id
    run(home.catch_up_fanout())
    new = run(home.post(DANA)).id
    assert ids_of(run(home.feed.latest(ALICE, Window(2))).posts) == [new, pushed[0]]
    home.timelines.push(handled, np.array([ALICE]))
    assert ids_of(run(home.feed.latest(ALICE, Window(2))).posts) == [new, handled]
    run(home.catch_up_fanout())
    assert ids_of(run(home.feed.latest(ALICE, Window(2))).posts) == [handled, pushed[0]]


@pytest.mark.parametrize("what", ["a follow", "a bulk load", "an account that comes back"])
def test_other_changes_of_a_home_are_there_at_once_while_no_worker_runs(
    run: Run, home: HomeScene, pushed: list[int], what: str
) -> None:
    post = run(home.post(EVE)).id
    authored, follows = (home.graph.graphs.number(name) for name in (AUTHORED, FOLLOWS))
    if what == "an account that comes back":
        run(home.graph.people.follow(ALICE, EVE))
        run(home.graph.write([home.graph.remove_write(authored, EVE, post)]))
    run(home.catch_up_fanout())
    home.timelines.put(ALICE, np.array(pushed, np.int64))
    if what == "a follow":
        run(home.graph.people.follow(ALICE, EVE))
    elif what == "a bulk load":
        home.timelines.put(ALICE, np.array(pushed[:-10], np.int64))
        run(home.log.announce(Event(follows, None, BULK_LOADED, 3, 0, 0, home.graph.clock.next())))
        assert len(run(home.feed.latest(ALICE, Window(100))).posts) == len(pushed)
        return
    else:
        run(home.graph.write([home.graph.add_write(authored, EVE, post)]))
    page = run(home.feed.latest(ALICE, Window(100)))
    assert (sorted(ids_of(page.posts)), page.degraded) == (sorted([*pushed, post]), [])


def test_where_too_many_events_wait_homes_come_from_outboxes_and_say_so(
    run: Run, home: HomeScene, pushed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    new: list[int] = []
    places: list[LogPosition] = []
    for _ in range(5):
        places.append(run(home.log.end()))
        new.insert(0, run(home.post(BOB)).id)
    monkeypatch.setattr(unhandled, "UNHANDLED_MAX", run(home.log.behind(places[0])).events)
    latest = run(home.feed.latest(ALICE, Window(6)))
    assert (ids_of(latest.posts), latest.degraded) == ([*new, pushed[0]], [])
    new.insert(0, run(home.post(BOB)).id)
    latest = run(home.feed.latest(ALICE, Window(6)))
    assert (ids_of(latest.posts), latest.degraded) == (new, ["fanout"])
    run(home.log.save(GROUP, places[-1], {}))
    latest = run(home.feed.latest(ALICE, Window(3)))
    assert (ids_of(latest.posts)[:2], latest.degraded) == (new[:2], [])


def test_while_the_log_is_away_homes_come_from_outboxes_and_say_so(
    run: Run, home: HomeScene, pushed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    new = run(home.post(BOB)).id
    monkeypatch.setattr(home.feed._skeletons._unhandled, "follow", failing(StoreUnavailable("away")))
    latest = run(home.feed.latest(ALICE, Window(3)))
    assert (ids_of(latest.posts), latest.degraded) == ([new, *pushed[:2]], ["fanout"])


def back(home: HomeScene, events: int) -> LogPosition:
    """The position that many events before the end of the log."""
    return home.log._positions.of(home.log.bounds()[1] - events)  # type: ignore[attr-defined, no-any-return]


def stranger(home: HomeScene, number: int) -> Event:
    """A follow by somebody whom Alice does not know."""
    return Event(1, None, 0, 10**6 + number, 1, 0, Hlc(1), log_position=home.log._positions.of(number))  # type: ignore[attr-defined]


def failed(home: HomeScene, *events: Event) -> dict[LogPosition, Failure | None]:
    """Failures of these events in the group that keeps timelines."""
    return {event.log_position: Failure(GROUP, event, 1, "a bug", 0, 0, dead=True) for event in events}


def test_posts_that_fan_out_failed_to_deliver_are_at_home_anyway(run: Run, home: HomeScene) -> None:
    """The failure is dead: nothing delivers Bob's post until a person has it replayed."""
    made = [run(home.post(CAROL)).id for _ in range(60)]
    run(home.catch_up_fanout())
    home.timelines.put(ALICE, np.array(made[::-1], np.int64))
    lacked = run(home.post(BOB)).id
    at = run(home.log.end())
    run(home.log.save(GROUP, at, failed(home, *run(home.log.read(back(home, 1), 1)).events)))
    page = run(home.feed.latest(ALICE, Window(5)))
    assert (ids_of(page.posts), page.degraded) == ([lacked, *made[:-5:-1]], [])
    assert lacked in run(home.all(20))
    run(home.log.save(GROUP, None, {at: None}))
    assert lacked not in ids_of(run(home.feed.latest(ALICE, Window(5))).posts), "from then on the timeline must have it"


@pytest.mark.parametrize("missed", ["a follow of hers", "101 posts of others"])
def test_a_timeline_that_missed_a_change_of_its_reader_or_too_much_is_not_used(
    run: Run, home: HomeScene, missed: str
) -> None:
    home.timelines.put(ALICE, np.arange(1, 200)[::-1])
    post = run(home.post(BOB)).id
    if missed == "a follow of hers":
        run(home.graph.people.unfollow(ALICE, DANA))
        events = [event for event in run(home.log.read(NOWHERE, 1_000)).events if event.source == ALICE][-1:]
    else:
        events = [stranger(home, number) for number in range(101)]
    run(home.log.save(GROUP, run(home.log.end()), failed(home, *events)))
    assert ids_of(run(home.feed.latest(ALICE, Window(5))).posts) == [post]


def test_home_does_not_read_more_failures_than_it_needs(
    run: Run, home: HomeScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [run(home.post(BOB)).id]
    home.timelines.put(ALICE, np.array([], np.int64))
    events = [stranger(home, number) for number in range(500)]
    run(home.log.save(GROUP, run(home.log.end()), failed(home, *events)))
    asked: list[int | None] = []
    failures = home.log.failures

    async def counted(group: str, limit: int | None = None) -> Any:
        asked.append(len(found := await failures(group, limit)))
        return found

    monkeypatch.setattr(home.log, "failures", counted)
    assert ids_of(run(home.page()).posts) == made
    assert asked == [101]
