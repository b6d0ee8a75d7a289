"""Holds leases: renews them in the background, and stops using a lease before it ends if it cannot be renewed.

A holder counts from before its request was sent, and stops after `use_s`; the engine keeps the lease for `ttl_s`. So
the holder stops first, however long the answer took, unless its clock runs slower than the engine's by that difference.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import socket
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, NamedTuple, TypeVar

import structlog

from kith.core.errors import Conflict, LeaseLost, Unavailable
from kith.core.stopping import stop
from kith.leases.store import Lease, LeaseStore

_Answer = TypeVar("_Answer")
_log = structlog.get_logger("kith.leases")


class LeaseTerms(NamedTuple):
    """How long a lease lasts without renewal, for how long the holder uses it, and how often it is renewed."""

    ttl_s: float = 30.0
    use_s: float = 20.0
    renew_s: float = 5.0
    has_cooldown: bool = False  # expires, not released: nobody holds it for `ttl_s - use_s`


DEFAULT_TERMS = LeaseTerms()


class HeldLease:
    """A lease that this process holds. `now_s`: a monotonic clock."""

    def __init__(
        self, store: LeaseStore, lease: Lease, terms: LeaseTerms, requested_s: float, now_s: Callable[[], float]
    ) -> None:
        self.lease, self.terms, self._store, self._now_s = lease, terms, store, now_s
        self._until_s, self.lost = requested_s + terms.use_s, False
        """`lost`: the lease has ended for good."""

    @property
    def is_usable(self) -> bool:
        """Whether this process may still use the lease."""
        return not self.lost and (not self._store.expires or self._now_s() < self._until_s)

    def check(self) -> None:
        """LeaseLost unless this process may still use the lease."""
        if not self.is_usable:
            raise LeaseLost(f"this process lost its lease on {self.lease.name}; another process may hold it now")

    async def renew(self) -> None:
        """Renew the lease, or notice that it is lost. Errors: Unavailable."""
        requested_s = self._now_s()
        if await self._store.renew(self.lease, self.terms.ttl_s):
            self._until_s = requested_s + self.terms.use_s
        else:
            self.lost = True

    async def run_while_held(self, work: Coroutine[Any, Any, _Answer]) -> _Answer:
        """Run `work`. Once the lease is lost, `work` is cancelled and LeaseLost raised."""
        if not self._store.expires:
            return await work
        task = asyncio.ensure_future(work)
        try:
            while not task.done():
                await asyncio.wait([task], timeout=self.terms.renew_s)
                if not task.done():
                    self.check()
        finally:
            await stop(task)
        return task.result()

    async def keep_renewing(self, on_lost: Callable[[], None]) -> None:
        """Renew the lease until it is lost, then call `on_lost`."""
        while not self.lost:
            await asyncio.sleep(self.terms.renew_s)
            try:
                await self.renew()
            except Unavailable as error:
                _log.warning("a lease is not renewed; tried again", lease=self.lease.name, error=error.message)
        _log.error("a lease is lost", lease=self.lease.name)
        on_lost()


class Leases:
    """The leases of this process, in a store that all processes share."""

    def __init__(self, store: LeaseStore, now_s: Callable[[], float] = time.monotonic) -> None:
        self.store, self._now_s = store, now_s
        self.holder = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"

    @contextlib.asynccontextmanager
    async def hold(
        self, name: str, terms: LeaseTerms = DEFAULT_TERMS, *, on_lost: Callable[[], None] = lambda: None
    ) -> AsyncIterator[HeldLease | None]:
        """Hold the lease `name` while the context is open. Yields None if another holder has it. `on_lost` is called if
        it is lost.
        """
        requested_s = self._now_s()
        lease = await self.store.acquire(name, self.holder, terms.ttl_s)
        if lease is None:
            yield None
            return
        held = HeldLease(self.store, lease, terms, requested_s, self._now_s)
        renewing = asyncio.create_task(held.keep_renewing(on_lost)) if self.store.expires else None
        try:
            yield held
        finally:
            if renewing is not None:
                await stop(renewing)
            if not (terms.has_cooldown and self.store.expires):
                with contextlib.suppress(Unavailable):  # it expires
                    await self.store.release(lease)

    @contextlib.asynccontextmanager
    async def hold_or_conflict(self, name: str) -> AsyncIterator[HeldLease]:
        """Hold the lease `name` while the context is open. Conflict if another holder has it."""
        async with self.hold(name) as held:
            if held is None:
                raise Conflict(f"another process does `{name}` already; wait for it, or stop it first")
            yield held
