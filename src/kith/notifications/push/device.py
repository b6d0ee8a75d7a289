"""What is stored of a device: its address, in its provider's terms. Pure.

An address is a secret: whoever knows it can send to the device, or tell users apart.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

import msgspec
from cryptography.hazmat.primitives.asymmetric import ec

from kith.core.errors import BadRequest, InvalidContent
from kith.outbound.urls import Target, check_url

DeviceKind = Literal["webpush", "apns", "fcm"]
TOKEN_CHARS_MAX = 1_000
_HTTPS_PORT = 443
AUTH_BYTES, KEY_BYTES = 16, 65
"""Lengths of a browser's authentication secret, and of its public key as an uncompressed point."""
_APNS_TOKEN = re.compile(r"([0-9a-f]{2}){16,100}", re.ASCII)
_FCM_TOKEN = re.compile(rf"[0-9A-Za-z_:%.-]{{20,{TOKEN_CHARS_MAX}}}", re.ASCII)


class Address(NamedTuple):
    """Where a device is reached: a URL of its push service with the keys of the browser, or a provider's token.

    `sandbox`: the token is of an app that was built for development (APNs).
    """

    kind: DeviceKind
    endpoint: str
    key: bytes = b""
    auth: bytes = b""
    sandbox: bool = False


class Offer(NamedTuple):
    """What devices may register for: the kinds that are set up; for browsers, our public key and the allowed hosts."""

    kinds: frozenset[DeviceKind]
    key: str | None
    hosts: tuple[str, ...]


class Device(msgspec.Struct, frozen=True, array_like=True):
    """A device, as stored: an array in this order. New fields come last and have a default.

    `registered_ms`: when the app last registered it.
    """

    id: int
    registered_ms: int
    address: Address


def webpush_address(endpoint: str, key: str, auth: str, hosts: Sequence[str]) -> Address:
    """Where a browser is reached, by the parts of its subscription. `hosts`: as for `is_push_service`.

    Errors: InvalidContent.
    """
    try:
        target = check_url(endpoint)
    except BadRequest as error:
        raise InvalidContent(f"endpoint: {error.message}", field="endpoint") from None
    if not is_push_service(target, hosts):
        raise InvalidContent(
            "endpoint must be https:// at a push service that the setting `webpush_hosts` names", field="endpoint"
        )
    point, secret = _bytes_of(key), _bytes_of(auth)
    if len(secret) != AUTH_BYTES:
        raise InvalidContent(f"keys.auth must be {AUTH_BYTES} bytes, as base64url", field="keys.auth")
    try:
        if len(point) != KEY_BYTES:
            raise ValueError
        ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point)
    except ValueError:
        raise InvalidContent("keys.p256dh must be a point of P-256, as base64url", field="keys.p256dh") from None
    return Address("webpush", endpoint, point, secret)


def is_push_service(target: Target, hosts: Sequence[str]) -> bool:
    """Whether a URL is at one of these hosts or a subdomain, by https at port 443; or at a host listed with its port.

    Otherwise a user could name thousands of silent ports, each of which holds the worker until its deadline.
    """
    is_usual = target.scheme == "https" and target.port in (None, _HTTPS_PORT)
    is_named = target.port is not None and target.authority in hosts
    return is_named or (is_usual and any(f".{target.host}".endswith(f".{host}") for host in hosts))


def token_address(kind: Literal["apns", "fcm"], token: str, *, sandbox: bool = False) -> Address:
    """Where an app is reached, by the token that its provider gave it. Errors: InvalidContent."""
    if kind == "apns":
        if not _APNS_TOKEN.fullmatch(token.lower()):
            raise InvalidContent("token must be the device token in hexadecimal digits", field="token")
        return Address(kind, token.lower(), sandbox=sandbox)
    if sandbox:
        raise InvalidContent("sandbox is for apns", field="sandbox")
    if not _FCM_TOKEN.fullmatch(token):
        raise InvalidContent("token must be a registration token of FCM", field="token")
    return Address(kind, token)


def _bytes_of(text: str) -> bytes:
    """The bytes of base64url, with or without padding; b"" if the text is something else."""
    try:
        return base64.b64decode(text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return b""
