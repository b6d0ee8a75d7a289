"""What every QuotaStore must do, as `access.sliding_window.QuotaStore` promises."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from coroutines import Run
from engines import Engine
from reference_quotas import ReferenceQuotas

from kith.access.sliding_window import Quota, QuotaStore
from kith.core.ids import ID_MAX

PORT = "quotas"
NOW_S = 1_700_000_000.0
QUOTA = Quota(5, 60)


async def passed(store: QuotaStore, user: int, kind: int = 0, tries: int = 12, now_s: float = NOW_S) -> int:
    """How many of `tries` attempts are allowed."""
    return sum([not (await store.take(kind, user, QUOTA, now_s)).wait_s for _ in range(tries)])


def test_each_user_and_kind_has_its_own_quota(run: Run, quotas: QuotaStore) -> None:
    for user in (0, 1, 2**32 + 1, ID_MAX):
        for kind in (0, 3):
            assert run(passed(quotas, user, kind)) == 5
            assert run(passed(quotas, user, kind)) == 0
    assert run(passed(quotas, 1, now_s=NOW_S + 100)) == 5


def test_a_returned_unit_can_be_used_again(run: Run, quotas: QuotaStore) -> None:
    results = [run(quotas.take(0, 7, QUOTA, NOW_S)) for _ in range(5)]
    run(quotas.refund(0, 7, results[0].part))
    run(quotas.refund(0, 8, results[0].part))
    run(quotas.refund(0, 7, results[0].part - 1_000))
    assert run(passed(quotas, 7)) == 1
    assert run(passed(quotas, 8)) == 5


def test_the_users_with_the_most_use_are_listed_until_the_window_has_passed(run: Run, quotas: QuotaStore) -> None:
    def fullest(used_min: int, now_s: float = NOW_S, limit: int = 10) -> list[tuple[int, int]]:
        return [tuple(usage) for usage in run(quotas.fullest(0, QUOTA, used_min, now_s, limit))]

    assert fullest(1) == []
    for user, tries in ((ID_MAX, 5), (8, 4), (9, 4), (10, 1)):
        run(passed(quotas, user, tries=tries))
    run(passed(quotas, 11, kind=1))
    assert fullest(4) == [(ID_MAX, 5), (8, 4), (9, 4)]
    assert fullest(1, limit=2) == [(ID_MAX, 5), (8, 4)]
    assert fullest(1, NOW_S + 61) == []


@pytest.fixture
def compared_quotas(compared: Engine, tmp_path: Path) -> Iterator[QuotaStore]:
    assert compared.quotas
    with compared.quotas(tmp_path) as opened:
        yield opened


def test_the_engine_equals_the_reference(run: Run, compared_quotas: QuotaStore) -> None:
    chosen = random.Random(4)
    reference, store = ReferenceQuotas(), compared_quotas
    now_s = NOW_S
    for _ in range(3_000):
        now_s += chosen.choice((0, 0, 1, 9, 70))
        kind, user = chosen.randrange(4), chosen.randrange(20) * 10**17
        answers = {run(quotas.take(kind, user, QUOTA, now_s)) for quotas in (store, reference)}
        assert len(answers) == 1
        if chosen.random() < 0.3:
            part = answers.pop().part - chosen.randrange(3)
            run(store.refund(kind, user, part))
            run(reference.refund(kind, user, part))


def test_counts_are_there_after_a_restart(run: Run, lasting: Engine, tmp_path: Path) -> None:
    assert lasting.quotas
    with lasting.quotas(tmp_path) as first:
        assert run(passed(first, 7)) == 5
    with lasting.quotas(tmp_path) as second:
        assert run(passed(second, 7)) == 0
