"""The features of a candidate post for a reader: one function, for serving and for training alike.

Served pages are logged with their features and VERSION (`home/served.py`), so a model is trained on the numbers that
were used. Add a feature at the end. Give a changed feature a new name. Raise VERSION for either.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kith.core.ids import EPOCH_MS, TIME_SHIFT

FEATURES = ("recency", "affinity", "velocity", "type")
"""The columns of `features`, each from 0 to 1."""
VERSION = 1
TYPES = ("text", "link", "image", "video")
"""Types of posts. `Facts` has their indexes."""
RECENCY_HALF_LIFE_H = 24.0
VELOCITY_HALF = 5.0
"""Engagement an hour at which `velocity` is one half."""
VELOCITY_AGE_MIN_H = 2.0
"""A younger post counts as this old; otherwise its first like would give it the highest velocity of all."""
_TYPE_BOOST = np.array([0.5, 0.6, 1.0, 1.0], np.float32)
_HOUR_MS = np.float32(3_600_000)

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]


class Facts(NamedTuple):
    """Facts of posts, the same for every reader, in columns, one row a post."""

    ids: Integers
    authors: Integers
    copy_keys: Integers  # equal for copies
    engagement: Floats  # likes, comments, shares and saves, weighted by kind
    types: NDArray[np.int8]  # see TYPES
    limited: Flags  # the app's moderation limits the post or its author

    def take(self, which: Integers | slice) -> Facts:
        """The rows at these places."""
        ids, authors, copy_keys, engagement, types, limited = self
        return Facts(ids[which], authors[which], copy_keys[which], engagement[which], types[which], limited[which])

    @classmethod
    def joined(cls, parts: Sequence[Facts]) -> Facts:
        """The rows of all parts, in their order."""
        return cls(*map(np.concatenate, zip(*parts, strict=True))) if parts else NO_FACTS

    @property
    def made_ms(self) -> Integers:
        """When each post was created, from its id, in ms since the epoch."""
        return (self.ids >> TIME_SHIFT) + EPOCH_MS


_NO_IDS, _NO_AMOUNTS = np.empty(0, np.int64), np.empty(0, np.float32)
NO_FACTS = Facts(_NO_IDS, _NO_IDS, _NO_IDS, _NO_AMOUNTS, np.empty(0, np.int8), np.empty(0, np.bool_))


def features(facts: Facts, affinity: Floats, now_ms: int, dates: Integers | None = None) -> Floats:
    """The features, one row a post, columns FEATURES. `affinity`: of the reader to each post's author, 0 to 1.

    `dates`: when each post came to home, for `recency`; by default when it was created.
    """
    age_h = _age_h(facts.made_ms, now_ms)
    rate = facts.engagement / np.maximum(age_h, np.float32(VELOCITY_AGE_MIN_H))
    rows = np.empty((len(facts.ids), len(FEATURES)), np.float32)
    rows[:, 0] = np.exp2((age_h if dates is None else _age_h(dates, now_ms)) * np.float32(-1 / RECENCY_HALF_LIFE_H))
    rows[:, 1] = affinity
    rows[:, 2] = rate / (rate + np.float32(VELOCITY_HALF))
    rows[:, 3] = _TYPE_BOOST[facts.types]
    return rows


def _age_h(made_ms: Integers, now_ms: int) -> Floats:
    age_h: Floats = np.maximum((now_ms - made_ms).astype(np.float32) / _HOUR_MS, np.float32(0))
    return age_h
