"""The port of leases: a lease lets one process do what only one may do at a time."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class Lease(NamedTuple):
    """A name that `holder` holds. `token`: greater than that of every lease of this name before it."""

    name: str
    holder: str
    token: int


class LeaseStore(Protocol):
    """Keeps leases, the same for all processes.

    Atomicity: of those who acquire a name that is free, one gets it. End: a lease ends when it is released; where
    `expires`, also when `ttl_s` passed since it was acquired or renewed, by the engine's clock; where not, when the
    process that holds it ends, and no sooner. Durability: tokens grow over a crash of everything. Errors:
    StoreUnavailable.

    A holder may learn late that its lease has ended. The token fences off what it writes then: the next holder stores
    its own token beside the data, and every write is on the condition that this is unchanged (`put_note(only_if=)`).
    """

    expires: bool

    async def acquire(self, name: str, holder: str, ttl_s: float) -> Lease | None:
        """Hold a name from now on; None if it is held, even by this process."""
        ...

    async def renew(self, lease: Lease, ttl_s: float) -> bool:
        """Hold it for `ttl_s` from now on; False where it has ended, and it stays so."""
        ...

    async def release(self, lease: Lease) -> None:
        """Give it up; nothing where it has ended."""
        ...
