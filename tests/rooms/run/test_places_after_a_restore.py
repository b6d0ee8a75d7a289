"""After a restore each consumer resumes about where it was, so nobody is notified of what was handled before."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from cast import ALICE, BOB, CAROL, DANA
from coroutines import Run
from edges import edge_of, writes_of

from kith.boards import consumer as boards
from kith.core.events import Event
from kith.core.tokens import WriteMark, WriteTokens
from kith.engines.blobs.archives import FolderArchive
from kith.engines.embedded import group_checkpoints, segments
from kith.engines.embedded.environment import Environment
from kith.home.fanout import consumer as fanout
from kith.log.runner import Pace, Runner
from kith.notifications import intake, mention_consumer
from kith.notifications.preferences import Preferences
from kith.notifications.push import push
from kith.run import consumers
from kith.run.backups.backup_maker import BackupMaker, BackupResult
from kith.run.backups.restoring import restore
from kith.run.config import Settings
from kith.run.services import open_services

HOOK = "webhook-7"
GROUPS = (intake.NAME, mention_consumer.NAME, push.NAME, fanout.NAME, boards.NAME, HOOK)
AT_ONCE = Pace(tries_max=1, save_s=0.0)


class Noticing:
    """A consumer that notices which edges it was given; it fails at those to `broken` users."""

    def __init__(self, name: str, broken: Sequence[int] = ()) -> None:
        self.name, self.handled, self._broken = name, list[int](), broken

    async def handle(self, events: Sequence[Event]) -> None:
        assert not {event.destination for event in events}.intersection(self._broken), "broken"
        self.handled += [event.destination for event in events]

    async def work_backlog(self) -> bool:
        return False

    async def rebuild(self) -> None:
        raise AssertionError("events were lost")


class Store:
    """A data folder whose log consumers follow, and its backup. Edges lead to users who are numbered from 1 on."""

    def __init__(self, run: Run, folder: Path, archive: FolderArchive) -> None:
        self._run, self.archive, self.settings = run, archive, Settings(data=str(folder))

    def write(self, *users: int) -> str:
        """Write an edge to each of these users; returns a token of the last."""

        async def write() -> str:
            async with open_services(self.settings) as services:
                for group in GROUPS:
                    if await services.stores.log.progress(group) is None:
                        await services.stores.log.save(group, await services.stores.log.end(), {})
                edges = [edge_of(1, user) for user in users]
                at = (await services.stores.store.apply(writes_of(*edges)))[-1].log_position
                signing = await services.stores.credentials.secret("signing")
                return WriteTokens(signing).issue(WriteMark(at, 1))

        return self._run(write())

    def handle(self, groups: Sequence[str] = GROUPS, broken: Sequence[int] = ()) -> dict[str, list[int]]:
        """Have consumers handle the log to its end; returns what each was given, but not failed at."""
        noticing = [Noticing(group, broken) for group in groups]

        async def handle() -> None:
            async with open_services(self.settings, create=False) as services:
                for consumer in noticing:
                    runner = Runner(consumer, services.stores.log, AT_ONCE)
                    while await runner.step():
                        pass
                    await runner._leave()

        self._run(handle())
        return {consumer.name: consumer.handled for consumer in noticing}

    def dead(self, group: str) -> list[int]:
        """The users at whose edges a consumer failed for good."""

        async def dead() -> list[int]:
            async with open_services(self.settings, create=False) as services:
                return [failure.event.destination for failure in await services.stores.log.failures(group)]

        return self._run(dead())

    def back_up(self, *, whole: bool = False) -> BackupResult:
        with Environment(Path(self.settings.data), create=False) as store:
            return BackupMaker(store, self.archive, None).make(whole=whole)

    def restored(self, name: str, at: str | None = None) -> Store:
        again = Store(self._run, Path(self.settings.data).with_name(name), self.archive)
        restore(again.settings, self.archive, at)
        return again


@pytest.fixture
def store(run: Run, tmp_path: Path) -> Store:
    return Store(run, tmp_path / "data", FolderArchive(tmp_path / "kept"))


def all_given(*users: int) -> dict[str, list[int]]:
    return {group: list(users) for group in GROUPS}


def test_after_a_restore_consumers_repeat_nothing_that_they_handled_before_the_last_increment(store: Store) -> None:
    store.write(1, 2)
    store.handle()
    store.back_up(whole=True)
    store.write(3, 4)
    assert store.handle() == all_given(3, 4)
    store.write(5)
    store.back_up()
    assert store.restored("again").handle() == all_given(5)


def test_a_place_beyond_the_restored_moment_becomes_that_moment_but_for_consumers_that_repair(store: Store) -> None:
    store.write(1)
    store.handle()
    store.back_up(whole=True)
    store.write(2)
    store.handle()
    store.back_up()
    middle = store.write(3)
    store.write(4, 5)
    store.handle()
    store.back_up()
    again = store.restored("again", middle)
    assert again.handle() == all_given() | {boards.NAME: [3]}
    again.write(6)
    assert again.handle() == all_given(6)


def test_no_place_moves_back_behind_that_of_the_whole_copy(store: Store) -> None:
    store.write(1)
    store.back_up(whole=True)
    store.write(2)
    store.back_up()  # before anything is handled
    store.handle()
    store.back_up(whole=True)
    assert store.restored("again").handle() == all_given()


def test_events_at_which_a_consumer_failed_come_with_its_place(store: Store) -> None:
    store.write(1)
    store.handle()
    store.back_up(whole=True)
    middle = store.write(2)
    store.handle(broken=[2])
    store.write(3)
    store.handle(broken=[3])
    store.back_up()
    again = store.restored("again")
    assert (again.handle(), again.dead(HOOK)) == (all_given(), [2, 3])
    assert store.restored("middle", middle).dead(HOOK) == [2]


def test_no_part_is_made_because_only_places_moved(store: Store) -> None:
    store.write(1)
    store.back_up(whole=True)
    store.handle()
    assert store.back_up().parts == []


def test_an_increment_of_an_older_kith_leaves_the_places_of_the_whole_copy(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.write(1)
    store.handle()
    store.back_up(whole=True)
    store.write(2)
    store.handle()
    with monkeypatch.context() as older:
        older.setattr(group_checkpoints, "group_notes", lambda _: {})
        store.back_up()
    assert store.restored("again").handle() == all_given(2)


def test_places_are_older_than_the_log_that_comes_with_them(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a consumer wrote up to its place is in the increment, though it writes while the increment is made."""
    store.write(1)
    store.handle()
    store.back_up(whole=True)
    store.write(2)
    read, order = segments.next_segment, list[str]()
    notes = group_checkpoints.group_notes
    monkeypatch.setattr(segments, "next_segment", lambda *args: [order.append("log"), read(*args)][1])
    monkeypatch.setattr(group_checkpoints, "group_notes", lambda one: [order.append("places"), notes(one)][1])
    store.back_up()
    assert order == ["places", "log"]


