"""The parts that were unavailable while a page was made. The answer lists them in `degraded`.

Each request has one `Degraded`. Every step that can work without a part takes it and records what is missing.
"""

from __future__ import annotations

import structlog

_log = structlog.get_logger("kith.home")


class Degraded:
    """Collects names of parts. `parts`: each once, in the order they were recorded; the answer's `degraded`."""

    def __init__(self) -> None:
        self.parts: list[str] = []

    def note(self, part: str) -> None:
        """Record that a part is unavailable or out of date."""
        if part not in self.parts:
            self.parts.append(part)

    def failed(self, part: str) -> None:
        """Record a part, and log the exception that is being handled."""
        _log.exception("the feed continues without a part", part=part)
        self.note(part)
