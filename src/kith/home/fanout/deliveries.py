"""A delivery: one post pushed to many followers, chunk by chunk, with a checkpoint to resume from after a crash.

Until its last chunk is pushed, homes read the author's outbox as well. So all followers have the post at once, and no
other post waits for it.
"""

from __future__ import annotations

import msgspec

DELIVERIES_MAX = 1_000
"""Deliveries of a worker under way at a time; before another begins, one must end."""
WITHHELD_MAX = 10_000
"""Authors whose posts may be withheld from some timelines; when there are more, the others push to all."""


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
