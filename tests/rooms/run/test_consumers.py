"""A consumer is registered once; `kith serve`, `kith worker`, `kith dead` and `/metrics` use the registry."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import msgspec
import pytest
from cast import ALICE
from coroutines import Run
from edges import edge_of, writes_of

from kith.commands.dead import dead_events
from kith.core.clock import wall_ms
from kith.core.events import NOWHERE, Event
from kith.core.ids import EPOCH_MS, TIME_SHIFT
from kith.log.runner import dead
from kith.log.store import Failure
from kith.notifications.backpressure import TASKS_MAX, watch_pressure
from kith.notifications.tiers import Tier
from kith.notifications.walks import Walk, Walks
from kith.run import consumers
from kith.run.backups import schedule
from kith.run.config import Settings
from kith.run.consumers import CONSUMERS, WORKERS, ConsumerSpec
from kith.run.measures import gauges
from kith.run.opening import folders, wiring
from kith.run.opening.stores import OpenStores
from kith.run.serving import supervisor, worker

OTHER = "other"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Settings of a folder with a store."""
    made = Settings(data=str(tmp_path))
    folders.open_environment(made).close()
    return made


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second consumer is registered."""
    both = {**CONSUMERS, OTHER: ConsumerSpec(consumers._fanout)}
    for module in (consumers, gauges):
        monkeypatch.setattr(module, "CONSUMERS", both)
    monkeypatch.setattr("kith.commands.dead.CONSUMERS", both)


def failure_of(group: str, event: Event, *, dead: bool) -> Failure:
    return Failure(group, event, 8, "a bug", 0, 0, dead=dead)


def test_kith_worker_takes_the_names_of_the_registry_and_no_others() -> None:
    assert (*WORKERS, schedule.NAME) == worker.NAMES


@pytest.mark.parametrize("name", CONSUMERS)
def test_a_consumer_is_registered_under_its_own_name(settings: Settings, run: Run, name: str) -> None:
    async def opened() -> str:
        async with (
            wiring.open_stores(settings, "test", create=False) as stores,
            CONSUMERS[name].open(settings, stores) as worker,
        ):
            assert all(task.every_s > 0 for task in worker.tasks)
            for do in worker.tasks.values():
                await do()
            return worker.follower.name

    assert run(opened()) == name


@pytest.mark.usefixtures("two")
def test_kith_serve_runs_a_worker_for_each_consumer(settings: Settings) -> None:
    kept = supervisor.children_of(settings, supervisor.EndCondition())
    workers = [child.command[1:] for child in kept if child.command[0] == "worker"]
    assert sorted(name for names in workers for name in names) == sorted([*CONSUMERS, OTHER])
    assert {("fanout",), ("mentions-month",)} < {*workers}, "these run alone, the others share one worker"
    assert len(workers) == 3
    assert len(kept) == 3 + settings.api_processes


@contextlib.asynccontextmanager
async def failed(settings: Settings) -> AsyncIterator[OpenStores]:
    """A log of two events: `fanout` died on the first and retries the second, `other` died on the second."""
    async with wiring.open_stores(settings, "test", create=False) as stores:
        await stores.store.apply(writes_of(edge_of(ALICE, 2), edge_of(ALICE, 3)))
        first, second = (await stores.log.read(NOWHERE, 10)).events
        kept = {
            first.log_position: failure_of("fanout", first, dead=True),
            second.log_position: failure_of("fanout", second, dead=False),
        }
        await stores.log.save("fanout", second.log_position, kept)
        await stores.log.save(OTHER, first.log_position, {second.log_position: failure_of(OTHER, second, dead=True)})
        yield stores


@pytest.mark.parametrize(("group", "name"), [("fanout", "fanout/0000000000000001"), (OTHER, "other/0000000000000002")])
def test_dead_events_are_named_by_group_and_mark(settings: Settings, run: Run, group: str, name: str) -> None:
    async def names() -> list[str]:
        async with failed(settings) as stores:
            return list(await dead(stores.log, group))

    assert run(names()) == [name]


@pytest.mark.usefixtures("two")
def test_metrics_show_lag_and_failures_of_each_consumer(settings: Settings, run: Run) -> None:
    async def gauges_of() -> Mapping[str, float]:
        async with failed(settings) as stores:
            return await stores.metrics.gauges()

    told = run(gauges_of())
    assert (told["fanout_lag_events"], told["other_lag_events"]) == (0, 1)
    assert (told["fanout_dead_events"], told["fanout_failed_events"]) == (1, 1)
    assert (told["other_dead_events"], told["other_failed_events"]) == (1, 0)
    assert told["fanout_deliveries"] == 0


def test_a_consumer_that_never_ran_has_no_lag_yet(settings: Settings, run: Run) -> None:
    async def told() -> set[str]:
        async with wiring.open_stores(settings, "test", create=False) as stores:
            return set(await stores.metrics.gauges())

    assert run(told()) == {
        "log_events", "log_sequence", "log_bytes", "log_leases", "log_leases_lost", "log_leases_lag_events",
        "store_bytes", "disk_free_bytes", "rival_primary", "timelines", "fanout_deliveries", "webhooks", "push_owed",
        "push_faults",
        "mentions_pressure",
        *(
            f"mentions_{tier}_{what}"
            for tier in ("online", "day", "month", "all")
            for what in ("walks", "chunks", "oldest_seconds")
        ),
    }  # fmt: skip


def test_metrics_show_what_waits_in_each_tier_of_mentions_and_since_when(settings: Settings, run: Run) -> None:
    async def told() -> dict[str, float]:
        async with wiring.open_stores(settings, "test", create=False) as stores:
            made = [(wall_ms() - age_ms - EPOCH_MS) << TIME_SHIFT for age_ms in (5_000, 90_000)]
            await Walks(stores.store).begin([Walk(notice, ALICE, Tier.DAY, 70) for notice in made])
            await watch_pressure(stores.store, TASKS_MAX + 1, wall_ms())
            return dict(await stores.metrics.gauges())

    found = run(told())
    assert (found["mentions_day_walks"], found["mentions_day_chunks"], found["mentions_pressure"]) == (2, 140, 1)
    assert 90 <= found["mentions_day_oldest_seconds"] < 1_000
    assert (found["mentions_online_walks"], found["mentions_online_oldest_seconds"]) == (0, 0)


def test_kith_serve_runs_as_many_workers_of_a_tier_as_the_settings_say(settings: Settings) -> None:
    kept = supervisor.children_of(msgspec.structs.replace(settings, mention_workers_day=3), supervisor.EndCondition())
    started = [child.command[-1] for child in kept]
    assert (started.count("mentions-day"), started.count("mentions-online")) == (3, 1)


@pytest.mark.usefixtures("two")
def test_kith_dead_lists_the_events_of_each_consumer(settings: Settings, run: Run) -> None:
    async def fail() -> None:
        async with wiring.open_stores(settings, "test", create=False) as stores:
            mark = stores.of_folder("this").environment.positions.of(1)
            event = Event(0, None, 0, 1, 2, 0, stores.graph.clock.next(), log_position=mark)
            for group in (OTHER, *CONSUMERS):
                await stores.log.save(group, mark, {mark: failure_of(group, event, dead=True)})

    run(fail())
    assert list(dead_events(settings)) == [f"{name}/0000000000000001" for name in (*CONSUMERS, OTHER)]
