"""Server keys and secrets in Cassandra. All keys are in one partition; the first read of a secret creates it."""

from __future__ import annotations

import os

from kith.engines.cassandra.connecting import Session
from kith.engines.cassandra.schema import Table

SECRET_BYTES = 32
SERVER_KEYS = Table("server_keys", ("shelf tinyint",), ("hashed blob",))
SECRETS = Table("secrets", ("name text",), (), ("secret blob",))
_SHELF = 0
_KEYS = "SELECT hashed FROM server_keys WHERE shelf = ?"
_ADD_KEY = "INSERT INTO server_keys (shelf, hashed) VALUES (?, ?)"
_REMOVE_KEY = "DELETE FROM server_keys WHERE shelf = ? AND hashed = ?"
_READ = "SELECT secret FROM secrets WHERE name = ?"
_MAKE = "INSERT INTO secrets (name, secret) VALUES (?, ?) IF NOT EXISTS"


class CassandraCredentials:
    """See `access.credentials.CredentialStore`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def server_keys(self) -> list[bytes]:
        return [hashed for (hashed,) in await self._session.rows(_KEYS, _SHELF)]

    async def add_server_key(self, hashed: bytes) -> None:
        await self._session.write(_ADD_KEY, _SHELF, hashed)

    async def remove_server_key(self, hashed: bytes) -> None:
        await self._session.write(_REMOVE_KEY, _SHELF, hashed)

    async def secret(self, name: str) -> bytes:
        rows = await self._session.rows(_READ, name)
        if not rows:
            await self._session.conditional(_MAKE, name, os.urandom(SECRET_BYTES))
            rows = await self._session.rows_serial(_READ, name)
        secret: bytes = rows[0][0]
        return secret
