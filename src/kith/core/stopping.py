"""Stops tasks reliably.

A task that is cancelled just as one of its calls fails may mistake the cancellation for that failure and continue. So
`stop` cancels a task repeatedly until it has ended.
"""

from __future__ import annotations

import asyncio
from typing import Any

_CANCEL_EVERY_S = 5  # seconds between cancellations: longer than tasks need to clean up, such as to release a lease


async def stop(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks, and return once all have ended. Their errors are not raised here."""
    left = {task for task in tasks if not task.done()}
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=_CANCEL_EVERY_S)
