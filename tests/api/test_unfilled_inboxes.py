"""Answers that are made of inboxes say `partial` while these are not filled: on a standby, and after a restore."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from coroutines import Run
from in_process import client_of
from servers import API, KEY

from kith.access.quotas import Quotas
from kith.engines.blobs.archives import FolderArchive
from kith.engines.embedded import quota_store, store_role
from kith.engines.embedded.closed_note import ClosedNote
from kith.engines.embedded.environment import Environment
from kith.engines.embedded.quota_store import FileQuotas
from kith.log.runner import Runner
from kith.notifications import intake
from kith.run import limits
from kith.run.api import api_over
from kith.run.backups.backup_maker import BackupMaker
from kith.run.backups.restoring import restore
from kith.run.config import Settings
from kith.run.consumers import CONSUMERS, REFILL_INBOXES
from kith.run.machines.machine import machine_of
from kith.run.opening import inboxes
from kith.run.services import Services, open_services

ALICE, BOB = 1, 2


class Api:
    """The API over a data folder, in this process."""

    def __init__(self, settings: Settings, services: Services, http: Any) -> None:
        self._settings, self._services, self._http = settings, services, http

    async def ask(self, user: int, method: str, path: str) -> Any:
        answer = await self._http.request(method, API + path, headers={"X-Kith-User": str(user)})
        assert answer.status_code < 300, answer.text
        return answer.json()

    async def notifications(self) -> tuple[int, int, bool]:
        """How many items Alice is shown, how many are unread, and whether that is partial. Both answers agree."""
        listed = await self.ask(ALICE, "GET", "/notifications")
        unread = await self.ask(ALICE, "GET", "/notifications/unread")
        assert (listed["unread"], listed["partial"]) == (unread["count"], unread["partial"])
        return len(listed["items"]), unread["count"], unread["partial"]

    async def work(self) -> None:
        """Handle the log, and fill the inboxes, as the worker `notifications` does."""
        async with CONSUMERS[intake.NAME].open(self._settings, self._services.stores) as worker:
            await worker.tasks[REFILL_INBOXES]()
            assert isinstance(worker.follower, Runner)
            while await worker.follower.step():
                pass
            await worker.follower._leave()


@asynccontextmanager
async def serving(settings: Settings, *, create: bool = False) -> AsyncIterator[Api]:
    async with (
        open_services(settings, create=create) as services,
        machine_of(settings, services.stores.folder) as machine,
    ):
        counts = FileQuotas(Path(settings.data) / quota_store.FILE)
        api = api_over(settings, services, Quotas(counts, limits.quotas(settings)), machine)
        async with client_of(api.door, authorization=f"Bearer {KEY}") as http:
            yield Api(settings, services, http)


@pytest.fixture
def settings(tmp_path: Path, run: Run) -> Settings:
    """A store in which Bob followed Alice."""
    made = Settings(data=str(tmp_path / "data"), api_keys=(KEY,), durability="relaxed", workers=1)

    async def begin() -> None:
        async with serving(made, create=True) as api:
            assert await api.notifications() == (0, 0, False), "a new store has nothing to fill"
            await api.ask(BOB, "POST", f"/users/{ALICE}/follow")
            await api.work()
            assert await api.notifications() == (1, 1, False)

    run(begin())
    return made


def restored(settings: Settings, tmp_path: Path) -> Settings:
    again, archive = msgspec.structs.replace(settings, data=str(tmp_path / "again")), FolderArchive(tmp_path / "kept")
    with Environment(Path(settings.data), create=False) as store:
        BackupMaker(store, archive, None).make(whole=True)
    restore(again, archive)
    return again


def test_a_restored_store_answers_partially_until_its_inboxes_are_filled(
    settings: Settings, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inboxes, "CHECK_EVERY_S", 0.0)

    async def answers() -> None:
        async with serving(restored(settings, tmp_path)) as api:
            for _ in range(2):  # the second answer is a cached one
                assert await api.notifications() == (0, 0, True)
            await api.work()
            for _ in range(2):
                assert await api.notifications() == (1, 1, False)

    run(answers())


def test_a_standby_answers_partially_though_its_folder_had_inboxes_of_this_history(
    settings: Settings, tmp_path: Path, run: Run
) -> None:
    with Environment(Path(settings.data), create=False) as store:
        inboxes.note_filled(store)
        store_role.close_to_writes(store, ClosedNote("standby", "http://primary"))

    async def answers() -> None:
        async with serving(settings) as api:
            assert (await api.notifications())[2]

    run(answers())


def test_filled_inboxes_are_not_looked_at_again_in_the_same_history(settings: Settings, tmp_path: Path) -> None:
    now_s = 0.0
    with Environment(Path(restored(settings, tmp_path).data), create=False) as store:
        is_filled = inboxes.FilledInboxes(store, lambda: now_s)
        assert not is_filled()
        inboxes.note_filled(store)
        assert not is_filled(), "a second has not passed"
        now_s = inboxes.CHECK_EVERY_S
        assert is_filled()
        (store.folder / inboxes.FOLDER / inboxes.FILLED).unlink()
        now_s *= 2
        assert is_filled()
        store.begin_history()
        assert not is_filled()
