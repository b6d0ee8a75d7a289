"""What repeats in the log is written once in a while, and how often it was not is told."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys

import pytest
import structlog

from kith.run.logs import REPEAT_S, SparingTracebacks

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
    """Events that came through, at a time that the test sets."""

    def __init__(self) -> None:
        self.now_s, self.events = 0.0, list[dict[str, object]]()
        self._processor = SparingTracebacks(lambda: self.now_s)

    def say(self, event: str, **fields: object) -> None:
        """Log an event."""
        with contextlib.suppress(structlog.DropEvent):
            self.events.append(dict(self._processor(None, "error", {"event": event, **fields})))


def fail(kind: type[Exception]) -> Exception:
    """An error with a traceback, raised at one place whatever its kind."""
    try:
        raise kind("no room")
    except kind as error:
        return error


def test_a_traceback_is_written_once_in_a_while_and_says_how_often_it_was_not() -> None:
    written = Written()
    for step in range(25):
        written.now_s = step * REPEAT_S / 10
        written.say("broken", exc_info=fail(OSError), part="timelines")
    assert [event.get("repeated") for event in written.events] == [None, 9, 9]


def test_what_differs_in_event_fields_error_or_place_is_written() -> None:
    written = Written()
    for _ in range(2):
        written.say("a", exc_info=fail(OSError))
        written.say("b", exc_info=fail(OSError))
        written.say("a", exc_info=fail(OSError), sequence=7)
        written.say("a", exc_info=fail(OSError), sequence=8)
        written.say("a", exc_info=fail(ValueError))
        written.say("a", exc_info=OSError("never raised"))
    assert len(written.events) == 6


def test_events_without_a_traceback_are_all_written() -> None:
    written = Written()
    for _ in range(3):
        written.say("started")
        written.say("started", exc_info=False)
    assert len(written.events) == 6


def test_an_error_that_is_being_handled_counts_as_one_that_is_given() -> None:
    written = Written()
    for _ in range(3):
        try:
            raise KeyError("x")
        except KeyError:
            written.say("broken", exc_info=True)
    assert len(written.events) == 1


def test_kinds_are_forgotten_before_they_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kith.run.logs._KINDS_MAX", 3)
    written = Written()
    for name in "abcda":
        written.say(name, exc_info=fail(OSError))
    assert len(written.events) == 5


def test_a_process_that_fails_again_and_again_writes_one_traceback() -> None:
    done = subprocess.run([sys.executable, "-c", _FAILING], capture_output=True, check=True, text=True)
    first, last = map(json.loads, done.stderr.splitlines())
    assert first["event"] == "broken"
    assert "ZeroDivisionError" in first["exception"]
    assert last["event"] == "over"
