"""Sends and times the demo's requests: with the server key, on behalf of a user. A failed request ends the demo.

Like an app's backend, it sends each user's read-your-writes token with that user's requests only.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import httpx

from kith.core.errors import KithError, Unavailable
from kith.core.trust import tls_verify

TIMEOUT_S = 10.0
CONNECTIONS_MAX = 12
SYSTEM = "system"
"""The user of a request by the back office, which may see everything."""
_TOKEN = "Kith-Token"  # noqa: S105


class RequestRefused(KithError):
    """The server refused a request. `status`: of HTTP."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Timing(NamedTuple):
    """An answered request and its latency."""

    request: str  # such as `GET /feed`
    took_ms: float


class DemoClient:
    """Client of one server. `timings`: the requests since the list was last cleared."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http, self.url = http, http.base_url
        self._tokens: dict[int | str, str] = {}
        self.timings: list[Timing] = []

    async def ask(
        self, method: str, path: str, body: Any = None, *, user: int | str | None = None,
        picture: bytes | None = None, alt_text: str = "",
    ) -> Any:  # fmt: skip
        """Send a request; returns the answer's JSON, or None. `user`: who acts, or SYSTEM. `picture`: sent as a form.

        Errors: RequestRefused, Unavailable.
        """
        headers = {} if user is None else {"x-kith-user": str(user)}
        if user in self._tokens:
            headers[_TOKEN] = self._tokens[user]
        form: dict[str, Any] = {"json": body}
        if picture is not None:
            form = {"files": {"file": ("picture.png", picture, "image/png")}, "data": {"altText": alt_text}}
        started = time.perf_counter()
        try:
            answer = await self._http.request(method, path, headers=headers, **form)
        except httpx.HTTPError as error:
            why = str(error) or type(error).__name__
            raise Unavailable(f"the demo stopped at {method} {path}: the server gave no answer ({why})") from error
        if answer.is_error:
            raise RequestRefused(answer.status_code, f"the demo stopped at {method} {path}: {_error_text(answer)}")
        self.timings.append(Timing(f"{method} {path}", (time.perf_counter() - started) * 1000))
        if user is not None and _TOKEN in answer.headers:
            self._tokens[user] = answer.headers[_TOKEN]
        return answer.json() if answer.content else None


def _error_text(answer: httpx.Response) -> str:
    """An error answer as one line of text, even if it does not come from Kith."""
    try:
        error = answer.json()["error"]
        return f"{answer.status_code} {error['code']}: {error['message']}"
    except (ValueError, KeyError, TypeError):
        return f"{answer.status_code} from something that is not Kith"


def http_client(url: str, key: str) -> httpx.AsyncClient:
    """An HTTP client of the server at `url`."""
    limits = httpx.Limits(max_connections=CONNECTIONS_MAX, max_keepalive_connections=CONNECTIONS_MAX)
    return httpx.AsyncClient(
        base_url=f"{url}/api/v1", headers={"authorization": f"Bearer {key}"}, timeout=TIMEOUT_S, limits=limits,
        trust_env=False, verify=tls_verify(url),
    )  # fmt: skip
