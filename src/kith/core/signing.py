"""Seals what clients carry for us: cursors and read-your-writes tokens.

Nobody else can read or change it. A cursor names posts that its reader may not be shown, and a token tells how much
is written here, so what is inside is a secret. Each purpose has keys of its own, so one kind never passes for another.

The scheme is SIV (RFC 5297: a signature of the content, from which the key stream that hides it is made) with what
Python brings: BLAKE2b, keyed, for the 16 bytes of signature, checked in constant time; SHAKE-256 over a second key and
the signature for the stream. It needs no nonce; the same content for the same query has the same text.
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
        keys = hashlib.blake2b(purpose.encode(), key=secret[:64], digest_size=64).digest()
        self._key, self._stream_key = keys[:32], keys[32:]

    def seal(self, payload: bytes, bound_to: bytes = b"") -> str:
        """`payload` as URL-safe text; only `open` with the same `bound_to` reads it."""
        mac = self._mac(payload, bound_to)
        return _text(mac + self._hidden(payload, mac))

    def open(self, text: str, bound_to: bytes = b"") -> bytes | None:
        """The payload, or None for anything we did not seal for `bound_to`."""
        try:
            raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            return None
        mac = raw[:_MAC_BYTES]
        payload = self._hidden(raw[_MAC_BYTES:], mac)
        if not hmac.compare_digest(mac, self._mac(payload, bound_to)):
            return None
        if _text(raw) != text:  # base64 ignores trailing bits; one payload has one text
            return None
        return payload

    def _hidden(self, payload: bytes, mac: bytes) -> bytes:
        """The payload, hidden or (again) shown: each byte XOR the key stream's."""
        stream = hashlib.shake_256(self._stream_key + mac).digest(len(payload))
        return (int.from_bytes(payload, "big") ^ int.from_bytes(stream, "big")).to_bytes(len(payload), "big")

    def _mac(self, payload: bytes, bound_to: bytes) -> bytes:
        framed = len(bound_to).to_bytes(4, "big") + bound_to + payload
        return hashlib.blake2b(framed, key=self._key, digest_size=_MAC_BYTES).digest()


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
