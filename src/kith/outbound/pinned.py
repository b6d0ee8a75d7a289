"""Connects to hosts by name: resolves the name once, checks every address, and connects to a checked address.

So a name that resolves to another address the second time (DNS rebinding) achieves nothing. TLS and the Host header
still use the host name from the URL.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import httpcore

from kith.outbound.addresses import IpNetwork, may_call
from kith.outbound.errors import SendFailed, SendFault
from kith.outbound.stream import connected

ADDRESS_TIMEOUT_S = 1.0
"""Of several addresses, each but the last gets at least this long to accept a connection."""
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""(host, port) -> the host's addresses. OSError if it has none."""


RESOLVING_MAX = 128
"""Names that are resolved at a time. A name whose DNS servers hang occupies its thread for half a minute, even after
its caller gave up; so these threads do nothing else."""
_THREADS = ThreadPoolExecutor(RESOLVING_MAX, "kith-resolve")


async def resolved(host: str, port: int) -> list[str]:
    """The distinct addresses of a host, as this machine resolves it."""
    look_up = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    infos = await asyncio.get_running_loop().run_in_executor(_THREADS, look_up)
    return list(dict.fromkeys(str(address[0]) for *_, address in infos))


class PinnedBackend(httpcore.AsyncNetworkBackend):
    """Opens connections to checked addresses. If any address of a host may not be called, the host is refused."""

    def __init__(self, allowed: Sequence[IpNetwork], resolve: Resolve = resolved) -> None:
        self._allowed, self._resolve = allowed, resolve

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore's name
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to the first checked address that accepts. Errors: SendFailed; those of httpcore.

        A silent address leaves time for the others. IPv6 addresses are silent from a network without IPv6, for example.
        """
        failed: OSError | None = None
        try:
            async with asyncio.timeout(timeout) as deadline:
                addresses = await self._checked_addresses(host, port)
                for attempt, address in enumerate(addresses, 1):
                    try:
                        async with asyncio.timeout_at(_give_up_s(deadline.when(), len(addresses) - attempt)):
                            return await connected(address, port)
                    except OSError as error:  # TimeoutError is one
                        failed = error
        except TimeoutError:
            raise httpcore.ConnectTimeout from None
        raise httpcore.ConnectError(str(failed)) from failed

    async def sleep(self, seconds: float) -> None:
        """See httpcore."""
        await asyncio.sleep(seconds)

    async def _checked_addresses(self, host: str, port: int) -> Sequence[str]:
        try:
            addresses = await self._resolve(host, port)
        except (OSError, UnicodeError):
            addresses = ()
        if not addresses:
            raise SendFailed(SendFault.UNRESOLVED, f"the name {host} has no address")
        for address in addresses:
            if not may_call(address, self._allowed):
                raise SendFailed(
                    SendFault.REFUSED,
                    f"{host} is at {address}, which is no public address; allow its network in `outbound_networks`",
                )
        return addresses


def _give_up_s(end_s: float | None, remaining: int) -> float | None:
    """When to give up an address, by the loop's clock. `remaining`: how many more get an equal share of the time."""
    if end_s is None or not remaining:
        return None
    now_s = asyncio.get_running_loop().time()
    return now_s + max(ADDRESS_TIMEOUT_S, (end_s - now_s) / (remaining + 1))
