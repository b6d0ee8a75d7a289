"""What a standby says with every answer: how old it may be."""

from __future__ import annotations

from collections.abc import Callable

from kith.http.exchange import Exchange, Serve

BEHIND_HEADER = "kith-behind"


class Behind:
    """Adds `Kith-Behind` to what a standby answers: ms since it was known to have all that the primary had.

    `behind_ms`: None while that is not known, of which the header says `unknown`.
    """

    def __init__(self, door: Serve, behind_ms: Callable[[], int | None]) -> None:
        self._door, self._behind_ms = door, behind_ms

    async def __call__(self, exchange: Exchange) -> None:
        """Answer one request."""
        behind = self._behind_ms()
        said = "unknown" if behind is None else str(behind)
        exchange.added.append((BEHIND_HEADER, said))
        await self._door(exchange)
