"""Quotas and presence that several instances share in a Redis Cluster."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import numpy as np
from cast import ALICE, BOB
from cluster_engines import NODES, prefix_of
from coroutines import Run

from kith.access.sliding_window import Quota
from kith.engines.redis.activity_store import SEEN_KEPT_MINUTES, RedisActivity
from kith.engines.redis.connecting import connect
from kith.engines.redis.quota_store import RETRY_AFTER_S, RedisQuotas
from kith.notifications.activity import SEEN_STEP_MS

NOW_S = 1_700_000_000.0
QUOTA = Quota(5, 60)


def test_concurrent_instances_share_one_quota(run: Run, tmp_path: Path) -> None:
    async def scene() -> None:
        clusters = [connect(NODES) for _ in range(4)]
        stores = [RedisQuotas(cluster, prefix=prefix_of(tmp_path), count_timeout_s=60) for cluster in clusters]
        calls = (store.take(0, 7, Quota(100, 3_600), NOW_S) for _ in range(50) for store in stores)
        assert sum(not result.wait_s for result in await asyncio.gather(*calls)) == 100
        for cluster in clusters:
            await cluster.aclose()

    run(scene())


def test_an_instance_with_a_wrong_clock_gets_no_second_quota(run: Run, tmp_path: Path) -> None:
    async def scene() -> None:
        cluster = connect(NODES)
        right = RedisQuotas(cluster, prefix=prefix_of(tmp_path), count_timeout_s=60)
        behind = RedisQuotas(cluster, prefix=prefix_of(tmp_path), count_timeout_s=60, wall_s=lambda: time.time() - 600)
        passed = 0
        for _ in range(6):
            passed += not (await right.take(0, 7, QUOTA, NOW_S)).wait_s
            passed += not (await behind.take(0, 7, QUOTA, NOW_S - 600)).wait_s
        assert passed == 5
        await cluster.aclose()

    run(scene())


def test_instances_whose_clocks_differ_by_seconds_share_one_quota(run: Run, tmp_path: Path) -> None:
    async def scene() -> None:
        cluster = connect(NODES)
        right = RedisQuotas(cluster, prefix=prefix_of(tmp_path), count_timeout_s=60)
        behind = RedisQuotas(cluster, prefix=prefix_of(tmp_path), count_timeout_s=60, wall_s=lambda: time.time() - 3)
        quota, passed = Quota(60, 60), 0
        for turn in range(100):
            now_s = NOW_S + turn / 4
            passed += not (await right.take(0, 7, quota, now_s)).wait_s
            passed += not (await behind.take(0, 7, quota, now_s - 3)).wait_s
        assert passed == 60
        await cluster.aclose()

    run(scene())


def test_unused_counts_expire(run: Run, tmp_path: Path) -> None:
    async def scene() -> None:
        cluster = connect(NODES)
        store, key = (
            RedisQuotas(cluster, prefix=prefix_of(tmp_path), count_timeout_s=60),
            f"{prefix_of(tmp_path)}:quota:0:7",
        )
        result = await store.take(0, 7, QUOTA, NOW_S)
        assert 60 < await cluster.ttl(key) <= 120
        await store.refund(0, 7, result.part)
        assert 60 < await cluster.ttl(key) <= 120
        await store.refund(0, 8, result.part)
        assert not await cluster.exists(f"{prefix_of(tmp_path)}:quota:0:8")
        await cluster.aclose()

    run(scene())


def test_while_redis_is_away_all_requests_are_admitted_and_few_query_it(run: Run) -> None:
    now_s, queries = [0.0], [0]

    async def scene() -> None:
        cluster = connect("127.0.0.1:1")
        store = RedisQuotas(cluster, clock_s=lambda: now_s[0], count_timeout_s=60)
        ask = store._script.run

        async def counted(*arguments: object) -> object:
            queries[0] += 1
            return await ask(*arguments)  # type: ignore[arg-type]

        store._script.run = counted  # type: ignore[method-assign]
        for _ in range(12):
            assert not (await store.take(0, 7, QUOTA, NOW_S)).wait_s
        assert queries == [1]
        now_s[0] += RETRY_AFTER_S
        await store.refund(0, 7, 5)
        assert queries == [2]

    run(scene())


def test_another_instance_sees_who_is_online(run: Run, tmp_path: Path) -> None:
    async def scene() -> None:
        clusters = [connect(NODES), connect(NODES)]
        first, second = (RedisActivity(cluster, prefix=prefix_of(tmp_path)) for cluster in clusters)
        far, ask = 4_000_000_000_000, np.array([ALICE, BOB], np.int64)
        await first.set_online("one", ask, far)
        assert (await second.online(ask, 0)).tolist() == [True, True]
        await first.set_online("one", ask[:1], far)
        await first.set_online("two", ask[:0], far)
        assert (await second.online(ask, 0)).tolist() == [True, False]
        await first.set_online("one", ask[:0], far)
        assert not (await second.online(ask, 0)).any()
        for cluster in clusters:
            await cluster.aclose()

    run(scene())


def test_users_not_seen_for_long_are_forgotten(run: Run, tmp_path: Path) -> None:
    async def scene() -> None:
        cluster = connect(NODES)
        store, late_ms = RedisActivity(cluster, prefix=prefix_of(tmp_path), buckets=1), SEEN_KEPT_MINUTES * SEEN_STEP_MS
        await store.seen(np.array([ALICE], np.int64), 5 * SEEN_STEP_MS)
        await store.seen(np.array([BOB], np.int64), 5 * SEEN_STEP_MS + late_ms)
        assert (await store.last_seen(np.array([ALICE, BOB], np.int64))).tolist() == [0, 5 * SEEN_STEP_MS + late_ms]
        await cluster.aclose()

    run(scene())
