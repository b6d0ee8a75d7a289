"""Python reads this first where its folder is in PYTHONPATH: the clock of the process is TEST_CLOCK_AHEAD_S ahead."""

from __future__ import annotations

import os
import time

_AHEAD_S = int(os.environ["TEST_CLOCK_AHEAD_S"])
_time, _time_ns = time.time, time.time_ns
vars(time).update(time=lambda: _time() + _AHEAD_S, time_ns=lambda: _time_ns() + _AHEAD_S * 1_000_000_000)
