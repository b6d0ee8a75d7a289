"""In mode `one`, writes that answer a client wait for a standby; writes of workers do not."""

from __future__ import annotations

from pathlib import Path

import pytest
from coroutines import Run
from edges import edge_of, writes_of

from kith.core.errors import NotConfirmed
from kith.run.backups import schedule
from kith.run.config import Settings
from kith.run.consumers import CONSUMERS
from kith.run.opening import wiring


@pytest.mark.parametrize("process", [*CONSUMERS, "webhooks+boards", schedule.NAME])
def test_workers_do_not_wait_for_a_standby(tmp_path: Path, run: Run, process: str) -> None:
    write(tmp_path, run, process)


def test_a_process_that_answers_clients_waits_for_a_standby(tmp_path: Path, run: Run) -> None:
    with pytest.raises(NotConfirmed):
        write(tmp_path, run, "api")


def write(folder: Path, run: Run, process: str) -> None:
    settings = Settings(data=str(folder), standby_mode="one", standby_timeout_ms=50)

    async def scene() -> None:
        async with wiring.open_stores(settings, process) as stores:
            await stores.store.apply(writes_of(edge_of(1, 2)))

    run(scene())
