"""Breaks a process on purpose: its clock is wrong, or it dies at a step. Python imports this module at the start of
any process that has this folder in PYTHONPATH.

The clock is TEST_CLOCK_AHEAD_S ahead, or the seconds in the file TEST_CLOCK_FILE, which is reread while it runs; no
file means 0. An owner of partitions kills its own process at the step named in the file TEST_STEP_FILE, and removes
the file first; see STEPS.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

STEPS = ("taken", "decided", "journalled", "half written", "written", "told")
SEVERAL = 12
"""Rows that a batch needs to be left half written: so many belong to several commands."""
_LOOKED_S = 0.02
_time, _time_ns, _monotonic = time.time, time.time_ns, time.monotonic
_clock_file, _step_file = (Path(os.environ.get(f"TEST_{name}_FILE", "none")) for name in ("CLOCK", "STEP"))
_ahead_s, _due_s = int(os.environ.get("TEST_CLOCK_AHEAD_S", "0")), 0.0


def _ahead() -> int:
    global _ahead_s, _due_s  # noqa: PLW0603 - one clock a process
    if _clock_file.name != "none" and _monotonic() >= _due_s:
        _due_s = _monotonic() + _LOOKED_S
        _ahead_s = int(_clock_file.read_text() or "0") if _clock_file.exists() else 0
    return _ahead_s


def _is_at(step: str) -> bool:
    return _step_file.exists() and _step_file.read_text() == step


def _come_to(step: str) -> None:
    if _is_at(step):
        _step_file.unlink()
        os.kill(os.getpid(), signal.SIGKILL)


def _wrap(kind: type, method: str, before: str = "", after: str = "") -> None:
    """Reach the step `before` a method runs, and the step `after` it is done."""
    made: Callable[..., Coroutine[Any, Any, Any]] = getattr(kind, method)

    async def stepping(*arguments: Any, **named: Any) -> Any:
        _come_to(before)
        answer = await made(*arguments, **named)
        _come_to(after)
        return answer

    setattr(kind, method, stepping)


def _step() -> None:
    from kith.engines.cassandra.owner import CassandraOwner  # noqa: PLC0415 - needed only where TEST_STEP_FILE is set
    from kith.engines.cassandra.rows import CassandraRows  # noqa: PLC0415
    from kith.engines.kafka.commits import PartitionEnd  # noqa: PLC0415

    written = CassandraRows.write

    async def write(rows: CassandraRows, changes: Sequence[Any]) -> None:
        if _is_at("half written") and len(changes) >= SEVERAL:
            await written(rows, changes[: len(changes) // 2])
            _come_to("half written")
        await written(rows, changes)

    setattr(CassandraRows, "write", write)  # noqa: B010 - a plain assignment would not type-check
    _wrap(CassandraRows, "take_over", after="taken")
    _wrap(CassandraOwner, "_write_journal", before="decided", after="journalled")
    _wrap(CassandraRows, "write", after="written")
    _wrap(PartitionEnd, "commit", after="told")


vars(time).update(time=lambda: _time() + _ahead(), time_ns=lambda: _time_ns() + _ahead() * 1_000_000_000)
if _step_file.name != "none":
    _step()
