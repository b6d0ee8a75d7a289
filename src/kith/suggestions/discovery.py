"""People you may know: a walk of two hops over follows. A candidate's score is the number of followees who follow them.

Pure, except for `lists_of`, which reads. Limits (article 000): the 500 newest followees, the 500 newest followees of
each of them, 1,000 candidates, two hops. So a mutual count is limited to what the walk reads: of a followee who follows
more than 500, only the 500 newest count. `suggestions` decides what is cached and who may be shown.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kith.graph.edge import Direction
from kith.graph.shapes import IdLists, Ids, Listing
from kith.graph.store import Edges

FACES = 3
"""Followees that are named to explain a suggestion."""
_VERSION = b"1"
"""The version of scores and of stored rankings. Changing it invalidates all stored rankings."""
_HASH_BITS = 16
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # multiplicative hashing, Knuth


class WalkLimits(NamedTuple):
    """The limits of a walk. The defaults are those of article 000."""

    followees: int = 500  # of the user
    per_followee: int = 500  # followees of each followee
    candidates: int = 1_000


class ScoredCandidates(NamedTuple):
    """Candidates, best first: by score, then by id, greater first."""

    ids: Ids  # int64 (n,)
    scores: Ids  # int64 (n,): the mutual count
    faces: NDArray[np.int64]  # int64 (n, FACES): indexes in the list of followees, newest first, -1 for none

    def first(self, count: int) -> ScoredCandidates:
        """The best `count` candidates."""
        return ScoredCandidates(self.ids[:count], self.scores[:count], self.faces[:count])


def without_faces(ids: Ids, scores: Ids) -> ScoredCandidates:
    """Candidates that no followee explains."""
    return ScoredCandidates(ids, scores, np.full((len(ids), FACES), -1))


async def lists_of(store: Edges, follows: int, followees: Sequence[int], walk_limits: WalkLimits) -> IdLists:
    """The newest `walk_limits.per_followee` followees of each followee."""
    return await store.ids_many(
        [Listing(follows, followee, Direction.OUT) for followee in followees], walk_limits.per_followee
    )


def score(lists: IdLists, places: Ids, excluded: Ids, held_back: Ids, candidates_max: int) -> ScoredCandidates:
    """The best candidates of a walk.

    `lists`: the followees of each followee. `places`: the index of each of these followees in the list of all
    followees, ascending. `excluded`: ids that are no candidates. `held_back`: ids that may not be shown now, but
    perhaps later. Up to `candidates_max` of them are in the result, at their rank; they take no place from others.
    """
    ids, counts = np.unique(lists.ids, return_counts=True)
    if len(ids):
        indexes = np.minimum(np.searchsorted(ids, excluded), len(ids) - 1)
        counts[indexes[ids[indexes] == excluded]] = 0
    best = _best(counts, 2 * candidates_max)
    free = ~np.isin(ids[best], held_back)
    best = best[np.cumsum(free) - free < candidates_max]
    chosen = ids[best]
    return ScoredCandidates(chosen, counts[best].astype(np.int64), _faces(lists, places, chosen))


def followees_fingerprint(followees: Ids, count: int) -> bytes:
    """8 bytes that change when the newest followees, the number of all followees, or _VERSION change."""
    raw = followees.astype("<i8").tobytes() + count.to_bytes(8, "little")
    return hashlib.blake2b(raw, digest_size=8, person=_VERSION).digest()


def _best(counts: Ids, limit: int) -> Ids:
    """The indexes of the `limit` greatest counts above 0, greatest first; of equal counts the greater index first."""
    keys = counts * len(counts) + np.arange(len(counts))
    top = np.argpartition(keys, -limit)[-limit:] if len(keys) > limit else np.arange(len(keys))
    top = top[np.argsort(keys[top])[::-1]]
    return top[counts[top] > 0]


def _faces(lists: IdLists, places: Ids, chosen: Ids) -> NDArray[np.int64]:
    """For each chosen id, the first FACES followees whose list has it; (n, FACES), -1 for none.

    Most ids of a walk are not chosen. A table of hashes drops most of these before the search, which is slower.
    """
    faces = np.full((len(chosen), FACES), -1)
    order = np.argsort(chosen)
    ascending = chosen[order]
    marked = np.zeros(1 << _HASH_BITS, np.bool_)
    marked[_hashes(chosen)] = True
    near_rows = np.flatnonzero(marked[_hashes(lists.ids)])
    near_ids, owners = lists.ids[near_rows], np.repeat(places, lists.lengths)[near_rows]
    indexes = np.searchsorted(ascending, near_ids)
    indexes[indexes == len(chosen)] = 0
    hits = np.flatnonzero(ascending[indexes] == near_ids) if len(chosen) else near_rows[:0]
    indexes, owners = indexes[hits].astype(np.uint16), owners[hits]  # 16 bits are sorted in linear time
    groups = np.argsort(indexes, kind="stable")
    indexes, owners = indexes[groups], owners[groups]
    nth = np.arange(len(indexes)) - np.searchsorted(indexes, indexes)
    is_shown = nth < FACES
    faces[order[indexes[is_shown]], nth[is_shown]] = owners[is_shown]
    return faces


def _hashes(ids: Ids) -> NDArray[np.int64]:
    spread = np.ascontiguousarray(ids).view(np.uint64) * _GOLDEN
    return (spread >> np.uint64(64 - _HASH_BITS)).astype(np.int64)


# --- as stored

_CANDIDATE = np.dtype([("id", "<i8"), ("score", "<u2"), ("faces", "<i2", (FACES,))])  # 16 bytes


def pack(ranked: ScoredCandidates) -> bytes:
    """Candidates as bytes, 16 each."""
    rows = np.empty(len(ranked.ids), _CANDIDATE)
    rows["id"], rows["score"], rows["faces"] = ranked
    return rows.tobytes()


def unpack(data: bytes) -> ScoredCandidates:
    """Undo `pack`."""
    rows = np.frombuffer(data, _CANDIDATE)
    return ScoredCandidates(rows["id"].astype(np.int64), rows["score"].astype(np.int64), rows["faces"].astype(np.int64))
