"""Credentials: server keys, of which only hashes are stored, and the secrets that sign tokens."""

from __future__ import annotations

import hmac
import secrets
from typing import NamedTuple

from kith.access.credentials import CredentialStore
from kith.access.guard import UserTokens, hash_key
from kith.run.config import Settings


class Keys(NamedTuple):
    """The keys with which a process authenticates callers. `signing`: signs cursors and write tokens."""

    server_keys: list[bytes]
    user_tokens: UserTokens
    signing: bytes


async def load_keys(store: CredentialStore, settings: Settings) -> Keys:
    """The keys for a process that starts now: stored ones and those of the settings."""
    stored, signing = await server_keys(store, settings), await store.secret("signing")
    return Keys([*stored, hash_key(machine_key(signing))], await user_tokens(store, settings), signing)


def machine_key(signing: bytes) -> str:
    """The server key that the machines of one store show each other. A standby gets the secret from its primary."""
    return "kith_" + hmac.digest(signing, b"machines of this store", "sha256").hex()


async def make_server_key(store: CredentialStore) -> str:
    """Make and store a server key. Running servers accept it within seconds; only its hash is stored."""
    key = new_key()
    await store.add_server_key(hash_key(key))
    return key


def new_key() -> str:
    """A new server key: 192 random bits."""
    return "kith_" + secrets.token_urlsafe(24)


async def server_keys(store: CredentialStore, settings: Settings) -> list[bytes]:
    """Hashes of every accepted key: stored ones, then those of the settings."""
    return [*await store.server_keys(), *(hash_key(key) for key in settings.api_keys)]


async def user_tokens(store: CredentialStore, settings: Settings) -> UserTokens:
    """How user tokens are signed: with the app's secret, or one made for this store."""
    secret = settings.jwt_secret or (await store.secret("jwt")).hex()
    return UserTokens(secret, settings.jwt_algorithms, settings.jwt_issuer, settings.jwt_audience)
