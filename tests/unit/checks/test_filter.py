"""The filter: no false negatives, and as many false positives as the formula says."""

from __future__ import annotations

import numpy as np
import pytest

from kith.checks.filter import Filter, bits_an_edge, false_positives, hash_of, hashes_of
from kith.core.ids import ID_MAX

EDGES = 100_000
SEQUENCES = {
    "random": lambda: np.random.default_rng(7).integers(1, ID_MAX, (2, EDGES)),
    "in a row": lambda: np.stack([np.repeat(np.arange(1, 101), EDGES // 100), np.tile(np.arange(1, 1_001), 100)]),
    "snowflakes": lambda: np.stack([np.arange(EDGES) << 22, (np.arange(EDGES) // 7) << 22]),
}


@pytest.mark.parametrize("share", [0.01, 0.001])
@pytest.mark.parametrize("kind", SEQUENCES)
def test_the_share_of_false_positives_is_what_the_formula_says(kind: str, share: float) -> None:
    sources, destinations = SEQUENCES[kind]()
    held = Filter.sized(EDGES, share)
    held.add_many(hashes_of(3, sources, destinations))
    assert held.may_have_many(hashes_of(3, sources, destinations)).all()
    absent = np.concatenate([hashes_of(3, sources, -destinations), hashes_of(4, sources, destinations)])
    assert held.may_have_many(absent).mean() == pytest.approx(share, rel=0.2)
    assert held.false_positives == pytest.approx(share, rel=0.01)


def test_sizes_follow_the_formula() -> None:
    assert [round(bits_an_edge(share), 1) for share in (0.01, 0.001)] == [10.5, 16.9]
    assert false_positives(bits_an_edge(0.004)) == pytest.approx(0.004)
    assert len(Filter.sized(1_000_000, 0.01).blocks) == pytest.approx(10.53 * 1_000_000 / 8, rel=0.01)


def test_single_calls_and_batches_agree() -> None:
    sources, destinations = (ends[:500] for ends in SEQUENCES["random"]())
    one, many = Filter.sized(400, 0.01), Filter.sized(400, 0.01)
    for source, destination in zip(sources.tolist(), destinations.tolist(), strict=True):
        one.add(1, source, destination)
    hashes = hashes_of(1, sources, destinations)
    assert hashes.tolist() == [hash_of(1, *pair) for pair in zip(sources.tolist(), destinations.tolist(), strict=True)]
    many.add_many(hashes)
    assert (one.blocks, one.edges) == (many.blocks, many.edges)
    others = [(2, source, 5) for source in sources.tolist()]
    asked = many.may_have_many(hashes_of(2, sources, np.full(500, 5)))
    assert [one.may_have(*key) for key in others] == asked.tolist()


def test_an_empty_filter_holds_no_edge() -> None:
    empty = Filter.sized(0, 0.01)
    assert not empty.may_have(1, 2, 3)
    assert empty.false_positives == 0
