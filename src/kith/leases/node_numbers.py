"""The node number of a process: it makes the process's ids differ from those of all others (see `core.ids`).

A number is a lease, not a setting or a counter. Nobody has to number the processes, and no two running processes hold
the same number. A later holder does not repeat ids either: an id holds its time, a process stops making ids once its
lease ends, and the number then rests for `COOLDOWN_S`, longer than clocks and versions may differ
(`core.clock.SKEW_MS_MAX`).
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import NamedTuple

from kith.core.clock import SKEW_MS_MAX
from kith.core.errors import Overloaded
from kith.leases.holding import HeldLease, Leases, LeaseTerms

USED_S = 20.0
"""How many seconds a number is used without renewal: longer than a working engine takes to answer."""
COOLDOWN_S = 2 * SKEW_MS_MAX / 1000 + USED_S
_TERMS = LeaseTerms(ttl_s=USED_S + COOLDOWN_S, use_s=USED_S, has_cooldown=True)


class NodeNumber(NamedTuple):
    """A node number and its lease."""

    number: int
    held: HeldLease


async def any_held(leases: Leases, numbers: int) -> bool:
    """Whether a process holds one of the numbers below `numbers`, or held one within the last minutes."""
    for number in range(numbers):
        async with leases.hold(f"number/{number}") as held:
            if held is None:
                return True
    return False


async def start_cooldown(leases: Leases, numbers: int) -> None:
    """Let the numbers below `numbers` rest, except held ones, because machines that share no leases with us
    used them.
    """
    for number in range(numbers):
        async with leases.hold(f"number/{number}", _TERMS):
            pass


@contextlib.asynccontextmanager
async def node_number(
    leases: Leases, numbers_max: int, *, on_lost: Callable[[], None] = lambda: None
) -> AsyncIterator[NodeNumber]:
    """Hold the lowest number below `numbers_max` that no other process holds. Overloaded if none is free."""
    for number in range(numbers_max):
        async with leases.hold(f"number/{number}", _TERMS, on_lost=on_lost) as held:
            if held is not None:
                yield NodeNumber(number, held)
                return
    raise Overloaded(f"all {numbers_max} node numbers for making ids are in use; stop a process")
