"""The stored state of a webhook: its URL, its filters, its sealed secret, and the state of its deliveries.

Its checkpoint and its dead letters are stored by the log, in a group of the webhook's own (`group_of`).
"""

from __future__ import annotations

import secrets

import msgspec

from kith.core.errors import BadRequest
from kith.core.signing import Signer
from kith.webhooks.next_step import DeliveryStanding

SECRET_CHARS_MIN, SECRET_CHARS_MAX = 16, 256
_SECRET_BYTES = 32


class Webhook(msgspec.Struct, frozen=True, kw_only=True):
    """A webhook. `graphs`, `kinds`: names of the wanted graphs and kinds of changes, as for `/watch`; empty: all."""

    id: int
    url: str
    graphs: tuple[str, ...]
    kinds: tuple[str, ...]
    secret: str  # sealed: see `Secrets`
    created_ms: int
    key: str = ""  # the digest of the Idempotency-Key that created it
    standing: DeliveryStanding = DeliveryStanding()


def group_of(id_: int) -> str:
    """The log's group that stores a webhook's checkpoint and dead letters."""
    return f"webhook/{id_}"


class Secrets:
    """Encrypts the secrets of webhooks, so that none is readable in the log or in a backup."""

    def __init__(self, signing: bytes) -> None:
        self._signer = Signer(signing, "webhook-secret")

    def seal(self, id_: int, secret: str) -> str:
        """The secret as it is stored."""
        return self._signer.seal(secret.encode(), str(id_).encode())

    def open(self, webhook: Webhook) -> str | None:
        """The secret of a webhook; None if another store sealed it."""
        secret = self._signer.open(webhook.secret, str(webhook.id).encode())
        return None if secret is None else secret.decode()


def checked_secret(secret: str | None) -> str:
    """Check a signing secret; None: make one. BadRequest for one of the wrong length, or not printable ASCII."""
    if secret is None:
        return "whsec_" + secrets.token_urlsafe(_SECRET_BYTES)
    if not SECRET_CHARS_MIN <= len(secret) <= SECRET_CHARS_MAX or not (secret.isascii() and secret.isprintable()):
        raise BadRequest(
            f"secret must have {SECRET_CHARS_MIN} to {SECRET_CHARS_MAX} printable ASCII characters; "
            "leave it out, and one is made"
        )
    return secret
