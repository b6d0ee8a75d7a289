"""What the quotas of one machine do beyond their port: shared by processes, bounded, and open when they fail."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

from coroutines import run_coroutine

from kith.access.sliding_window import Quota, QuotaStore
from kith.engines.embedded.quota_store import SETS, WAYS, FileQuotas

NOW_S = 1_700_000_000.0
QUOTA = Quota(5, 60)


async def passed(store: QuotaStore, user: int, now_s: float = NOW_S, quota: Quota = QUOTA, tries: int = 12) -> int:
    """How many of `tries` requests are let in."""
    return sum([not (await store.take(0, user, quota, now_s)).wait_s for _ in range(tries)])


def take_many(file: Path, tries: int, passed_: multiprocessing.Queue[int]) -> None:
    """One process of several."""
    store = FileQuotas(file)
    passed_.put(run_coroutine(passed(store, 7, quota=Quota(500, 3_600), tries=tries)))


def test_processes_share_one_quota(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    passed_ = context.Queue()
    workers = [context.Process(target=take_many, args=(tmp_path / "quotas", 400, passed_)) for _ in range(4)]
    for worker in workers:
        worker.start()
    assert sum(passed_.get(timeout=30) for _ in workers) == 500
    for worker in workers:
        worker.join()


def test_more_users_than_it_holds_evict_the_longest_idle_ones(tmp_path: Path) -> None:
    store, now_s = FileQuotas(tmp_path / "quotas"), NOW_S

    async def play() -> None:
        for user in range(4 * SETS):
            await store.take(0, user, QUOTA, now_s)
        for _ in range(4):
            await store.take(0, 5, QUOTA, now_s + 30)
        for user in range(4 * SETS, 4 * SETS * WAYS):
            await store.take(0, user, QUOTA, now_s + 20)
        assert await passed(store, 5, now_s=now_s + 30) <= 1, "the latest user is still known"

    run_coroutine(play())
    assert (tmp_path / "quotas").stat().st_size <= SETS * WAYS * 88
    store.close()


def test_a_full_disk_lets_everybody_in(tmp_path: Path) -> None:
    store = FileQuotas(Path("/dev/full"))
    assert run_coroutine(passed(store, 7)) == 12
    store.close()
