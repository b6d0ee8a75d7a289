"""Generates follow graphs of any size from a seed, as a stream of chunks.

A community is described, not stored. How many users somebody follows is a quantile of one distribution, read through a
seeded permutation of the ids. Whom they follow is drawn from another distribution. So a chunk needs only the seed and
its own range of sources, and memory stays flat from a thousand edges to a billion.

Both are Lomax distributions (Pareto, shifted to start at zero): P(degree > d) = (1 + d/scale) ** -exponent.
The defaults lie among real follow graphs: see docs/degree-tails.png, drawn by bench/degree_fit.py.

Not modelled: mutual follows, circles of friends, and any correlation between following many and being followed by
many. Do not judge suggestions or lists of friends by a generated graph.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from kith.core.errors import BadRequest

Ints = npt.NDArray[np.int64]
Doubles = npt.NDArray[np.float64]

OUT_DEGREE_MAX = 10_000
"""Most users that one user follows (article 000: the cap of a following list)."""
USERS_MAX = 1 << 40
CELEBRITIES_MAX = 1_000
CHUNK_EDGES = 1 << 19
"""Target number of edges in a chunk: 8 MB as an array, some 60 MB while it is made. Another number gives another graph
for the same seed.
"""
CHUNK_USERS = 1 << 19
"""Most sources in a chunk, so that a sparse graph stays within the same memory."""

_POPULAR_ROUNDS = 12
_ROUNDS_MAX = 100
_TABLE_CELLS = 1 << 14


@dataclass(frozen=True)
class Community:
    """What to generate. Ids are 1 to `users`; celebrities have the first ids, in the order given.

    users: number of users. edges: exact number of follows in the stream, including those of celebrities.
    seed: 0 to 2^63-1. celebrities: name -> exact number of followers.
    out_tail, in_tail: exponents of P(degree > d) for following lists and follower lists; above 1, and the smaller the
    heavier. top_share: about which share of all users follows the most popular ordinary user, if the tail reaches so
    far (1% to 8% in the real graphs).
    Errors: BadRequest when no such graph exists, or it is too dense to draw (above 5,000 follows a user, or a quarter
    of all pairs).
    """

    users: int
    edges: int
    seed: int = 1
    celebrities: Mapping[str, int] = field(default_factory=dict)
    out_tail: float = 2.4
    in_tail: float = 1.25
    top_share: float = 0.05

    def __post_init__(self) -> None:
        if not 2 <= self.users <= USERS_MAX:
            raise BadRequest(f"users must be 2 to {USERS_MAX}", users=self.users)
        if not 0 <= self.seed < 1 << 63:
            raise BadRequest("seed must be 0 to 2^63-1", seed=self.seed)
        if not (1 < self.out_tail <= 20 and 1 < self.in_tail <= 20):
            raise BadRequest(
                "tail exponents must be above 1 (heaviest) and at most 20",
                out=self.out_tail,
                into=self.in_tail,
            )
        if not 0 < self.top_share <= 1:
            raise BadRequest("top_share is a share of the users, above 0 and at most 1", share=self.top_share)
        if len(self.celebrities) > min(CELEBRITIES_MAX, self.users // 2):
            raise BadRequest(f"at most {CELEBRITIES_MAX} celebrities, and fewer than half of the users")
        for name, followers in self.celebrities.items():
            if not 0 <= followers < self.users:
                raise BadRequest(
                    f"{name} needs {followers} followers of {self.users - 1} others; ask for more users",
                    celebrity=name,
                )
        if not 0 <= self.ordinary_edges <= self.users * self.list_max // 2:
            raise BadRequest(
                f"edges must be {self.celebrity_edges} (the celebrities' followers) to "
                f"{self.celebrity_edges + self.users * self.list_max // 2} for {self.users} users",
                edges=self.edges,
            )

    @property
    def celebrity_edges(self) -> int:
        """Number of follows of celebrities."""
        return sum(self.celebrities.values())

    @property
    def ordinary_edges(self) -> int:
        """Number of follows of ordinary users."""
        return self.edges - self.celebrity_edges

    @property
    def list_max(self) -> int:
        """Longest list of ordinary follows; a list that adds every celebrity still stays within OUT_DEGREE_MAX."""
        famous = len(self.celebrities)
        return max(1, min(OUT_DEGREE_MAX - famous, (self.users - famous) // 2))

    @property
    def celebrity_ids(self) -> dict[str, int]:
        """Ids of celebrities by name."""
        return {name: index + 1 for index, name in enumerate(self.celebrities)}


def stream(community: Community) -> Iterator[Ints]:
    """The community's follows, as arrays of shape (n, 2): source, destination; ordered by both.

    Edges are distinct, none points to its own source, and there are `community.edges` in all. Chunks have rising ranges
    of sources; empty chunks are left out. The same community gives the same chunks on the same NumPy and processor
    family. Another may round a power differently, and move a few edges.
    """
    law = _ListLengths(community)
    crowd = _Crowd(community)
    famous = _Famous(community)
    span = _span(community)
    for number, first in enumerate(range(0, community.users, span)):
        sources = np.arange(first, min(first + span, community.users), dtype=np.int64)
        rng = np.random.default_rng(np.random.SeedSequence((community.seed, number)))
        keys = _distinct(sources, law.of(sources), crowd, rng)
        keys = _joined(keys, famous.follows(sources))
        if keys.size:
            rows, destinations = np.divmod(keys, community.users)
            yield np.stack((rows + (first + 1), destinations + 1), axis=1)


def degree_tail(degrees: npt.ArrayLike) -> tuple[Ints, Doubles]:
    """The points of a CCDF plot: each degree above zero, rising, and the share of these nodes with that degree or more.

    On log-log axes the plot is a straight line where the tail is a power law.
    """
    positive = np.asarray(degrees, dtype=np.int64)
    positive = positive[positive > 0]
    values, counts = np.unique(positive, return_counts=True)
    return values, counts[::-1].cumsum()[::-1] / max(1, positive.size)


def tail_exponent(degrees: npt.ArrayLike, share: float = 0.01) -> float:
    """Hill's estimate of the exponent of P(degree > d), from the largest `share` of the degrees above zero.

    NaN when the tail is flat or has fewer than 10 nodes. Source: Hill, "A simple general approach to
    inference about the tail of a distribution" (1975).
    """
    positive = np.asarray(degrees, dtype=np.float64)
    ordered = np.sort(positive[positive > 0])[::-1]
    count = int(ordered.size * share)
    if count < 10 or ordered[0] == ordered[count]:
        return float("nan")
    return float(1 / np.mean(np.log(ordered[:count] / ordered[count])))


class _Permutation:
    """A seeded permutation of 0..size-1 without a table: mixing rounds on a power of two, cycle-walked into range.

    A round multiplies by an odd number and folds in the high bits. Both steps are invertible, so ids never collide.
    """

    def __init__(self, size: int, seed: tuple[int, ...]) -> None:
        bits = max(4, (size - 1).bit_length())
        words = np.random.SeedSequence(seed).generate_state(6, np.uint64)
        self._size = np.uint64(size)
        self._mask = np.uint64((1 << bits) - 1)
        self._shift = np.uint64((bits + 1) // 2)
        self._rounds = [(words[n] | np.uint64(1), words[n + 1]) for n in (0, 2, 4)]

    def of(self, positions: Ints) -> Ints:
        x = self._mixed(positions.astype(np.uint64))
        outside = np.flatnonzero(x >= self._size)
        while outside.size:  # the cycle of a position in range returns into range, after 2 steps on average
            mixed = self._mixed(x[outside])
            x[outside] = mixed
            outside = outside[mixed >= self._size]
        return x.view(np.int64)

    def _mixed(self, x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        for factor, offset in self._rounds:
            x = x * factor
            x += offset
            x &= self._mask
            x ^= x >> self._shift
        return x


class _ListLengths:
    """The number of ordinary follows of each user: quantiles of a capped Lomax distribution, in permuted order.

    Holds, for each k, how many users follow k or more: at most 10,000 numbers, whatever the size. The scale is solved
    by bisection, and the rounding remainder is distributed, so that the lengths add up to `ordinary_edges` exactly.
    """

    def __init__(self, community: Community) -> None:
        self._order = _Permutation(community.users, (community.seed, 1 << 32))
        counts = self._solved(community)
        self._rising = np.ascontiguousarray(counts[::-1])

    def of(self, users: Ints) -> Ints:
        behind = np.searchsorted(self._rising, self._order.of(users), side="right")
        return self._rising.size - behind

    @staticmethod
    def _solved(community: Community) -> Ints:
        lengths = np.arange(1, community.list_max + 1, dtype=np.float64)

        def at_least(log_scale: float) -> Ints:
            share: Doubles = (1 + lengths / np.exp(log_scale)) ** -community.out_tail
            return np.rint(community.users * share).astype(np.int64)

        low, high = -30.0, 40.0
        for _ in range(100):
            middle = (low + high) / 2
            if at_least(middle).sum() <= community.ordinary_edges:
                low = middle
            else:
                high = middle
        counts = at_least(low)
        edges_left = community.ordinary_edges - int(counts.sum())
        for index in range(counts.size):
            room = (int(counts[index - 1]) if index else community.users) - int(counts[index])
            added = min(room, edges_left)
            counts[index] += added
            edges_left -= added
        return counts


class _Crowd:
    """Draws ordinary users to follow, by popularity.

    Popularity at rank share q (0: the most popular) is (q + start)**(-1/a) minus its value at q = 1: the Lomax
    quantile, flattened at the very top. With x = (q + start)**(1 - 1/a), its integral is almost linear in x, so a table
    of 16 K cells inverts it.
    """

    def __init__(self, community: Community) -> None:
        a = community.in_tail
        self._famous = len(community.celebrities)
        self._size = community.users - self._famous
        self._ids = _Permutation(self._size, (community.seed, 2 << 32))
        self._power = a / (a - 1)
        self._start = _start(community, self._size)
        low, high = self._start ** (1 / self._power), (1 + self._start) ** (1 / self._power)
        x = low + (high - low) * (1 - np.linspace(1, 0, 8 * _TABLE_CELLS) ** 2)
        mass = _mass(x**self._power - self._start, self._start, a)
        self._table = np.interp(np.linspace(0, mass[-1], _TABLE_CELLS + 1), mass, x)
        self._slope = np.diff(self._table)

    def popular(self, count: int, rng: np.random.Generator) -> Ints:
        v = rng.random(count)
        v *= _TABLE_CELLS
        cell = v.astype(np.int64)
        v -= cell
        v *= self._slope[cell]
        v += self._table[cell]
        v **= self._power
        v -= self._start
        v *= self._size
        return self._users_at(v.astype(np.int64))

    def anyone(self, count: int, rng: np.random.Generator) -> Ints:
        return self._users_at(rng.integers(0, self._size, count))

    def _users_at(self, ranks: Ints) -> Ints:
        np.clip(ranks, 0, self._size - 1, out=ranks)
        return self._ids.of(ranks) + self._famous

    @property
    def users(self) -> int:
        return self._size + self._famous


def _mass(q: Doubles, start: float, a: float) -> Doubles:
    """Cumulative popularity of the first share `q` of the ranks."""
    body = (q + start) ** (1 - 1 / a) - start ** (1 - 1 / a)
    return body * a / (a - 1) - q * (1 + start) ** (-1 / a)  # type: ignore[no-any-return]


def _start(community: Community, size: int) -> float:
    """The start of the ranks at which about `top_share` of the users follow the most popular one."""
    a, mean, top_followers = (
        community.in_tail,
        community.ordinary_edges / size,
        community.top_share * community.users,
    )
    low, high = np.log(0.5 / size), np.log(100.0)
    for _ in range(60):
        start = float(np.exp((low + high) / 2))
        top = start ** (-1 / a) - (1 + start) ** (-1 / a)
        if mean * top / float(_mass(np.ones(1), start, a)[0]) > top_followers:
            low = np.log(start)
        else:
            high = np.log(start)
    return float(np.exp(high))


class _Famous:
    """Chooses a celebrity's followers: the first `followers` of all other users, in a permutation per celebrity."""

    def __init__(self, community: Community) -> None:
        self._users = community.users
        self._orders = [
            (celebrity, followers, _Permutation(community.users - 1, (community.seed, (3 << 32) + celebrity)))
            for celebrity, followers in enumerate(community.celebrities.values())
        ]

    def follows(self, sources: Ints) -> Ints:
        """Keys (row * users + destination) of these sources' follows of celebrities, unordered."""
        keys = [np.empty(0, dtype=np.int64)]
        for celebrity, followers, order in self._orders:
            rows = np.flatnonzero(sources != celebrity)
            follower_ids = sources[rows]
            chosen = rows[order.of(follower_ids - (follower_ids > celebrity)) < followers]
            keys.append(chosen * self._users + celebrity)
        return np.concatenate(keys)


