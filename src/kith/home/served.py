"""What was served, to train rankers from: each ranked page with the features of its posts. The port of its log."""

from __future__ import annotations

from typing import Protocol

import msgspec


class Served(msgspec.Struct, frozen=True, array_like=True):
    """A ranked page as it was answered. `rows`: float32, little-endian, a row a post, FEATURES columns.

    `scores`: as the reader was told them. The order may differ, for posts of others that the app limits.
    """

    request: str
    reader: int
    at_ms: int
    model: str
    version: int  # of the features
    ids: list[int]
    scores: list[float]
    rows: bytes


class ServedLog(Protocol):
    """Keeps what was served. Best effort: it may forget under pressure, and never fails a request."""

    def add(self, page: Served) -> None:
        """Keep a page."""
        ...


class NullServedLog:
    """A ServedLog that keeps nothing."""

    def add(self, page: Served) -> None:
        """Forget it."""
