"""The light pass: a score is a weighted sum of the features, with article 001's weights.

A trained model can take its place: features in, scores out, under a MODEL name of its own.
"""

from __future__ import annotations

import numpy as np

from kith.home.rank.features import FEATURES, Floats

MODEL = "light-1"
WEIGHTS = {"recency": 0.3, "affinity": 0.4, "velocity": 0.2, "type": 0.1}
REASONS = {
    "recency": "recent",
    "affinity": "friend_interaction",
    "velocity": "popular",
    "type": "content_type",
}
"""Why a post stands where it does: the feature that gave most of its score."""
OWN = "own_post"
PINNED = "followed_board"
_WEIGHTS = np.array([WEIGHTS[name] for name in FEATURES], np.float32)
_REASONS = [REASONS[name] for name in FEATURES]


def score(rows: Floats, damping: Floats | None = None) -> Floats:
    """0 to 1 a post. `damping`: a factor from 0 to 1 on each, lower for what the reader wants to see less of."""
    scores: Floats = rows @ _WEIGHTS
    return scores if damping is None else scores * damping


def contributions(rows: Floats) -> Floats:
    """What each feature adds to each score."""
    return rows * _WEIGHTS


def reasons(rows: Floats) -> list[str]:
    """The reason of each row."""
    return [_REASONS[at] for at in contributions(rows).argmax(axis=1).tolist()] if len(rows) else []
