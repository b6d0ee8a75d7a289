"""Spreads users over buckets. All keys of a bucket share a hash tag, so they are on one node."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from kith.graph.shapes import Ids

BUCKETS = 32
"""Buckets of all users. With 32, a push to a few hundred followers makes calls of about ten users each, and nodes get
equal shares. Another number changes every key."""
_USERS_A_CALL = 2_000
"""Users of one call. It takes a node about 2 ms, for which other calls wait."""
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
"""An odd factor with random-looking bits, which spreads consecutive ids (Knuth's multiplicative hashing)."""


class Buckets:
    """Divides users among `count` buckets."""

    def __init__(self, count: int = BUCKETS) -> None:
        self.count = count

    def of(self, user: int) -> tuple[int, bytes]:
        """A user's bucket, and the user's id as keys and scripts write it."""
        return int(self._all_of(np.array([user], np.int64))[0]), packed(user)

    def order(self, users: Ids) -> NDArray[np.int64]:
        """The indexes of users, grouped by bucket."""
        return np.argsort(self._all_of(users), kind="stable")

    def shares(self, users: Ids) -> Iterator[tuple[int, Ids]]:
        """Users by bucket, in the order of `order`, in shares of up to _USERS_A_CALL."""
        order = self.order(users)
        buckets, ordered = self._all_of(users)[order], users[order].astype("<i8")
        distinct, starts = np.unique(buckets, return_index=True)
        ends = [*starts[1:].tolist(), len(users)][: len(distinct)]
        for bucket, start, end in zip(distinct.tolist(), starts.tolist(), ends, strict=True):
            for first in range(start, end, _USERS_A_CALL):
                yield bucket, ordered[first : min(first + _USERS_A_CALL, end)]

    def _all_of(self, users: Ids) -> NDArray[np.int64]:
        spread = (users.astype(np.uint64) * _SPREAD) >> np.uint64(32)
        return (spread % np.uint64(self.count)).astype(np.int64)


def packed(number: int) -> bytes:
    """An integer as 8 bytes, little-endian, like all integers in these keys."""
    return number.to_bytes(8, "little", signed=True)
