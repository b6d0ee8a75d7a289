"""Signs what clients carry for us: cursors and read-your-writes tokens.

Opaque and tamper-evident, not secret: BLAKE2b keyed with the service's own secret, 16 bytes, checked in
constant time. Each purpose signs under its own label, so one kind can never pass for another.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac

_MAC_BYTES = 16


class Signer:
    """Seals and opens byte strings for one purpose."""

    def __init__(self, secret: bytes, purpose: str) -> None:
        if len(secret) < 32:
            raise ValueError("the signing secret must have at least 32 bytes")
        self._key = hashlib.blake2b(purpose.encode(), key=secret[:64], digest_size=32).digest()

    def seal(self, payload: bytes, bound_to: bytes = b"") -> str:
        """`payload` and its signature as URL-safe text; only `open` with the same `bound_to` reads it."""
        return base64.urlsafe_b64encode(self._mac(payload, bound_to) + payload).rstrip(b"=").decode()

    def open(self, text: str, bound_to: bytes = b"") -> bytes | None:
        """The payload, or None for anything we did not seal for `bound_to`."""
        try:
            raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            return None
        mac, payload = raw[:_MAC_BYTES], raw[_MAC_BYTES:]
        if not hmac.compare_digest(mac, self._mac(payload, bound_to)):
            return None
        if self.seal(payload, bound_to) != text:  # base64 ignores trailing bits; one payload has one text
            return None
        return payload

    def _mac(self, payload: bytes, bound_to: bytes) -> bytes:
        framed = len(bound_to).to_bytes(4, "big") + bound_to + payload
        return hashlib.blake2b(framed, key=self._key, digest_size=_MAC_BYTES).digest()
