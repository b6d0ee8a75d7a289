"""How every process logs: one JSON object per line on standard error. Repeated failures are suppressed for a time.

A line that cannot be written, as on a full disk or to a closed terminal, is lost, and fails nothing.
"""

from __future__ import annotations

import contextlib
import io
import logging
import sys
import time
from collections.abc import Callable
from typing import TextIO, cast

import structlog
from structlog.typing import EventDict, WrappedLogger

REPEAT_S = 10.0
"""Seconds for which a repeated failure is suppressed. On a full disk, every request may raise the same one."""
_KINDS_MAX = 1_000


def configure(level: str) -> None:
    """Log events that are at least as severe as `level`."""
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        processors=[
            SparingFailures(),
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.WriteLoggerFactory(file=cast(TextIO, _Lossy(sys.stderr))),
        cache_logger_on_first_use=True,
    )


class _Lossy(io.TextIOBase):
    """Writes to a file as far as possible."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            self._file.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._file.flush()


class SparingFailures:
    """Suppresses a failure that was logged recently: same fields, and if it has a traceback, raised at the same line.

    A failure has a traceback or the field `error`. The next one that is logged says in `repeated` how many were
    suppressed.
    """

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._written: dict[tuple[object, ...], tuple[float, int]] = {}  # kind: when last logged, suppressed since

    def __call__(self, logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
        """Called by structlog for each event; raises DropEvent to suppress it."""
        error = event.get("exc_info")
        if error is True:
            error = sys.exc_info()[1]
        origin = _origin(error) if isinstance(error, BaseException) else ()
        if not origin and "error" not in event:
            return event
        fields = tuple(sorted((name, str(value)) for name, value in event.items() if name != "exc_info"))
        kind, now_s = (fields, *origin), self._now_s()
        logged_s, repeated = self._written.get(kind, (-REPEAT_S, 0))
        if now_s - logged_s < REPEAT_S:
            self._written[kind] = (logged_s, repeated + 1)
            raise structlog.DropEvent
        if len(self._written) >= _KINDS_MAX:
            self._written.clear()
        self._written[kind] = (now_s, 0)
        return {**event, "repeated": repeated} if repeated else event


def _origin(error: BaseException) -> tuple[object, ...]:
    """The type of an error, and the file and line where it was raised."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    return (type(error), None if place is None else (place.tb_frame.f_code.co_filename, place.tb_lineno))
