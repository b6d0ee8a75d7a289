"""What every QuotaStore must do, in the words of `core.quota`, and what the one of a machine does beyond."""

from __future__ import annotations

import multiprocessing
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from kith.access import sliding_window
from kith.access.sliding_window import Counts, Quota, QuotaStore, Taken
from kith.core.ids import ID_MAX
from kith.engines.embedded.quota_store import SETS, WAYS, FileQuotas

NOW_S = 1_700_000_000.0
QUOTA = Quota(5, 60)


class ReferenceQuotas:
    """See `core.quota.QuotaStore`: one dict, for one process."""

    def __init__(self) -> None:
        self._counts: dict[tuple[int, int], Counts] = {}

    def take(self, kind: int, user: int, quota_: Quota, now_s: float) -> Taken:
        self._counts[kind, user], taken = sliding_window.take(self._counts.get((kind, user), Counts()), quota_, now_s)
        return taken

    def give_back(self, kind: int, user: int, part: int) -> None:
        self._counts[kind, user] = sliding_window.give_back(self._counts.get((kind, user), Counts()), part)


@pytest.fixture(params=["reference", "embedded"])
def quotas(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[QuotaStore]:
    if request.param == "reference":
        yield ReferenceQuotas()
    else:
        store = FileQuotas(tmp_path / "quotas")
        yield store
        store.close()


def passed(store: QuotaStore, user: int, kind: int = 0, tries: int = 12, now_s: float = NOW_S) -> int:
    """How many of so many tries are let in."""
    return sum(not store.take(kind, user, QUOTA, now_s).wait_s for _ in range(tries))


def test_each_user_and_kind_has_a_quota_of_its_own(quotas: QuotaStore) -> None:
    for user in (0, 1, 2**32 + 1, ID_MAX):
        for kind in (0, 3):
            assert passed(quotas, user, kind) == 5
            assert passed(quotas, user, kind) == 0
    assert passed(quotas, 1, now_s=NOW_S + 100) == 5


def test_what_is_given_back_is_there_again(quotas: QuotaStore) -> None:
    taken = [quotas.take(0, 7, QUOTA, NOW_S) for _ in range(5)]
    quotas.give_back(0, 7, taken[0].part)
    quotas.give_back(0, 8, taken[0].part)
    quotas.give_back(0, 7, taken[0].part - 1_000)
    assert passed(quotas, 7) == 1
    assert passed(quotas, 8) == 5


def test_the_engine_does_what_the_reference_does(tmp_path: Path) -> None:
    chosen = random.Random(4)
    reference, store = ReferenceQuotas(), FileQuotas(tmp_path / "quotas")
    now_s = NOW_S
    for _ in range(3_000):
        now_s += chosen.choice((0, 0, 1, 9, 70))
        kind, user = chosen.randrange(4), chosen.randrange(20) * 10**17
        answers = {store.take(kind, user, QUOTA, now_s), reference.take(kind, user, QUOTA, now_s)}
        assert len(answers) == 1
        if chosen.random() < 0.3:
            part = answers.pop().part - chosen.randrange(3)
            store.give_back(kind, user, part)
            reference.give_back(kind, user, part)
    store.close()


# What the engine of one machine promises beyond the port


def take_many(file: Path, tries: int, passed_: multiprocessing.Queue[int]) -> None:
    """One process of several."""
    store = FileQuotas(file)
    passed_.put(sum(not store.take(0, 7, Quota(500, 3_600), NOW_S).wait_s for _ in range(tries)))


def test_processes_that_ask_at_once_are_let_in_as_often_as_one(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    passed_ = context.Queue()
    workers = [context.Process(target=take_many, args=(tmp_path / "quotas", 400, passed_)) for _ in range(4)]
    for worker in workers:
        worker.start()
    assert sum(passed_.get(timeout=30) for _ in workers) == 500
    for worker in workers:
        worker.join()


def test_counts_are_there_after_a_restart(tmp_path: Path) -> None:
    first = FileQuotas(tmp_path / "quotas")
    assert passed(first, 7) == 5
    first.close()
    second = FileQuotas(tmp_path / "quotas")
    assert passed(second, 7) == 0
    second.close()


def test_more_users_than_it_holds_push_out_those_who_rested_longest(tmp_path: Path) -> None:
    store, now_s = FileQuotas(tmp_path / "quotas"), NOW_S
    for user in range(4 * SETS):
        store.take(0, user, QUOTA, now_s)
    for _ in range(4):
        store.take(0, 5, QUOTA, now_s + 30)
    for user in range(4 * SETS, 4 * SETS * WAYS):
        store.take(0, user, QUOTA, now_s + 20)
    assert passed(store, 5, now_s=now_s + 30) <= 1, "who asked last is still known"
    assert (tmp_path / "quotas").stat().st_size <= SETS * WAYS * 80
    store.close()


def test_a_full_disk_lets_everybody_in(tmp_path: Path) -> None:
    store = FileQuotas(Path("/dev/full"))
    assert passed(store, 7) == 12
    store.close()
