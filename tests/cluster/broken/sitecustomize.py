"""Python reads this first where its folder is in PYTHONPATH: the clock of the process is wrong, or an owner dies.

The clock is TEST_CLOCK_AHEAD_S ahead, or as many seconds as the file TEST_CLOCK_FILE says at the moment; 0 where it is
none. An owner of partitions kills its process when it comes to the step that the file TEST_STEP_FILE names, which is
removed before that; see STEPS.
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
"""Rows of a batch that is left half written, which are of several commands."""
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
    """Have steps come before a method, and once it is done."""
    made: Callable[..., Coroutine[Any, Any, Any]] = getattr(kind, method)

    async def stepping(*arguments: Any, **named: Any) -> Any:
        _come_to(before)
        answer = await made(*arguments, **named)
        _come_to(after)
        return answer

    setattr(kind, method, stepping)


def _step() -> None:
    from kith.engines.cassandra.owner import CassandraOwner  # noqa: PLC0415 - only of those that die
    from kith.engines.cassandra.rows import CassandraRows  # noqa: PLC0415
    from kith.engines.kafka.commits import PartitionEnd  # noqa: PLC0415

    written = CassandraRows.write

    async def write(rows: CassandraRows, changes: Sequence[Any]) -> None:
        if _is_at("half written") and len(changes) >= SEVERAL:
            await written(rows, changes[: len(changes) // 2])
            _come_to("half written")
        await written(rows, changes)

    setattr(CassandraRows, "write", write)  # noqa: B010 - of a class that is known by its type
    _wrap(CassandraRows, "take_over", after="taken")
    _wrap(CassandraOwner, "_write_journal", before="decided", after="journalled")
    _wrap(CassandraRows, "write", after="written")
    _wrap(PartitionEnd, "commit", after="told")


vars(time).update(time=lambda: _time() + _ahead(), time_ns=lambda: _time_ns() + _ahead() * 1_000_000_000)
if _step_file.name != "none":
    _step()
