"""A CredentialStore in memory, for one process. Engines are compared with it."""

from __future__ import annotations

import os


class ReferenceCredentials:
    """See `access.credentials.CredentialStore`."""

    def __init__(self) -> None:
        self._keys: set[bytes] = set()
        self._secrets: dict[str, bytes] = {}

    async def server_keys(self) -> list[bytes]:
        return list(self._keys)

    async def add_server_key(self, hashed: bytes) -> None:
        self._keys.add(hashed)

    async def remove_server_key(self, hashed: bytes) -> None:
        self._keys.discard(hashed)

    async def secret(self, name: str) -> bytes:
        return self._secrets.setdefault(name, os.urandom(32))
