"""The port of leases: a lease lets one process do what only one may do at a time."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class Lease(NamedTuple):
    """A lease: `holder` holds `name`. `token` is greater than that of every earlier lease of this name."""

    name: str
    holder: str
    token: int


class LeaseStore(Protocol):
    """Stores leases, shared by all processes.

    Atomicity: if several acquire a free name, one gets it. End: a lease ends when it is released. If `expires`, it also
    ends once `ttl_s` has passed since it was acquired or renewed, by the engine's clock. Otherwise it also ends when
    the process that holds it ends, and no sooner. Durability: tokens keep growing even after everything crashed.
    Errors: StoreUnavailable.

    A holder may notice late that its lease has ended. The token fences its late writes: the next holder stores its own
    token beside the data, and every write is conditional on that token being unchanged (`put_note(only_if=)`).
    """

    expires: bool

    async def acquire(self, name: str, holder: str, ttl_s: float) -> Lease | None:
        """Acquire a lease. None if it is held, even by this process."""
        ...

    async def renew(self, lease: Lease, ttl_s: float) -> bool:
        """Extend the lease to `ttl_s` from now. False if it has ended; it then stays ended."""
        ...

    async def release(self, lease: Lease) -> None:
        """Release the lease. Does nothing if it has ended."""
        ...
