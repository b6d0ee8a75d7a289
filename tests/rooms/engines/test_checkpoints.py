"""The thread that makes checkpoints."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from kith.engines.embedded import checkpoints
from kith.engines.embedded.environment import Environment


def test_a_process_that_closes_just_as_a_checkpoint_begins_comes_to_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`close` sets its two events at the worst moment: after the last look at the one, before the other is cleared."""
    monkeypatch.setattr(checkpoints, "INTERVAL_S", 0.0)
    environment = Environment(tmp_path / "data")
    made = environment._checkpoints  # the moment cannot be met from outside
    wakes = _Waking(made)
    monkeypatch.setattr(made, "_uncovered", wakes)
    environment.put_note("a write", b"1")
    assert wakes.cleared.wait(10)
    closing = threading.Thread(target=environment.close, daemon=True)
    closing.start()
    closing.join(10)
    assert not closing.is_alive()


class _Waking(threading.Event):
    """Is set once more by `close` directly before it is cleared."""

    def __init__(self, made: checkpoints.Checkpoints) -> None:
        super().__init__()
        self._made, self.cleared = made, threading.Event()

    def clear(self) -> None:
        self._made._closing.set()
        super().clear()
        self.cleared.set()
