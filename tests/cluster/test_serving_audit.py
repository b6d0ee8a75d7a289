"""`kith audit caches` beside a server on real engines finds and repairs a damaged set and a damaged timeline."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from calls import ok
from cast import ALICE, BOB, CAROL
from commands import kith_in
from corrupted_caches import CLEAN, SETS, TIMELINES, check_report, corrupt_timeline, fill_caches, run_audit, shown
from servers import API, Server, eventually, keyspace_of, on_cluster, serving

from kith.checks.sets import FillLease
from kith.core.clock import wall_ms
from kith.engines.redis.connecting import LinkedCluster, connect
from kith.engines.redis.set_store import RedisSets
from kith.engines.redis.timeline_store import RedisTimelines

LIMIT_S = 120


def follows(server: Server, followed: int) -> bool:
    """Whether Alice follows `followed`, by the fastest layer."""
    with server.client() as http:
        return bool(ok(http.get(f"{API}/graph/follows/{ALICE}/{followed}"))["exists"])


async def spoil_set(sets: RedisSets) -> None:
    """Make Alice's set say that she follows only Carol."""
    kept_to = await sets.progress()
    assert kept_to is not None
    generation = kept_to.generation
    ((key,),) = [keys async for keys in sets.keys(generation) if keys]
    assert await sets.members(generation, [key]) == [frozenset([BOB])]
    await sets.drop(generation, [key])
    (lease,) = await sets.lookup(generation, [(key, [BOB])])
    assert isinstance(lease, FillLease)
    assert await sets.fill(generation, key, lease.name, [CAROL], 600_000)


def test_damaged_sets_and_timelines_in_redis_are_found_and_repaired(tmp_path: Path) -> None:
    kith, keyspace = kith_in(tmp_path, LIMIT_S), keyspace_of(tmp_path)
    settings = on_cluster(keyspace) | {"KITH_CHECKS_SNAPSHOTS": str(tmp_path / "snapshots")}

    def on_redis(act: Callable[[LinkedCluster], Coroutine[Any, Any, Any]]) -> Any:
        async def acted() -> Any:
            cluster = connect(settings["KITH_REDIS"])
            try:
                return await act(cluster)
            finally:
                await cluster.aclose()

        return asyncio.run(acted())

    with serving(tmp_path / "one", **settings) as server:
        posts = fill_caches(server)

        def set_is_kept() -> bool:
            assert follows(server, BOB)
            return run_audit(kith, **settings)[0].get(SETS, ["0"])[0] == "1"

        async def timeline_is_spoilt(cluster: LinkedCluster) -> bool:
            return await corrupt_timeline(
                server, RedisTimelines(cluster, slots=1_000, now_ms=wall_ms, prefix=keyspace), posts
            )

        eventually(set_is_kept, 60)
        assert [row[1:] for row in run_audit(kith, **settings)[0].values()] == [CLEAN, CLEAN]
        on_redis(lambda cluster: spoil_set(RedisSets(cluster, prefix=keyspace)))
        assert follows(server, CAROL)
        eventually(lambda: on_redis(timeline_is_spoilt))
        rows, output = run_audit(kith, status=1, **settings)
        assert rows[SETS] == ["1", "0.0000%", "0", "1", "0"]
        assert rows[TIMELINES][2:] == ["0", "1", "0"]
        check_report(server, output, posts)
        assert [row[-2:] for row in run_audit(kith, "--repair", **settings)[0].values()] == [["1", "1"]] * 2
        assert follows(server, BOB)
        assert not follows(server, CAROL)
        assert sorted(shown(server)) == posts[:3]
        assert [row[1:] for row in run_audit(kith, **settings)[0].values()] == [CLEAN, CLEAN]
