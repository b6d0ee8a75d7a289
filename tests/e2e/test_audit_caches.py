"""`kith audit caches` beside a server on a data folder finds and repairs a damaged timeline."""

from __future__ import annotations

import asyncio
from pathlib import Path

from commands import kith_in, refused
from corrupted_caches import CLEAN, SETS, TIMELINES, check_report, corrupt_timeline, fill_caches, run_audit, shown
from servers import eventually, serving

from kith.engines.embedded.timeline_store import RingTimelines


def test_a_damaged_timeline_is_found_dropped_and_rebuilt(tmp_path: Path) -> None:
    kith = kith_in(tmp_path)
    with serving(tmp_path) as server, RingTimelines(server.data / "timelines") as rings:
        posts = fill_caches(server)
        eventually(lambda: asyncio.run(corrupt_timeline(server, rings, posts)))
        rows, said = run_audit(kith, "--data", "data", status=1)
        assert rows[TIMELINES][2:] == ["0", "1", "0"]
        assert f"{SETS}: not in use now, so not audited" in said
        check_report(server, said, posts)
        for option in ("--report", "--against"):
            assert "are for `kith audit edges`" in refused(kith("audit", "caches", "--data", "data", option, "x"))
        repaired, _ = run_audit(
            kith, "--data", "data", "--repair", KITH_TIMELINES_MAX="70"
        )  # another value than the server's
        assert repaired[TIMELINES][-2:] == ["1", "1"]
        assert sorted(shown(server)) == posts[:3]
        assert run_audit(kith, "--data", "data")[0][TIMELINES][1:] == CLEAN
