"""CORS: lets web pages of configured origins read the API's answers (Fetch standard, section 3.2).

It wraps the door only if `cors_origins` names an origin. There is no credentials mode: the caller is identified by the
Authorization header, which pages set themselves and browsers never add, so nothing depends on cookies.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

from kith.api.consistency import TOKEN_HEADER
from kith.api.lag_header import LAG_HEADER
from kith.api.operations import Operation
from kith.http.exchange import Exchange, Serve
from kith.http.headers import Pairs

ANYONE = "*"
_METHODS = "GET, HEAD, POST, PUT, PATCH, DELETE"
_PREFLIGHT_S = 7_200  # how long browsers may cache a preflight; Chrome caches none longer
_REQUEST_HEADERS = ("authorization", "content-type", TOKEN_HEADER, "x-kith-user", "if-none-match", "if-range", "range")
"""Request headers that every operation allows; the table of operations adds the others."""
_EXPOSED_HEADERS = (
    TOKEN_HEADER, "retry-after", "ratelimit", "ratelimit-policy", "location", "etag", "allow", "www-authenticate",
    "accept-ranges", "content-range", "content-disposition", LAG_HEADER,
)  # fmt: skip
"""Response headers that pages may read."""


class CrossOrigin:
    """Answers preflights, and adds CORS headers to all other answers."""

    def __init__(
        self,
        door: Serve,
        origins: Iterable[str],
        operations: Sequence[Operation],
        observe: Callable[[str, float, int], None],
    ) -> None:
        """`observe` counts preflights, as the door counts all other requests."""
        self._door, self._observe, self._origins = door, observe, frozenset(origins)
        self._varies: Pairs = [] if ANYONE in self._origins else [("vary", "origin")]
        self._exposed = ("access-control-expose-headers", ", ".join(_EXPOSED_HEADERS))
        header_names = {
            parameter.name.lower()
            for operation in operations
            for parameter in operation.parameters
            if parameter.place == "header"
        }
        self._preflight: Pairs = [
            ("access-control-allow-methods", _METHODS),
            ("access-control-allow-headers", ", ".join([*_REQUEST_HEADERS, *sorted(header_names)])),
            ("access-control-max-age", str(_PREFLIGHT_S)),
        ]

    async def __call__(self, exchange: Exchange) -> None:
        """Answer one request."""
        headers = exchange.headers
        origin = headers.get("origin")
        allowed = self._allowed(origin)
        if origin is not None and exchange.method == "OPTIONS" and "access-control-request-method" in headers:
            started = time.perf_counter()
            exchange.respond(204, [*allowed, *self._preflight] if allowed else self._varies, b"")
            self._observe("preflight", started, 204)
        else:
            exchange.added += [*allowed, self._exposed] if allowed else self._varies
            await self._door(exchange)

    def _allowed(self, origin: str | None) -> Pairs:
        """The headers that let pages of this origin in; none for an origin that is not allowed."""
        if origin is None:
            return []
        if ANYONE in self._origins:
            return [("access-control-allow-origin", ANYONE)]
        return [("access-control-allow-origin", origin), *self._varies] if origin in self._origins else []
