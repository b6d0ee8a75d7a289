"""What was not available while a page was made. The page is made without it, and its answer says so.

One `Degraded` is made for each request and handed to every step that can do without a part.
"""

from __future__ import annotations

import structlog

_log = structlog.get_logger("kith.home")


class Degraded:
    """Collects the names of parts. `parts`: each once, in the order they were noticed; `degraded` in the answer."""

    def __init__(self) -> None:
        self.parts: list[str] = []

    def note(self, part: str) -> None:
        """A part is not as it should be."""
        if part not in self.parts:
            self.parts.append(part)

    def failed(self, part: str) -> None:
        """Note a part, and log the error that is being handled."""
        _log.exception("the feed goes on without a part", part=part)
        self.note(part)
