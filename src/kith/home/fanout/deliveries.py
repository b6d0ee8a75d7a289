"""A delivery: one post pushed to many followers, chunk by chunk, with a checkpoint to resume from after a crash.

Until its last chunk is pushed, homes read the author's outbox as well. So all followers have the post at once, and no
other post waits for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from kith.home.timelines import Ids

DELIVERIES_MAX = 1_000
"""Deliveries under way at a time, 24 bytes each in every read of a home; before another begins, one must end."""
_NOBODY = np.empty(0, np.int64)


class Chunks(msgspec.Struct, frozen=True):
    """How many followers a chunk has: as many as take about `target_s` to push to, in memory or on a disk."""

    size_min: int = 1 << 12
    size_first: int = 1 << 15
    size_max: int = 1 << 18
    target_s: float = 0.02
    checkpoint_s: float = 0.5  # between checkpoints, each of which waits for the disk; a crash repeats so much pushing

    def next_size(self, size: int, took_s: float) -> int:
        """The size of the chunk after one of `size` that took so long."""
        if took_s > self.target_s:
            return max(self.size_min, size // 2)
        return min(self.size_max, 2 * size) if 2 * took_s < self.target_s else size


class Delivery(NamedTuple):
    """A post that is being pushed. `after` is its checkpoint: followers with ids up to it have it (-1: nobody yet)."""

    post: int
    author: int
    after: int = -1


def pack(deliveries: Sequence[Delivery]) -> bytes:
    """Deliveries as bytes, to be stored."""
    return np.array(deliveries, "<i8").tobytes()


def unpack(raw: bytes | None) -> list[Delivery]:
    """What `pack` made; None: nothing is under way."""
    return [Delivery(*row) for row in _rows(raw).tolist()]


def authors_of(raw: bytes | None) -> Ids:
    """The authors of what `pack` made, each once, ascending."""
    return np.unique(_rows(raw)[:, 1]) if raw else _NOBODY


def _rows(raw: bytes | None) -> Ids:
    return np.frombuffer(raw or b"", "<i8").reshape(-1, 3)
