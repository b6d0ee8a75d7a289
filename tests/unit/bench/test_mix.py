"""The mix of requests: its shares, which PostgreSQL gets too; deleted posts are deleted once and never read."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from bench import mix, pgbench
from bench.figures import Data
from bench.town import Town
from kith.run.config import Settings

COUNT = 4_000


def _town() -> Town:
    chosen = np.random.default_rng(1)
    edges = np.unique(chosen.integers(0, 100, (900, 2)), axis=0)
    posts = np.column_stack([np.arange(1_000, 1_400), chosen.integers(0, 50, 400)])
    return Town(Settings(), Data(Path("edges"), "made up"), edges[edges[:, 0] != edges[:, 1]], np.arange(50), posts)


CAST = mix.cast_of(_town())


def _asked(count: int = COUNT, seed: int = 1) -> list[str]:
    """Method and path of each request."""
    return [raw.decode().split(" HTTP")[0] for raw in mix.requests(CAST, mix.MIX, count, seed)]


def test_the_published_shares_add_up_to_100_percent() -> None:
    assert sum(mix.MIX.values()) == pytest.approx(100)
    assert {**mix.READS, **mix.WRITES} == mix.MIX


@pytest.mark.parametrize("shares", [mix.MIX, mix.READS, mix.WRITES])
def test_every_kind_is_drawn_as_often_as_its_share_says(shares: dict[str, float]) -> None:
    drawn = Counter(mix.drawn(shares, 100_000, seed=3))
    assert set(drawn) == set(shares)
    for name, share in shares.items():
        assert drawn[name] / drawn.total() == pytest.approx(share / sum(shares.values()), abs=0.0001)


def test_the_order_is_random_and_the_same_for_a_seed() -> None:
    assert mix.drawn(mix.MIX, 1_000, 1) == mix.drawn(mix.MIX, 1_000, 1)
    assert mix.drawn(mix.MIX, 1_000, 1) != mix.drawn(mix.MIX, 1_000, 2)
    assert len(set(mix.drawn(mix.MIX, 1_000, 1)[:50])) > 3


def test_deleted_posts_are_deleted_once_and_never_read_or_changed() -> None:
    asked = _asked()
    deleted = [path for path in asked if re.match(r"DELETE /api/v1/posts/", path)]
    others = {path.split("/posts/")[1] for path in asked if re.match(r"(GET|PATCH) /api/v1/posts/", path)}
    gone = {path.split("/posts/")[1] for path in deleted}
    assert len(gone) == len(deleted) == 40
    assert others
    assert not gone & others


def test_runs_on_one_store_delete_different_posts() -> None:
    one, other = (set(CAST.part(number, 2).dropped_posts[:, 0].tolist()) for number in (0, 1))
    assert one
    assert other
    assert not one & other


def test_a_run_that_deletes_more_posts_than_exist_is_refused() -> None:
    with pytest.raises(mix.TooFewPosts):
        mix.requests(CAST, {"delete node": 100.0}, 201, 1)


def test_nobody_follows_themselves() -> None:
    pairs = [
        (raw.decode().split("/users/")[1].split("/")[0], raw.decode().split("x-kith-user: ")[1].split("\r")[0])
        for raw in mix.requests(CAST, {"add link": 100.0}, 2_000, 1)
    ]
    assert len(pairs) == 2_000
    assert all(one != other for one, other in pairs)


def test_postgresql_gets_the_same_shares_and_one_script_per_kind() -> None:
    assert dict(pgbench.weights(mix.MIX)) == {name: round(share * 10) for name, share in mix.MIX.items()}
    assert sum(weight for _, weight in pgbench.weights(mix.MIX)) == 1_000
    scripts = pgbench.scripts(CAST)
    assert set(scripts) == set(mix.MIX)
    assert not [name for name, script in scripts.items() if "{" in script]
