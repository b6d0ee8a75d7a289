"""Connects to hosts by name: resolved once, every address checked, connected to one of those that were checked.

So a name that resolves to another address the second time (DNS rebinding) gains nothing. TLS and the Host header still
use the host's name from the URL.
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

ADDRESS_S = 1.0
"""Shortest time that each but the last of several addresses has to take a connection."""
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""(host, port) -> its addresses. OSError where it has none."""


RESOLVED_AT_ONCE = 128
"""Names that are looked up at a time. One whose servers hang keeps its thread for half a minute even if nobody waits
any more; so these threads serve nothing else."""
_THREADS = ThreadPoolExecutor(RESOLVED_AT_ONCE, "kith-resolve")


async def resolved(host: str, port: int) -> list[str]:
    """The addresses of a host, as the machine resolves it, each once."""
    look_up = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    found = await asyncio.get_running_loop().run_in_executor(_THREADS, look_up)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class Pinned(httpcore.AsyncNetworkBackend):
    """Opens connections to checked addresses. One address that may not be called refuses its host."""

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
        """Connect to the first checked address that takes it. Errors: SendFailed; those of httpcore.

        One that is silent, as an address of IPv6 may be behind a network without it, leaves time for the others.
        """
        failed: OSError | None = None
        try:
            async with asyncio.timeout(timeout) as whole:
                addresses = await self._checked(host, port)
                for at, address in enumerate(addresses, 1):
                    try:
                        async with asyncio.timeout_at(_until_s(whole.when(), len(addresses) - at)):
                            return await connected(address, port)
                    except OSError as error:  # TimeoutError is one
                        failed = error
        except TimeoutError:
            raise httpcore.ConnectTimeout from None
        raise httpcore.ConnectError(str(failed)) from failed

    async def sleep(self, seconds: float) -> None:
        """See httpcore."""
        await asyncio.sleep(seconds)

    async def _checked(self, host: str, port: int) -> Sequence[str]:
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


def _until_s(end_s: float | None, others: int) -> float | None:
    """Until when an address is waited for, so that as many others have as long before `end_s`; by the loop's clock."""
    if end_s is None or not others:
        return None
    now_s = asyncio.get_running_loop().time()
    return now_s + max(ADDRESS_S, (end_s - now_s) / (others + 1))
