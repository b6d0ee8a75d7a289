"""The light pass: a score is a weighted sum of the features, with article 001's weights.

A trained model can replace it: features in, scores out, under its own MODEL name.
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
"""The reason shown for a post: the feature that contributes most to its score."""
OWN = "own_post"
PINNED = "followed_board"
_WEIGHTS = np.array([WEIGHTS[name] for name in FEATURES], np.float32)
_REASONS = [REASONS[name] for name in FEATURES]


def score(rows: Floats, damping: Floats | None = None) -> Floats:
    """A score from 0 to 1 for each post. `damping`: a factor from 0 to 1 for each, lower after "see fewer"."""
    scores: Floats = rows @ _WEIGHTS
    return scores if damping is None else scores * damping


def contributions(rows: Floats) -> Floats:
    """The contribution of each feature to each score."""
    return rows * _WEIGHTS


def reasons(rows: Floats) -> list[str]:
    """The reason of each row."""
    return [_REASONS[at] for at in contributions(rows).argmax(axis=1).tolist()] if len(rows) else []
