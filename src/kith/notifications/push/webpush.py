"""Web Push (RFC 8030): encrypted for one browser (RFC 8291), signed with our key for one push service (`vapid`).

`cryptography` provides the primitives; this file combines them. docs/decisions/0032-push.md says why no library for all
of it is used.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from kith.notifications.push.device import Device
from kith.notifications.push.message import PushMessage, fitting
from kith.notifications.push.provider import GONE, Verdict, usual
from kith.notifications.push.vapid import Vapid, point_of
from kith.outbound.urls import check_url

if TYPE_CHECKING:
    from kith.outbound.outbound import Send

RECORD_BYTES = 4_096
"""Largest body that every push service takes; the message is one record of it."""
PLAIN_BYTES_MAX = 3_993
"""Bytes of a message before encryption: RECORD_BYTES less the header, the tag, and the mark of the last record."""


class WebPush:
    """See `provider.Provider`. `send`: that of `outbound`."""

    def __init__(self, send: Send, vapid: Vapid) -> None:
        self._send, self._vapid = send, vapid

    def lane(self, device: Device) -> str:
        """See `provider.Provider`."""
        return check_url(device.address.endpoint).authority

    async def send(self, device: Device, message: PushMessage, now_ms: int) -> Verdict:
        """See `provider.Provider`."""
        address, url = device.address, check_url(device.address.endpoint)
        body = encrypted(fitting(_payload, message, PLAIN_BYTES_MAX), address.key, address.auth)
        headers = {
            "Content-Type": "application/octet-stream",
            "Content-Encoding": "aes128gcm",
            "TTL": str(message.ttl_s(now_ms)),
            "Urgency": message.urgency,
            "Topic": message.topic,
            "Authorization": self._vapid.header(f"{url.scheme}://{url.authority}", now_ms / 1000),
        }
        answer = await self._send("POST", address.endpoint, headers, body)
        return GONE if answer.status in (404, 410) else usual(url.authority, answer)


def _payload(message: PushMessage) -> dict[str, Any]:
    return {**message.parts, "title": message.title, "body": message.body, "tag": message.topic}


def encrypted(
    plain: bytes, key: bytes, auth: bytes, own_key: ec.EllipticCurvePrivateKey | None = None, salt: bytes | None = None
) -> bytes:
    """A message encrypted for one browser. `own_key`, `salt`: made for this message, unless a test gives them."""
    own_key, salt = own_key or ec.generate_private_key(ec.SECP256R1()), salt or secrets.token_bytes(16)
    browser_key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), key)
    public, shared = point_of(own_key), own_key.exchange(ec.ECDH(), browser_key)
    combined = _derived(shared, auth, b"WebPush: info\0" + key + public, 32)
    content_key = _derived(combined, salt, b"Content-Encoding: aes128gcm\0", 16)
    nonce = _derived(combined, salt, b"Content-Encoding: nonce\0", 12)
    head = salt + RECORD_BYTES.to_bytes(4, "big") + bytes([len(public)]) + public
    return head + AESGCM(content_key).encrypt(nonce, plain + b"\x02", None)  # 2: the last record


def _derived(secret: bytes, salt: bytes, info: bytes, length: int) -> bytes:
    return HKDF(hashes.SHA256(), length, salt, info).derive(secret)