def _span(community: Community) -> int:
    """Number of sources in a chunk."""
    mean = max(1.0, community.edges / community.users)
    return max(1, min(CHUNK_USERS, int(CHUNK_EDGES / mean)))


def _distinct(sources: Ints, lengths: Ints, crowd: _Crowd, rng: np.random.Generator) -> Ints:
    """Rising keys (row * users + destination): `lengths[row]` distinct destinations per row, never its own source.

    Duplicates are redrawn by popularity. After _POPULAR_ROUNDS, a list that still lacks destinations draws them
    uniformly. A list has at most half of the crowd, so each such round halves what is missing, on average.
    """
    keys = np.empty(0, dtype=np.int64)
    missing = lengths
    for turn in range(_ROUNDS_MAX):
        rows = np.repeat(np.arange(sources.size), missing)
        if not rows.size:
            return keys
        chosen = (crowd.popular if turn < _POPULAR_ROUNDS else crowd.anyone)(rows.size, rng)
        chosen = chosen[(valid := chosen != sources[rows])] + rows[valid] * crowd.users
        keys = _joined(keys, chosen)
        missing = lengths - np.bincount(keys // crowd.users, minlength=sources.size)
    raise RuntimeError(f"lists not filled in {_ROUNDS_MAX} rounds")  # chance below 2**-80 a list


def _joined(keys: Ints, new: Ints) -> Ints:
    """The rising union of `keys` (rising, distinct) and `new` (any)."""
    if not new.size:
        return keys
    merged = np.sort(np.concatenate((keys, new)))
    first = np.empty(merged.size, dtype=np.bool_)
    first[0] = True
    np.not_equal(merged[1:], merged[:-1], out=first[1:])
    return merged[first]
