"""Credentials: server keys, of which only hashes are stored, and the secrets that tokens are signed with."""

from __future__ import annotations

import hmac
import secrets
from typing import NamedTuple

from kith.access.credentials import CredentialStore
from kith.access.guard import UserTokens, hash_key
from kith.run.config import Settings


class Keys(NamedTuple):
    """The keys by which a process knows callers. `signing`: for its cursors and write tokens."""

    server_keys: list[bytes]
    user_tokens: UserTokens
    signing: bytes


async def known(store: CredentialStore, settings: Settings) -> Keys:
    """The keys in force for a process that starts now."""
    stored, signing = await server_keys(store, settings), await store.secret("signing")
    return Keys([*stored, hash_key(machine_key(signing))], await user_tokens(store, settings), signing)


def machine_key(signing: bytes) -> str:
    """The server key by which the machines of one store know each other: a standby has the secret from its primary."""
    return "kith_" + hmac.digest(signing, b"machines of this store", "sha256").hex()


async def made(store: CredentialStore) -> str:
    """Make a server key, which running servers let in within seconds; only its hash is stored."""
    key = new_key()
    await store.add_server_key(hash_key(key))
    return key


def new_key() -> str:
    """A server key that nobody knows yet: 192 random bits."""
    return "kith_" + secrets.token_urlsafe(24)


async def server_keys(store: CredentialStore, settings: Settings) -> list[bytes]:
    """Hashes of every key that is let in: stored ones, then those of the settings."""
    return [*await store.server_keys(), *(hash_key(key) for key in settings.api_keys)]


async def user_tokens(store: CredentialStore, settings: Settings) -> UserTokens:
    """How user tokens are signed: with the app's secret, or one made for this store."""
    secret = settings.jwt_secret or (await store.secret("jwt")).hex()
    return UserTokens(secret, settings.jwt_algorithms, settings.jwt_issuer, settings.jwt_audience)
