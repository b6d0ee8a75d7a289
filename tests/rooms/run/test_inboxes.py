"""After a restore, a promotion or a loss, inboxes are filled again with what they held before."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import msgspec
import numpy as np
import pytest
from cast import ALICE, BOB, CAROL, DANA
from coroutines import Run, without_waits

from kith.core.clock import wall_ms
from kith.core.errors import Overloaded
from kith.engines.blobs.archives import FolderArchive
from kith.engines.embedded import store_role
from kith.engines.embedded.closed_note import ClosedNote
from kith.engines.embedded.environment import Environment
from kith.notifications import walks
from kith.notifications.notice import NOTICE_KEPT_MS, NoticeDraft
from kith.notifications.preferences import Preferences
from kith.notifications.refilling import InboxRefill
from kith.notifications.tiers import Tier
from kith.run import consumers
from kith.run.backups.backup_maker import BackupMaker
from kith.run.backups.restoring import restore
from kith.run.config import Settings
from kith.run.opening.inboxes import FILLED, FOLDER
from kith.run.posts_and_notices import notice_services
from kith.run.services import Services, open_services

PEOPLE = (ALICE, BOB, CAROL, DANA)
Inboxes = dict[int, list[int]]


async def inboxes_of(services: Services) -> Inboxes:
    return {user: await services.stores.inboxes.page(user, limit=100) for user in PEOPLE}


async def filled(settings: Settings, services: Services) -> Inboxes:
    """The inboxes after the workers have done their work."""
    async with consumers.CONSUMERS["notifications"].open(settings, services.stores) as worker:
        await worker.tasks[consumers.REFILL_INBOXES]()
    coordinator = consumers._coordinator(settings, services.stores, (Tier.DAY, Tier.ALL, Tier.MONTH))
    for _ in range(100):
        if not await coordinator.work():
            return await inboxes_of(services)
    raise AssertionError("it never ends")


async def live(settings: Settings, celebrity: int) -> Inboxes:
    """Bob follows Alice and wants her mentions, Carol does not. Dana mentions Alice, and Alice mentions Carol.

    `celebrity`: how many followers make one.
    """
    async with open_services(settings) as services:
        parts = services.stores
        told = notice_services(settings, parts, services.posts)
        for follower in (BOB, CAROL):
            await services.relations.follow(follower, ALICE)
        await services.notifications.preferences.put(BOB, Preferences(mentions="followed"))
        now_ms = wall_ms()
        drafts = [NoticeDraft("mention", DANA, ALICE, now_ms, post=number) for number in range(1, 4)]
        drafts += [NoticeDraft("follow", BOB, ALICE, now_ms), NoticeDraft("mention", ALICE, CAROL, now_ms, post=9)]
        notices = await told.notices.notify(drafts)
        await parts.activity.seen(np.array(sorted(PEOPLE), np.int64), now_ms)
        coordinator = consumers._coordinator(settings, parts, tuple(Tier))
        for draft, notice in zip(drafts, notices, strict=True):
            if draft.type == "mention":
                await coordinator.begin(notice, draft.recipient)
        found = await filled(settings, services)
        assert sorted(map(len, found.values())) == [0, 1, 3, 4], found
        return found


def promote(folder: Path) -> None:
    """Make a store a standby's, and promote it."""
    with Environment(folder, create=False) as store:
        store_role.close_to_writes(store, ClosedNote("standby", "http://primary"))
    with Environment(folder, follows=True) as store:
        store_role.begin_promotion(store)
        store_role.promote(store, None)


@pytest.mark.parametrize("celebrity", [1, 1_000_000])
def test_inboxes_after_a_restore_or_a_loss_are_those_before(tmp_path: Path, run: Run, celebrity: int) -> None:
    settings = Settings(data=str(tmp_path / "data"), celebrity_followers_min=celebrity)
    before = run(live(settings, celebrity))
    archive = FolderArchive(tmp_path / "backup")
    with Environment(Path(settings.data), create=False) as store:
        BackupMaker(store, archive, None).make(whole=True)
    again = Settings(data=str(tmp_path / "again"), celebrity_followers_min=celebrity)
    restore(again, archive)

    async def opened(settings: Settings) -> tuple[Inboxes, Inboxes]:
        async with open_services(settings, create=False) as services:
            return await inboxes_of(services), await filled(settings, services)

    empty, after = run(opened(again))
    assert not any(empty.values())
    assert after == before
    shutil.rmtree(tmp_path / "data" / FOLDER)
    empty, after = run(opened(settings))
    assert not any(empty.values())
    assert after == before


