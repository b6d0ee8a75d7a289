"""The port of credentials: server keys, and the secrets that sign tokens, shared by all processes."""

from __future__ import annotations

from typing import Protocol


class CredentialStore(Protocol):
    """Stores hashes of server keys, and secrets; all processes see the same.

    A call is durable once it returns. Errors: StoreFull, StoreUnavailable.
    """

    async def server_keys(self) -> list[bytes]:
        """The hashes of all server keys (see `guard.hash_key`), in any order."""
        ...

    async def add_server_key(self, hashed: bytes) -> None:
        """Accept the server key with this hash. Idempotent."""
        ...

    async def remove_server_key(self, hashed: bytes) -> None:
        """Refuse the server key with this hash from now on. Idempotent."""
        ...

    async def secret(self, name: str) -> bytes:
        """A random secret of 32 bytes, created on first use. Concurrent calls get the same one."""
        ...
