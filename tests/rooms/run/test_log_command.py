"""`kith log` and `kith doctor` name leases of the log, and those that were lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from coroutines import Run
from edges import edge_of, writes_of

from kith.commands.doctor import examine
from kith.commands.log import leases_shown, release
from kith.core.errors import BadRequest
from kith.run.config import Settings
from kith.run.opening import wiring


def test_a_lost_lease_is_named_until_it_is_released(tmp_path: Path, run: Run) -> None:
    settings = Settings(
        data=str(tmp_path), durability="relaxed", log_events_max=30, log_bytes_max=1 << 16, log_leased_bytes_max=1 << 16
    )

    async def lose() -> None:
        async with wiring.open_stores(settings, "test") as stores:
            assert await stores.log.lease("standby", await stores.log.end())
            await stores.store.apply(writes_of(*(edge_of(1, 10 + at) for at in range(50))))
            told = await stores.metrics.gauges()
            assert (told["log_leases"], told["log_leases_lost"], told["log_leases_lag_events"]) == (1, 0, 50)
            for number in range(300):
                await stores.store.apply(writes_of(*(edge_of(2 + number, 10 + at) for at in range(50))))
            assert await stores.log.lease("backup", await stores.log.end())
            told = await stores.metrics.gauges()
            assert (told["log_leases"], told["log_leases_lost"], told["log_leases_lag_events"]) == (1, 1, 0)
            shown = {one.name: one.lost for one in await leases_shown(stores.log)}
            assert shown == {"standby": True, "backup": False}

    run(lose())
    (finding,) = [one for one in examine(settings) if one.what == "leases of the log"]
    assert not finding.ok
    assert "lost by standby" in finding.detail
    with pytest.raises(BadRequest):
        release(settings, "nobody")
    release(settings, "standby")
    (finding,) = [one for one in examine(settings) if one.what == "leases of the log"]
    assert (finding.ok, finding.detail) == (True, "1 held")
