"""Adds the lag of a standby to each of its answers."""

from __future__ import annotations

from collections.abc import Callable

from kith.http.exchange import Exchange, Serve

LAG_HEADER = "kith-behind"


class LagHeader:
    """Adds the header `Kith-Behind` to the answers of a standby: ms since it was known to have every event of the
    primary.

    `behind_ms`: None while that is not known; the header then says `unknown`.
    """

    def __init__(self, door: Serve, behind_ms: Callable[[], int | None]) -> None:
        self._door, self._behind_ms = door, behind_ms

    async def __call__(self, exchange: Exchange) -> None:
        """Answer one request."""
        behind = self._behind_ms()
        lag = "unknown" if behind is None else str(behind)
        exchange.added.append((LAG_HEADER, lag))
        await self._door(exchange)