def test_inboxes_of_a_standby_that_is_promoted_are_those_of_its_primary(tmp_path: Path, run: Run) -> None:
    settings = Settings(data=str(tmp_path / "primary"))
    before = run(live(settings, 0))
    standby = msgspec.structs.replace(settings, data=str(tmp_path / "standby"))
    shutil.copytree(
        settings.data, standby.data, ignore=shutil.ignore_patterns(FOLDER)
    )  # as it is shipped: without inboxes
    promote(Path(standby.data))

    async def opened() -> tuple[Inboxes, Inboxes]:
        async with open_services(standby, create=False) as services:
            return await inboxes_of(services), await filled(standby, services)

    empty, after = run(opened())
    assert not any(empty.values())
    assert after == before


def test_inboxes_of_another_history_are_filled_again(tmp_path: Path, run: Run) -> None:
    """A machine that was primary before has rows from then, and lacks those of later notices."""
    settings = Settings(data=str(tmp_path))
    before = run(live(settings, 0))

    async def lose(services: Services) -> None:
        await services.stores.inboxes.remove(ALICE, before[ALICE][:1])

    async def opened() -> Inboxes:
        async with open_services(settings, create=False) as services:
            await lose(services)
            assert await filled(settings, services) != before, "the inboxes belong to this history already"
        promote(tmp_path)
        async with open_services(settings, create=False) as services:
            return await filled(settings, services)

    assert run(opened()) == before


def test_inboxes_are_filled_once_and_completely(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fill that is cut short does not count as done, and one that is done is not repeated."""
    settings = Settings(data=str(tmp_path))
    before = run(live(settings, 0))
    write, fails = InboxRefill.write, [True]
    calls: list[int] = []

    async def cut_short(self: InboxRefill, records: list) -> int:  # type: ignore[type-arg]
        calls.append(len(records))
        if fails[0]:
            await write(self, records[:2])
            raise Overloaded("the inboxes are full")
        return await write(self, records)

    async def again() -> Inboxes:
        async with open_services(settings, create=False) as services:
            return await filled(settings, services)

    assert (tmp_path / FOLDER / FILLED).exists()
    shutil.rmtree(tmp_path / FOLDER)
    monkeypatch.setattr(InboxRefill, "write", cut_short)
    with pytest.raises(Overloaded):
        run(again())
    assert not (tmp_path / FOLDER / FILLED).exists()
    fails[0] = False
    assert run(again()) == before
    assert len(calls) == 2
    assert run(again()) == before
    assert len(calls) == 2
    (tmp_path / FOLDER / FILLED).write_bytes(b"\xff")  # damaged
    assert run(again()) == before
    assert len(calls) == 3


def test_mentions_beyond_the_room_are_filled_in_one_after_the_other(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker that notifies their followers makes room; meanwhile all other inboxes have their rows."""
    settings = Settings(data=str(tmp_path))
    before = run(live(settings, 0))
    shutil.rmtree(tmp_path / FOLDER)
    monkeypatch.setattr(walks, "WALKS_MAX", 1)

    async def again() -> Inboxes:
        async with (
            open_services(settings, create=False) as services,
            consumers.CONSUMERS["notifications"].open(settings, services.stores) as worker,
        ):
            filling = asyncio.create_task(worker.tasks[consumers.REFILL_INBOXES]())
            coordinator = consumers._coordinator(settings, services.stores, (Tier.ALL,))
            waits = 0
            while not filling.done():
                found = await inboxes_of(services)
                if (waits := waits + 1) > 20 and found[ALICE]:
                    assert (found[ALICE], found[CAROL]) == (before[ALICE], before[CAROL])
                    await coordinator.work()
                await asyncio.sleep(0.01)
            await filling
            while await coordinator.work():
                pass
            return await inboxes_of(services)

    with without_waits():
        assert run(again()) == before


def test_expired_notices_are_not_filled_in_again(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(data=str(tmp_path))
    run(live(settings, 0))
    shutil.rmtree(tmp_path / FOLDER)
    later = wall_ms() + NOTICE_KEPT_MS + 1
    monkeypatch.setattr(consumers, "wall_ms", lambda: later)

    async def again() -> Inboxes:
        async with open_services(settings, create=False) as services:
            return await filled(settings, services)

    assert not any(run(again()).values())
