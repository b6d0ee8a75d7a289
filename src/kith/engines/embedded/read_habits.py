"""When a timeline was last read, and how often recently, in one 64-bit word, so that any process may note a read.

    ms since the epoch << 20 | recent reads, in sixteenths

Words sort by time. A read counts 1, and its weight decays to 1/e within RATE_WINDOW_MS. So the sum estimates the reads
of the last RATE_WINDOW_MS; it stops at 65,535. Two reads that two processes note at the same instant may count once.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from kith.graph.shapes import Ids
from kith.home.timelines import RATE_WINDOW_MS

_BITS = 20
_UNIT = 1 << 4
_MASK = (1 << _BITS) - 1


def first_read(now_ms: int) -> int:
    """The word of a timeline that is read for the first time."""
    return now_ms << _BITS | _UNIT


def add_reads(word: int, now_ms: int, reads: int) -> int:
    """The word as of now, with these `reads` added."""
    recent = (word & _MASK) * math.exp(min(0, (word >> _BITS) - now_ms) / RATE_WINDOW_MS)
    return now_ms << _BITS | min(_MASK, round(recent) + reads * _UNIT)


def read_ms(words: Ids) -> Ids:
    """When each timeline was last read, in ms since the epoch."""
    return words >> _BITS


def lately(words: Ids, now_ms: int) -> NDArray[np.float64]:
    """About how often each timeline was read in the last RATE_WINDOW_MS."""
    ages = np.minimum(0, (words >> _BITS) - now_ms) / RATE_WINDOW_MS
    return np.asarray((words & _MASK) / _UNIT * np.exp(ages), np.float64)
