"""What was served, for whoever trains a ranker: each page with the features that its posts were ranked by."""

from __future__ import annotations

from typing import Protocol

import msgspec


class Served(msgspec.Struct, frozen=True, array_like=True):
    """A ranked page as it was answered. `rows`: float32, little-endian, a row a post, FEATURES columns.

    `scores`: as the reader was told them; the order knows besides whom the app limits.
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


class Nowhere:
    """Keeps nothing: what `served_log_share = 0` asks for."""

    def add(self, page: Served) -> None:
        """Forget it."""
