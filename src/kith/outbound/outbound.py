"""Sends one request to an address that a user gave: bounded in time and size, without following redirects.

It uses no proxies from the environment, no cookies and no credentials of this machine.
"""

from __future__ import annotations

import asyncio
import email.utils
import ssl
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import UTC
from typing import Any, NamedTuple

import httpcore

from kith.core.errors import BadRequest
from kith.outbound.addresses import IpNetwork
from kith.outbound.circuits import Circuits
from kith.outbound.errors import SendFailed, SendFault
from kith.outbound.http2 import Connections, Received
from kith.outbound.pinned import PinnedBackend, Resolve, resolved
from kith.outbound.urls import Target, check_url

CONNECT_S, TOTAL_S = 5.0, 15.0
"""How long connecting may take, and a whole request with its answer."""
ANSWER_BYTES_MAX = 1 << 16
"""Bytes of an answer's body that are read; the rest is ignored."""
RETRY_AFTER_S_MAX = 86_400.0
CONNECTIONS_MAX = 100
_IDLE_MAX_S = 30.0
_UNAVAILABLE = 500


class Answer(NamedTuple):
    """An answer. `headers`: by lower-case name. `body`: its first ANSWER_BYTES_MAX bytes.

    `retry_after_s`: how long the host asks callers to wait (Retry-After); 0 if it does not.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    retry_after_s: float = 0.0


Send = Callable[[str, str, Mapping[str, str], bytes], Coroutine[Any, Any, Answer]]
"""See `Outbound.send`."""


class Outbound:
    """Sends requests. `allowed`: networks that may be called even if they are not public."""

    def __init__(
        self,
        allowed: Sequence[IpNetwork] = (),
        *,
        resolve: Resolve = resolved,
        tls: ssl.SSLContext | None = None,
        connect_s: float = CONNECT_S,
        total_s: float = TOTAL_S,
        circuits: Circuits | None = None,
        connections_max: int = CONNECTIONS_MAX,
        http2: bool = False,
    ) -> None:
        """`connections_max`: requests at a time; others wait, which counts towards their deadline. `http2`: use HTTP/2
        with hosts that offer it, as some push services speak nothing else.
        """
        self._connect_s, self._total_s = connect_s, total_s
        self._circuits = circuits or Circuits(time.monotonic)
        backend = PinnedBackend(allowed, resolve)
        over_tls = httpcore.default_ssl_context() if http2 and tls is None else tls
        self._http2 = Connections(backend, over_tls, ANSWER_BYTES_MAX) if http2 and over_tls is not None else None
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=tls,
            max_connections=connections_max,
            max_keepalive_connections=connections_max,  # with fewer, as busy ones count, it reconnects constantly
            keepalive_expiry=_IDLE_MAX_S,
            network_backend=backend,
        )

    async def send(self, method: str, url: str, headers: Mapping[str, str], body: bytes = b"") -> Answer:
        """Send a request; returns its answer, whatever the status. Errors: SendFailed."""
        try:
            target = check_url(url)
        except BadRequest as error:
            raise SendFailed(SendFault.URL, error.message) from None
        with self._circuits.permit(target.authority) as permit:
            try:
                answer = await self._send_once(method, target, headers, body)
            except SendFailed as error:
                permit.failed = error.fault is not SendFault.REFUSED  # a refused address says nothing about the host
                raise
            permit.failed = answer.status >= _UNAVAILABLE
            return answer

    async def close(self) -> None:
        """Close every connection."""
        if self._http2 is not None:
            await self._http2.close()
        await self._pool.aclose()

    async def _send_once(self, method: str, target: Target, headers: Mapping[str, str], body: bytes) -> Answer:
        host, received = target.authority, None
        try:
            async with asyncio.timeout(self._total_s):
                if self._http2 is not None and target.scheme == "https":
                    received = await self._http2.send(method, target, headers, body, self._connect_s)
                if received is None:
                    received = await self._over_http1(method, target, headers, body)
            headers_by_name = {
                name.decode("latin-1").lower(): value.decode("latin-1") for name, value in received.headers
            }
            return Answer(received.status, headers_by_name, received.body, retry_after_s(headers_by_name))
        except (TimeoutError, httpcore.TimeoutException):
            raise SendFailed(SendFault.TIMEOUT, f"{host} did not answer within {self._total_s:g} s") from None
        except httpcore.ConnectError as error:
            raise _connect_failure(host, error) from None
        except (httpcore.NetworkError, httpcore.ProtocolError, OSError):
            raise SendFailed(SendFault.BROKEN, f"{host} ended the connection before its answer was whole") from None

    async def _over_http1(self, method: str, target: Target, headers: Mapping[str, str], body: bytes) -> Received:
        url = httpcore.URL(scheme=target.scheme, host=target.host, port=target.port, target=target.path)
        all_headers = [("Host", target.authority), *headers.items()]
        timeouts = {"connect": self._connect_s}  # `_send_once` bounds the rest as a whole
        async with self._pool.stream(
            method, url, headers=all_headers, content=body, extensions={"timeout": timeouts}
        ) as response:
            return Received(response.status, response.headers, await _read_start(response))


async def _read_start(response: httpcore.Response) -> bytes:
    """The first ANSWER_BYTES_MAX bytes of an answer's body. If there is more, the connection is closed."""
    body = b""
    async for chunk in response.aiter_stream():
        body += chunk
        if len(body) >= ANSWER_BYTES_MAX:
            break
    return body[:ANSWER_BYTES_MAX]


def _connect_failure(host: str, error: httpcore.ConnectError) -> SendFailed:
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLError):
        cause = cause.__cause__ or cause.__context__
    if cause is None:
        return SendFailed(SendFault.UNREACHED, f"{host} takes no connection")
    reason = getattr(cause, "verify_message", None) or "the handshake failed"
    return SendFailed(SendFault.TLS, f"no TLS with {host}: {reason}")


def retry_after_s(headers: Mapping[str, str], now_s: float | None = None) -> float:
    """The seconds that Retry-After asks to wait, given as a number or a date; 0 if it is missing or invalid."""
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return float(min(int(text[:9]), RETRY_AFTER_S_MAX))
    try:
        until = email.utils.parsedate_to_datetime(text)
    except (ValueError, IndexError, TypeError, OverflowError):
        return 0.0
    now_s = time.time() if now_s is None else now_s
    until = until if until.tzinfo else until.replace(tzinfo=UTC)  # zone "-0000", or none: read as UTC, not local time
    return max(0.0, min(RETRY_AFTER_S_MAX, until.timestamp() - now_s))
