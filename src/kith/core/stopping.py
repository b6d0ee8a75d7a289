"""Tasks that end when they are told to.

One that is cancelled just as a call of it fails may take it for that failure, and go on. So it is cancelled until it
has ended.
"""

from __future__ import annotations

import asyncio
from typing import Any

_AGAIN_S = 5  # longer than what tasks do at their end, such as to release a lease


async def stop(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks, and return once all have ended. What they raise is not raised here."""
    left = {task for task in tasks if not task.done()}
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=_AGAIN_S)
