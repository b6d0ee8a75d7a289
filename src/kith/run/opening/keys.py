"""Credentials: server keys, of which only hashes are stored, and the secrets that sign tokens."""

from __future__ import annotations

import hmac
import secrets
from typing import NamedTuple

from kith.access.credentials import CredentialStore
from kith.access.guard import UserTokens, hash_key
from kith.core.errors import BadRequest
from kith.run.config import Settings

ALL_KEYS = "all"
"""In place of a server key: all that are stored."""


class Keys(NamedTuple):
    """The keys with which a process authenticates callers. `signing`: signs cursors and write tokens."""

    server_keys: list[bytes]
    user_tokens: UserTokens
    signing: bytes


async def load_keys(store: CredentialStore, settings: Settings) -> Keys:
    """The keys for a process that starts now: stored ones and those of the settings."""
    signing = await store.secret("signing")
    return Keys(await accepted_keys(store, settings, signing), await user_tokens(store, settings), signing)


async def accepted_keys(store: CredentialStore, settings: Settings, signing: bytes) -> list[bytes]:
    """Hashes of the server keys that a process accepts now, from apps and from machines of the store."""
    return [*await server_keys(store, settings), hash_key(machine_key(signing))]


def machine_key(signing: bytes) -> str:
    """The server key that the machines of one store show each other. A standby gets the secret from its primary."""
    return "kith_" + hmac.digest(signing, b"machines of this store", "sha256").hex()


async def make_server_key(store: CredentialStore) -> str:
    """Make and store a server key. Running servers accept it within seconds; only its hash is stored."""
    key = new_key()
    await store.add_server_key(hash_key(key))
    return key


async def revoke_server_key(store: CredentialStore, settings: Settings, key: str) -> int:
    """Revoke a stored server key, or with ALL_KEYS all of them; returns how many. Running servers refuse a revoked key
    within seconds. Errors: BadRequest for a key that is not stored.
    """
    stored, hashed = await store.server_keys(), hash_key(key)
    if key in settings.api_keys:
        raise BadRequest("this key is one of `api_keys`; remove it there, and restart the servers")
    if key != ALL_KEYS and hashed not in stored:
        raise BadRequest("no such server key is stored here; --data or kith.toml names another store, or it is revoked")
    revoked = stored if key == ALL_KEYS else [hashed]
    for one in revoked:
        await store.remove_server_key(one)
    return len(revoked)


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
