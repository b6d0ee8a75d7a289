"""Seals cursors and read-your-writes tokens: clients carry them, but only Kith can read or change them.

The content is secret, because a cursor may name posts that its reader may not see, and a token reveals how much is
written here. Each purpose has its own key, so a token never passes for a cursor.

AES-SIV (RFC 5297) needs no nonce. The same content for the same query gives the same text, and reveals nothing else.
"""

from __future__ import annotations

import base64
import binascii
import hashlib

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

_TAG_BYTES = 16


class Signer:
    """Seals and opens byte strings for one purpose."""

    def __init__(self, secret: bytes, purpose: str) -> None:
        if len(secret) < 32:
            raise ValueError("the signing secret must have at least 32 bytes")
        self._cipher = AESSIV(hashlib.blake2b(purpose.encode(), key=secret[:64], digest_size=64).digest())

    def seal(self, payload: bytes, bound_to: bytes = b"") -> str:
        """Seal `payload` (at least one byte) as URL-safe text; only `open` with the same `bound_to` reads it."""
        return _text(self._cipher.encrypt(payload, [bound_to]))

    def open(self, text: str, bound_to: bytes = b"") -> bytes | None:
        """The payload. None if the text was not sealed here for `bound_to`."""
        try:
            raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            return None
        if len(raw) <= _TAG_BYTES or _text(raw) != text:  # base64 ignores trailing bits; one payload has one text
            return None
        try:
            return self._cipher.decrypt(raw, [bound_to])
        except InvalidTag:
            return None


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
