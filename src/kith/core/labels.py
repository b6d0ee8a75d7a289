"""Moderation labels: what the app decided about a post or a user, as bits of one small number.

HIDE: only the app and the author see it. LIMIT: besides them only the author's followers do. SENSITIVE: shown, and
marked, so that a client can blur it. The labels of a user hold for all that the user makes, too. Plain numbers and no
enum, because every read of a post asks for them.
"""

from __future__ import annotations

from collections.abc import Iterable

HIDE, LIMIT, SENSITIVE = 1, 2, 4
NAMES = {"hide": HIDE, "limit": LIMIT, "sensitive": SENSITIVE}
FOR_ALL = SENSITIVE
"""What every viewer is told; the rest is told to the app and the author."""


def bits_of(names: Iterable[str]) -> int:
    """The labels with these names."""
    bits = 0
    for name in names:
        bits |= NAMES[name]
    return bits


def names_of(labels: int) -> list[str]:
    """The names of labels, the strictest first."""
    return [name for name, bit in NAMES.items() if labels & bit]


def shown(labels: int, *, own: bool) -> list[str]:
    """The names that a reader is told. `own`: the app itself, or who made what is labelled."""
    return names_of(labels if own else labels & FOR_ALL)
