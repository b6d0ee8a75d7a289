"""The port of credentials: server keys, and the secrets that tokens are signed with, shared by all processes."""

from __future__ import annotations

from typing import Protocol


class CredentialStore(Protocol):
    """Keeps hashes of server keys, and secrets; the same for all processes.

    Durable once a call returns. Errors: StoreFull, StoreUnavailable.
    """

    async def server_keys(self) -> list[bytes]:
        """The hashes of all server keys (see `guard.hash_key`), in any order."""
        ...

    async def add_server_key(self, hashed: bytes) -> None:
        """Let the key with this hash in. May be repeated."""
        ...

    async def secret(self, name: str) -> bytes:
        """A random secret of 32 bytes, made when it is first asked for. Calls at the same moment get the same one."""
        ...
