"""The port of the log of served pages: each ranked page with the features of its posts, as training data."""

from __future__ import annotations

from typing import Protocol

import msgspec


class Served(msgspec.Struct, frozen=True, array_like=True):
    """A ranked page as it was answered.

    `rows`: the features, float32, little-endian, one row a post, columns FEATURES. `scores`: as shown to the reader.
    The order may differ from the scores where moderation limits posts of other authors.
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
    """Stores served pages. Best effort: it may drop pages under load, and never fails a request."""

    def add(self, page: Served) -> None:
        """Store a page."""
        ...


class NullServedLog:
    """A ServedLog that keeps nothing."""

    def add(self, page: Served) -> None:
        """Drop the page."""
