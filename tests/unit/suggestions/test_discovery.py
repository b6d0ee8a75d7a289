"""The scores of a two-hop walk, compared with a naive count."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import pytest
from cast import ALICE, BOB, CAROL, DANA

from kith.graph.shapes import IdLists, Ids
from kith.suggestions.discovery import FACES, ScoredCandidates, followees_fingerprint, pack, score, unpack

EVE, FAY, GUS = 5, 6, 7


def ids_of(*ids: int) -> Ids:
    return np.array(ids, np.int64)


def lists_of(lists: list[list[int]]) -> IdLists:
    return IdLists(ids_of(*(one for each in lists for one in each)), ids_of(*map(len, lists)))


def ranked(
    lists: list[list[int]], *, never: Sequence[int] = (), held_back: Sequence[int] = (), most: int = 1_000
) -> list[tuple[int, int, list[int]]]:
    """(id, score, faces), best first. The place of a followee is its index in `lists`."""
    found = score(lists_of(lists), np.arange(len(lists)), ids_of(*never), ids_of(*held_back), most)
    rows = [[face for face in row if face >= 0] for row in found.faces.tolist()]
    return list(zip(found.ids.tolist(), found.scores.tolist(), rows, strict=True))


def ranked_naively(
    lists: list[list[int]], never: list[int], held_back: list[int], most: int
) -> list[tuple[int, int, list[int]]]:
    """The same as `ranked`, computed with dictionaries."""
    who = defaultdict(list)
    for place, each in enumerate(lists):
        for one in each:
            who[one].append(place)
    order = sorted(((len(places), one) for one, places in who.items() if one not in never), reverse=True)
    found: list[tuple[int, int, list[int]]] = []
    free = 0
    for count, one in order[: 2 * most]:
        if free == most:
            break
        found.append((one, count, who[one][:FACES]))
        free += one not in held_back
    return found


def test_more_mutual_followees_come_first() -> None:
    lists = [[CAROL, DANA], [DANA], [EVE, DANA, CAROL]]
    assert ranked(lists) == [(DANA, 3, [0, 1, 2]), (CAROL, 2, [0, 2]), (EVE, 1, [2])]


def test_among_equal_scores_the_greater_id_comes_first() -> None:
    assert [one for one, _, _ in ranked([[EVE, DANA, CAROL]])] == [DANA, EVE, CAROL]
    assert ranked([[CAROL, DANA, EVE]]) == ranked([[EVE, DANA, CAROL]])


def test_excluded_users_are_no_candidates() -> None:
    assert ranked([[ALICE, BOB, CAROL], [DANA, ALICE]], never=[ALICE, BOB, DANA, 99]) == [(CAROL, 1, [0])]


def test_faces_are_the_first_mutual_followees_in_order() -> None:
    assert ranked([[EVE], [CAROL], [CAROL], [EVE], [CAROL], [CAROL]])[0] == (CAROL, 4, [1, 2, 4])


def test_faces_are_given_by_the_place_of_the_followee_even_if_others_are_left_out() -> None:
    lists = lists_of([[CAROL], [CAROL, EVE]])
    found = score(lists, ids_of(3, 499), ids_of(), ids_of(), 1_000)
    assert found.faces.tolist() == [[3, 499, -1], [499, -1, -1]]


def test_held_back_users_do_not_count_against_the_maximum() -> None:
    lists = [[CAROL, DANA, EVE, FAY], [CAROL, DANA, EVE], [CAROL, DANA], [CAROL]]
    assert [one for one, _, _ in ranked(lists, most=2)] == [CAROL, DANA]
    assert [one for one, _, _ in ranked(lists, held_back=[CAROL], most=2)] == [CAROL, DANA, EVE]
    assert [one for one, _, _ in ranked(lists, held_back=[CAROL, DANA, EVE], most=1)] == [CAROL, DANA]


@pytest.mark.parametrize("lists", [[], [[]], [[], []], [[ALICE]], [[ALICE], [ALICE, BOB]]], ids=repr)
def test_without_candidates_the_ranking_is_empty(lists: list[list[int]]) -> None:
    assert ranked(lists, never=[ALICE, BOB]) == []


@pytest.mark.parametrize("seed", range(40), ids="seed-{}".format)
def test_any_walk_is_ranked_as_the_naive_count_does(seed: int) -> None:
    chosen = random.Random(seed)
    pool = [chosen.randrange(2**63) for _ in range(chosen.choice((5, 40, 3_000)))]
    lists = [chosen.sample(pool, chosen.randrange(min(len(pool), 60))) for _ in range(chosen.randrange(1, 50))]
    never, held = chosen.sample(pool, 3), chosen.sample(pool, 4)
    most = chosen.choice((1, 3, 20, 1_000))
    assert ranked(lists, never=never, held_back=held, most=most) == ranked_naively(lists, never, held, most)


def test_500_followees_with_500_each_are_ranked_as_the_naive_count_does() -> None:
    chosen = random.Random(500)
    pool = [chosen.randrange(2**63) for _ in range(100_000)]
    lists = [chosen.sample(pool, 500) for _ in range(500)]
    found = ranked(lists, never=pool[:501], held_back=pool[501:600])
    assert found == ranked_naively(lists, pool[:501], pool[501:600], 1_000)
    assert len(found) >= 1_000


def test_a_ranking_survives_packing() -> None:
    whole = ScoredCandidates(
        ids_of(DANA, 0, CAROL), ids_of(500, 2, 1), np.array([[0, 1, 499], [3, 4, -1], [7, -1, -1]])
    )
    packed = pack(whole)
    assert len(packed) == 3 * 16
    assert all((one == other).all() for one, other in zip(unpack(packed), whole, strict=True))
    assert len(unpack(pack(whole.first(0))).ids) == 0


def test_a_fingerprint_changes_with_the_followees_and_their_number() -> None:
    prints = {
        followees_fingerprint(ids, count)
        for ids, count in ((ids_of(1, 2), 2), (ids_of(2, 1), 2), (ids_of(1, 2), 3), (ids_of(1), 1), (ids_of(), 0))
    }
    assert len(prints) == 5
    assert followees_fingerprint(ids_of(1, 2)[::-1], 2) == followees_fingerprint(ids_of(2, 1), 2)
