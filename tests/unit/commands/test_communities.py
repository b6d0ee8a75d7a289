"""Generated graphs have the exact size asked, no repeated edge, realistic tails, and need constant memory."""

from __future__ import annotations

import tracemalloc
from itertools import islice, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kith.commands.communities import CHUNK_EDGES, OUT_DEGREE_MAX, Community, degree_tail, stream, tail_exponent
from kith.core.errors import BadRequest

TOWN = Community(users=82_168, edges=870_161, seed=7, celebrities={"dana": 30_000, "erin": 5})


def whole(community: Community) -> np.ndarray:
    chunks = list(stream(community))
    return np.concatenate(chunks) if chunks else np.empty((0, 2), dtype=np.int64)


@pytest.fixture(scope="module")
def town() -> np.ndarray:
    return whole(TOWN)


def degrees(edges: np.ndarray, column: int, users: int) -> np.ndarray:
    return np.bincount(edges[:, column], minlength=users + 1)


@st.composite
def communities(draw: st.DrawFn) -> Community:
    users = draw(st.integers(4, 400))
    followers = draw(st.lists(st.integers(0, users - 1), max_size=min(3, users // 2)))
    famous = {f"celebrity {at}": count for at, count in enumerate(followers)}
    room = Community(users=users, edges=sum(followers), celebrities=famous).list_max * users // 2
    return Community(
        users=users,
        edges=sum(followers) + draw(st.integers(0, room)),
        seed=draw(st.integers(0, 2**63 - 1)),
        celebrities=famous,
        out_tail=draw(st.floats(1.1, 5)),
        in_tail=draw(st.floats(1.1, 5)),
        top_share=draw(st.floats(0.001, 1)),
    )


@settings(max_examples=150, deadline=None, derandomize=True)
@given(communities())
def test_every_community_is_a_simple_graph_of_exactly_the_size_asked(community: Community) -> None:
    edges = whole(community)
    assert edges.shape == (community.edges, 2)
    assert edges.dtype == np.int64
    assert len(np.unique(edges, axis=0)) == len(edges)
    assert not (edges[:, 0] == edges[:, 1]).any()
    if len(edges):
        assert edges.min() >= 1
        assert edges.max() <= community.users
    followers = degrees(edges, 1, community.users)
    for name, count in community.celebrities.items():
        assert followers[community.celebrity_ids[name]] == count


def test_the_same_seed_gives_the_same_chunks_and_another_seed_another_graph(town: np.ndarray) -> None:
    assert np.array_equal(whole(TOWN), town)
    other = whole(Community(users=82_168, edges=870_161, seed=8, celebrities={"dana": 30_000, "erin": 5}))
    shared = len(np.intersect1d(other @ [1 << 20, 1], town @ [1 << 20, 1]))
    assert shared < len(town) / 4


def test_chunks_cover_disjoint_rising_ranges_of_sources_so_no_edge_repeats() -> None:
    chunks = list(stream(TOWN))
    assert len(chunks) > 1
    for chunk in chunks:
        assert (np.diff(chunk @ [1 << 20, 1]) > 0).all()
    for earlier, later in pairwise(chunks):
        assert earlier[-1, 0] < later[0, 0]


def test_a_celebrity_has_exactly_the_followers_asked_and_they_are_spread_over_the_ids(town: np.ndarray) -> None:
    dana = TOWN.celebrity_ids["dana"]
    followers = town[town[:, 1] == dana, 0]
    assert dana == 1
    assert len(followers) == 30_000
    tenths = np.bincount(followers * 10 // (TOWN.users + 1), minlength=10)
    assert np.ptp(tenths) < 400  # 3,000 each, give or take four sigma on both sides


def test_nobody_follows_more_than_the_cap_even_with_every_celebrity() -> None:
    famous = {f"celebrity {at}": 59_000 for at in range(20)}
    edges = whole(Community(users=60_000, edges=2_500_000, celebrities=famous, out_tail=1.05))
    assert degrees(edges, 0, 60_000).max() == OUT_DEGREE_MAX


def test_both_degree_tails_have_the_exponents_asked() -> None:
    edges = whole(Community(users=200_000, edges=1_500_000, out_tail=2.4, in_tail=1.6, top_share=1))
    assert tail_exponent(degrees(edges, 0, 200_000), 0.002) == pytest.approx(2.4, rel=0.08)
    assert tail_exponent(degrees(edges, 1, 200_000), 0.002) == pytest.approx(1.6, rel=0.08)


def test_the_most_popular_is_followed_by_about_the_top_share_of_users() -> None:
    edges = whole(Community(users=82_168, edges=870_161))
    assert degrees(edges, 1, 82_168).max() == pytest.approx(0.05 * 82_168, rel=0.25)


def test_one_user_in_four_has_no_follower_and_one_in_seven_follows_nobody() -> None:
    edges = whole(Community(users=82_168, edges=870_161))
    silent, unfollowed = ((degrees(edges, side, 82_168)[1:] == 0).mean() for side in (0, 1))
    assert unfollowed == pytest.approx(0.236, abs=0.02)
    assert silent == pytest.approx(0.139, abs=0.005)


def test_popular_users_are_spread_over_the_ids() -> None:
    edges = whole(Community(users=82_168, edges=870_161))
    top = np.argsort(degrees(edges, 1, 82_168))[-1000:]
    tenths = np.bincount(top * 10 // 82_169, minlength=10)
    assert tenths.min() > 60
    assert tenths.max() < 140


def test_generating_a_billion_edges_starts_at_once_in_little_memory() -> None:
    dana = {"dana": 1_000_000}
    tracemalloc.start()
    try:
        chunks = list(islice(stream(Community(users=30_000_000, edges=1_000_000_000, celebrities=dana)), 2))
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert all(0.5 * CHUNK_EDGES < len(chunk) < 2 * CHUNK_EDGES for chunk in chunks)
    assert peak_bytes < 120_000_000


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"users": 1, "edges": 0}, "users must be"),
        ({"users": 100, "edges": 5_000}, "edges must be"),
        ({"users": 100, "edges": -1}, "edges must be"),
        ({"users": 100, "edges": 10, "celebrities": {"dana": 50}}, "edges must be"),
        ({"users": 100, "edges": 200, "celebrities": {"dana": 100}}, "dana needs 100 followers of 99 others"),
        ({"users": 100, "edges": 200, "out_tail": 1.0}, "tail exponents"),
        ({"users": 100, "edges": 200, "in_tail": float("nan")}, "tail exponents"),
        ({"users": 100, "edges": 200, "top_share": 0.0}, "top_share"),
        ({"users": 100, "edges": 200, "seed": -1}, "seed"),
        ({"users": 4, "edges": 0, "celebrities": dict.fromkeys("abc", 0)}, "celebrities"),
    ],
)
def test_an_impossible_graph_is_refused_with_what_to_do(asked: dict, says: str) -> None:
    with pytest.raises(BadRequest, match=says):
        Community(**asked)


def test_degree_tail_is_the_share_of_nodes_with_as_many_or_more() -> None:
    values, shares = degree_tail([0, 1, 1, 1, 2, 5])
    assert values.tolist() == [1, 2, 5]
    assert shares.tolist() == pytest.approx([1.0, 0.4, 0.2])
    assert [part.size for part in degree_tail([0, 0])] == [0, 0]


def test_tail_exponent_estimates_a_pareto_and_refuses_a_flat_tail() -> None:
    quantiles = (np.arange(100_000) + 0.5) / 100_000
    assert tail_exponent(quantiles ** (-1 / 1.7), 0.05) == pytest.approx(1.7, rel=0.02)
    assert np.isnan(tail_exponent(np.full(5_000, 1000)))
    assert np.isnan(tail_exponent([3, 2, 1]))