@pytest.mark.parametrize("at_a_moment", [False, True])
def test_a_restore_notifies_nobody_of_what_they_did_not_want_then(tmp_path: Path, run: Run, at_a_moment: bool) -> None:
    """When Bob and Dana followed Alice, she did not want to be notified of what they do. Later she wants to be."""
    settings, archive = Settings(data=str(tmp_path / "data")), FolderArchive(tmp_path / "kept")

    async def live(settings: Settings) -> None:
        """Handle the log as the worker does."""
        async with (
            open_services(settings, create=False) as services,
            consumers.CONSUMERS[intake.NAME].open(settings, services.stores) as worker,
        ):
            assert isinstance(worker.follower, Runner)
            await worker.tasks[consumers.REFILL_INBOXES]()
            while await worker.follower.step():
                pass
            await worker.follower._leave()

    async def begin() -> None:
        async with open_services(settings) as services:
            await services.relations.follow(CAROL, ALICE)
        await live(settings)
        async with open_services(settings) as services:
            await services.notifications.preferences.put(ALICE, Preferences(accounts_off=(BOB, DANA)))
        await live(settings)

    async def continue_() -> str:
        async with open_services(settings) as services:
            for follower in (BOB, DANA):
                await services.relations.follow(follower, ALICE)
        await live(settings)
        async with open_services(settings) as services:
            await services.notifications.preferences.put(ALICE, Preferences())
            end = await services.stores.log.end()
            token = WriteTokens(await services.stores.credentials.secret("signing")).issue(WriteMark(end, 1))
            await services.relations.follow(CAROL, BOB)
        await live(settings)
        return token

    async def notices(settings: Settings) -> list[int]:
        await live(settings)
        async with open_services(settings, create=False) as services:
            return await services.stores.inboxes.page(ALICE, limit=10)

    def back_up(*, whole: bool) -> None:
        with Environment(Path(settings.data), create=False) as store:
            BackupMaker(store, archive, None).make(whole=whole)

    run(begin())
    back_up(whole=True)
    token = run(continue_())
    back_up(whole=False)
    before = run(notices(settings))
    assert len(before) == 1  # of Carol
    again = msgspec.structs.replace(settings, data=str(tmp_path / "again"))
    restore(again, archive, token if at_a_moment else None)
    assert run(notices(again)) == before
