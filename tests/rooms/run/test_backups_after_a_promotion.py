"""Two machines that share a place for backups: the newest backup there is from the machine that took over."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from store_copies import copy_store

from kith.core.clock import Hlc
from kith.core.errors import Conflict, NotPrimary
from kith.engines.blobs.archives import FolderArchive
from kith.engines.embedded import segments, store_role
from kith.engines.embedded.closed_note import ClosedNote
from kith.engines.embedded.commits import CommitQueue
from kith.engines.embedded.environment import Environment
from kith.engines.embedded.record_store import EmbeddedRecords
from kith.records.store import Record, RecordKind
from kith.run.backups.backup_maker import BackupMaker
from kith.run.backups.restoring import restore
from kith.run.config import Settings


def write(store: Environment, id_: int) -> None:
    commits = CommitQueue(store)
    asyncio.run(EmbeddedRecords(store, commits).put([Record(RecordKind.POST, id_, Hlc(1_000_000 + id_), b"a post")]))
    commits.close()


@pytest.mark.parametrize("is_told", [True, False], ids=["fenced", "does not know"])
def test_a_replaced_primary_makes_no_backup_that_would_be_the_newest(tmp_path: Path, is_told: bool) -> None:
    kept = FolderArchive(tmp_path / "kept")
    with Environment(tmp_path / "old") as old:
        old.declare(["follows"])
        write(old, 1)
        before = BackupMaker(old, kept, None)
        before.make(whole=True)
        copy_store(old, tmp_path / "new")
        with Environment(tmp_path / "new", create=False) as new:
            store_role.close_to_writes(new, ClosedNote("standby", "http://old"))
            new.sync()
        with Environment(tmp_path / "new", create=False, follows=True) as new:
            epoch = store_role.begin_promotion(new)
            store_role.promote(new, None)
        if is_told:
            store_role.fence(old, epoch, "http://new")
        else:
            write(old, 2)
        with Environment(tmp_path / "new", create=False) as new:
            after = BackupMaker(new, kept, None)
            for id_ in range(10, 13):
                write(new, id_)
                after.make(whole=False)
                with pytest.raises(NotPrimary if is_told else Conflict):
                    before.make(whole=False)
            done = restore(Settings(data=str(tmp_path / "restored")), kept)
            assert done.event == segments.last_event(new)
