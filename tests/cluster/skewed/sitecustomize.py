"""Python reads this first where its folder is in PYTHONPATH: the clock of the process is wrong.

It is TEST_CLOCK_AHEAD_S ahead, or as many seconds as the file TEST_CLOCK_FILE says at the moment; 0 where it is none.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

_LOOKED_S = 0.02
_time, _time_ns, _monotonic = time.time, time.time_ns, time.monotonic
_file = Path(os.environ.get("TEST_CLOCK_FILE", "none"))
_ahead_s, _due_s = int(os.environ.get("TEST_CLOCK_AHEAD_S", "0")), 0.0


def _ahead() -> int:
    global _ahead_s, _due_s  # noqa: PLW0603 - one clock a process
    if _file.name != "none" and _monotonic() >= _due_s:
        _due_s = _monotonic() + _LOOKED_S
        _ahead_s = int(_file.read_text() or "0") if _file.exists() else 0
    return _ahead_s


vars(time).update(time=lambda: _time() + _ahead(), time_ns=lambda: _time_ns() + _ahead() * 1_000_000_000)
