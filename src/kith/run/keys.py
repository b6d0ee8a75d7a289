"""Who is let in: server keys, of which only hashes are stored, and the secret that user tokens are signed with."""

from __future__ import annotations

import secrets

from kith.access.guard import UserTokens, hash_key
from kith.engines.embedded.environment import Environment
from kith.run.config import Settings

_KEY_NOTE = "server-key/"  # notes: server-key/<hash in hex> -> b"1"


def new_key() -> str:
    """Make a server key: 192 random bits."""
    return "kith_" + secrets.token_urlsafe(24)


def add_server_key(environment: Environment, key: str) -> None:
    """Let `key` in from the next start on; only its hash is stored."""
    environment.put_note(_KEY_NOTE + hash_key(key).hex(), b"1")


def server_keys(environment: Environment, settings: Settings) -> list[bytes]:
    """Hashes of every key that is let in: stored ones, then those of the settings."""
    stored = map(bytes.fromhex, environment.notes(_KEY_NOTE))
    return [*stored, *(hash_key(key) for key in settings.api_keys)]


def user_tokens(environment: Environment, settings: Settings) -> UserTokens:
    """How user tokens are signed: with the app's secret, or one made for this folder."""
    secret = settings.jwt_secret or environment.secret("jwt").hex()
    return UserTokens(secret, settings.jwt_algorithms, settings.jwt_issuer, settings.jwt_audience)
