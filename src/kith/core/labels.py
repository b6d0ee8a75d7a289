"""Moderation labels of a post or user: the app's decisions, as bits of one small number.

HIDE: only the app and the author see it. LIMIT: the author's followers see it too. SENSITIVE: everyone sees it, marked
so that a client can blur it. A user's labels also apply to everything that the user makes. They are plain numbers and
no enum, because every read of a post tests them.
"""

from __future__ import annotations

from collections.abc import Iterable

HIDE, LIMIT, SENSITIVE = 1, 2, 4
NAMES = {"hide": HIDE, "limit": LIMIT, "sensitive": SENSITIVE}
FOR_ALL = SENSITIVE
"""The labels that every viewer may see. Only the app and the author see the others."""


def bits_of(names: Iterable[str]) -> int:
    """The labels with these names, as bits."""
    bits = 0
    for name in names:
        bits |= NAMES[name]
    return bits


def names_of(labels: int) -> list[str]:
    """The names of labels, the strictest first."""
    return [name for name, bit in NAMES.items() if labels & bit]


def shown(labels: int, *, own: bool) -> list[str]:
    """The names of the labels that a viewer may see. `own`: the viewer is the app, or made the labelled object."""
    return names_of(labels if own else labels & FOR_ALL)
