"""How every process logs: to standard error, a JSON object a line; repeated tracebacks are left out for a while."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable

import structlog
from structlog.typing import EventDict, WrappedLogger

REPEAT_S = 10.0
"""How long the same traceback is not written again: while a disk is full, every request may have one."""
_KINDS_MAX = 1_000


def configure(level: str) -> None:
    """Log what is at least as severe as `level`."""
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        processors=[
            SparingTracebacks(),
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
    )


class SparingTracebacks:
    """Leaves out an event whose traceback was written lately: same fields, same error, raised at the same line.

    The next one that is written tells how many were left out, as `repeated`.
    """

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._written: dict[tuple[object, ...], tuple[float, int]] = {}  # kind: when last, and how often since

    def __call__(self, logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
        """Called by structlog for each event; DropEvent leaves it out."""
        error = event.get("exc_info")
        if error is True:
            error = sys.exc_info()[1]
        if not isinstance(error, BaseException):
            return event
        said = tuple(sorted((name, str(value)) for name, value in event.items() if name != "exc_info"))
        kind, now = (said, *_origin(error)), self._now_s()
        at, repeated = self._written.get(kind, (-REPEAT_S, 0))
        if now - at < REPEAT_S:
            self._written[kind] = (at, repeated + 1)
            raise structlog.DropEvent
        if len(self._written) >= _KINDS_MAX:
            self._written.clear()
        self._written[kind] = (now, 0)
        return {**event, "repeated": repeated} if repeated else event


def _origin(error: BaseException) -> tuple[object, ...]:
    """The type of an error, and the file and line where it was raised."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    return (type(error), None if place is None else (place.tb_frame.f_code.co_filename, place.tb_lineno))
