"""Pushes to many followers that are under way: made chunk by chunk, and resumed where a worker stopped.

Until the last chunk is pushed, readers look up the author's outbox as well. So a post is at once where it belongs,
and no other post waits for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from kith.home.timelines import Ids

UNDER_WAY_MAX = 1_000
"""Deliveries under way at a time, 24 bytes each in the read of a home; before a further one begins, one must end."""
_NOBODY = np.empty(0, np.int64)


class Chunks(msgspec.Struct, frozen=True):
    """How many followers are pushed to at once: as many as take about `wanted_s`, in memory or on a disk."""

    least: int = 1 << 12
    first: int = 1 << 15
    most: int = 1 << 18
    wanted_s: float = 0.02
    noted_s: float = 0.5  # how much pushing a kill repeats; to note it waits for the disk, which pushes may keep busy

    def after(self, size: int, took_s: float) -> int:
        """The size of the next chunk where one of `size` took so long."""
        if took_s > self.wanted_s:
            return max(self.least, size // 2)
        return min(self.most, 2 * size) if 2 * took_s < self.wanted_s else size


class Delivery(NamedTuple):
    """A post that is being pushed; followers with ids up to `after` have it (-1: nobody yet)."""

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
