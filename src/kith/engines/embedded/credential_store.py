"""The CredentialStore of a data folder: the notes `server-key/<hash in hex>` and `secret/<name>` of its store."""

from __future__ import annotations

from kith.engines.embedded.environment import Environment

_KEY_NOTE, SECRET_NOTE = "server-key/", "secret/"


class EmbeddedCredentials:
    """See `access.credentials.CredentialStore`. Writes block on the disk: only for a process's start, and commands."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    async def server_keys(self) -> list[bytes]:
        return [bytes.fromhex(hashed) for hashed in self._environment.notes(_KEY_NOTE)]

    async def add_server_key(self, hashed: bytes) -> None:
        self._environment.put_note(_KEY_NOTE + hashed.hex(), b"1")

    async def remove_server_key(self, hashed: bytes) -> None:
        self._environment.put_note(_KEY_NOTE + hashed.hex(), None)

    async def secret(self, name: str) -> bytes:
        return self._environment.secret(name)
