"""Repeated failures are logged once in a while, with the number of repetitions left out."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
import structlog

from kith.run.logs import REPEAT_S, SparingFailures

_FAILING = """
import structlog
from kith.run.logs import configure

configure("info")
log = structlog.get_logger("x")
for _ in range(100):
    try:
        1 / 0
    except ZeroDivisionError:
        log.exception("broken")
log.info("over")
"""


class Written:
    """The events that were written. The test sets the time."""

    def __init__(self) -> None:
        self.now_s, self.events = 0.0, list[dict[str, object]]()
        self._processor = SparingFailures(lambda: self.now_s)

    def say(self, event: str, **fields: object) -> None:
        """Log an event."""
        with contextlib.suppress(structlog.DropEvent):
            self.events.append(dict(self._processor(None, "error", {"event": event, **fields})))


def fail(kind: type[Exception]) -> Exception:
    """An error with a traceback. Errors of every kind are raised at the same line."""
    try:
        raise kind("no room")
    except kind as error:
        return error


def test_a_repeated_traceback_is_written_once_in_a_while_with_the_count_left_out() -> None:
    written = Written()
    for step in range(25):
        written.now_s = step * REPEAT_S / 10
        written.say("broken", exc_info=fail(OSError), part="timelines")
    assert [event.get("repeated") for event in written.events] == [None, 9, 9]


def test_events_that_differ_in_name_fields_error_or_line_are_all_written() -> None:
    written = Written()
    for _ in range(2):
        written.say("a", exc_info=fail(OSError))
        written.say("b", exc_info=fail(OSError))
        written.say("a", exc_info=fail(OSError), sequence=7)
        written.say("a", exc_info=fail(OSError), sequence=8)
        written.say("a", exc_info=fail(ValueError))
        written.say("a", exc_info=OSError("never raised"))
    assert len(written.events) == 6


def test_a_failure_without_a_traceback_is_written_once_in_a_while_too() -> None:
    """Such as `waiting for the store` of each worker, every second, while the disk is full."""
    written = Written()
    for step in range(25):
        written.now_s = step * REPEAT_S / 10
        written.say("waiting", error="no room", group="push")
        written.say("waiting", error="no room", group="boards")
    assert [event.get("repeated") for event in written.events] == [None, None, 9, 9, 9, 9]


def test_events_that_are_no_failures_are_all_written() -> None:
    written = Written()
    for _ in range(3):
        written.say("started")
        written.say("started", exc_info=False)
    assert len(written.events) == 6


def test_the_error_being_handled_counts_like_a_given_one() -> None:
    written = Written()
    for _ in range(3):
        try:
            raise KeyError("x")
        except KeyError:
            written.say("broken", exc_info=True)
    assert len(written.events) == 1


def test_the_number_of_remembered_kinds_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kith.run.logs._KINDS_MAX", 3)
    written = Written()
    for name in "abcda":
        written.say(name, exc_info=fail(OSError))
    assert len(written.events) == 5


def test_a_process_that_keeps_failing_writes_one_traceback() -> None:
    done = subprocess.run([sys.executable, "-c", _FAILING], capture_output=True, check=True, text=True)
    first, last = map(json.loads, done.stderr.splitlines())
    assert first["event"] == "broken"
    assert "ZeroDivisionError" in first["exception"]
    assert last["event"] == "over"


_LOGGING = """
import structlog
from kith.run.logs import configure

configure("info")
for _ in range(1_000):
    structlog.get_logger("x").info("x" * 100)
print("over")
"""


def test_a_line_that_cannot_be_written_is_lost_and_fails_nothing() -> None:
    """As on a full disk, or where the terminal was closed."""
    with Path("/dev/full").open("w") as full:
        run = subprocess.run([sys.executable, "-c", _LOGGING], stdout=subprocess.PIPE, stderr=full, check=False)
    assert run.stdout == b"over\n"
