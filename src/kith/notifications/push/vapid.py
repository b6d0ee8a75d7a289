"""Our identity for push services (VAPID, RFC 8292): a key of this store, and headers that are signed with it."""

from __future__ import annotations

import base64

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

SIGNED_S, SIGNED_AGAIN_S = 12 * 3_600, 6 * 3_600
"""Lifetime of a signature, and for how much of that it is used."""
ORIGINS_MAX = 1_000
"""Push services whose signature is cached."""
_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551  # of P-256


class Vapid:
    """Our key. `secret`: 32 random bytes or more; `contact`: a mailto: or https: URL at which we can be reached."""

    def __init__(self, secret: bytes, contact: str) -> None:
        self._key = ec.derive_private_key(1 + int.from_bytes(secret, "big") % (_ORDER - 1), ec.SECP256R1())
        self._contact = contact
        self.public = encoded(point_of(self._key))
        """The public key, which a browser needs as `applicationServerKey`."""
        self._signed: dict[str, tuple[float, str]] = {}

    def header(self, origin: str, now_s: float) -> str:
        """The Authorization header for a push service."""
        signed = self._signed.get(origin)
        if signed is None or not 0 <= now_s - signed[0] < SIGNED_AGAIN_S:
            claims = {"aud": origin, "exp": int(now_s) + SIGNED_S, "sub": self._contact}
            signed = now_s, f"vapid t={jwt.encode(claims, self._key, 'ES256')}, k={self.public}"
            if len(self._signed) >= ORIGINS_MAX:
                del self._signed[next(iter(self._signed))]
            self._signed[origin] = signed
        return signed[1]


def point_of(key: ec.EllipticCurvePrivateKey) -> bytes:
    """The public key of a private one, as an uncompressed point."""
    public = key.public_key()
    return public.public_bytes(serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint)


def encoded(data: bytes) -> str:
    """Bytes as base64url without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
