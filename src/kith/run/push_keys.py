"""Makes the keys for push services from the settings: which providers are configured, and our credentials for each."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from kith.core.errors import BadRequest
from kith.notifications.push.apns import Apns, ApnsKey
from kith.notifications.push.device import DeviceKind, Offer
from kith.notifications.push.fcm import Fcm, ServiceAccount
from kith.notifications.push.provider import Provider
from kith.notifications.push.vapid import Vapid
from kith.notifications.push.webpush import WebPush
from kith.run.config import Settings

if TYPE_CHECKING:
    from kith.outbound.outbound import Send

SEND_S = 5.0
"""Seconds that a push service may take to answer; other notices may wait meanwhile."""


class PushKeys(NamedTuple):
    """Our keys; None for a provider that is not configured."""

    vapid: Vapid | None
    apns: ApnsKey | None
    fcm: ServiceAccount | None

    def offer(self, hosts: Sequence[str]) -> Offer:
        """The kinds of push for which devices may register."""
        keys: dict[DeviceKind, object] = {"webpush": self.vapid, "apns": self.apns, "fcm": self.fcm}
        kinds = frozenset(kind for kind, key in keys.items() if key is not None)
        return Offer(kinds, None if self.vapid is None else self.vapid.public, tuple(hosts))

    def providers(self, send: Send) -> dict[DeviceKind, Provider]:
        """The providers that are configured, by kind of device."""
        by_kind: dict[DeviceKind, Provider] = {}
        if self.vapid is not None:
            by_kind["webpush"] = WebPush(send, self.vapid)
        if self.apns is not None:
            by_kind["apns"] = Apns(send, self.apns)
        if self.fcm is not None:
            by_kind["fcm"] = Fcm(send, self.fcm)
        return by_kind


def push_keys(settings: Settings, signing: bytes) -> PushKeys:
    """The keys that the settings name.

    The Web Push key is derived from the store's signing secret, because browser subscriptions are bound to the key: it
    stays the same as long as the store exists. Errors: BadRequest for files that cannot be used; its message begins
    with the name of the setting.
    """
    vapid = None
    if settings.webpush_contact:
        vapid = Vapid(hashlib.blake2b(b"vapid", key=signing[:64]).digest(), settings.webpush_contact)
    return PushKeys(vapid, _apns(settings), _fcm(settings))


def check_push_keys(settings: Settings, sources: Mapping[str, str]) -> None:
    """Check the key files that the settings name. Errors: BadRequest. `sources`: where each setting came from."""
    try:
        push_keys(settings, b"")
    except BadRequest as error:
        setting, _, reason = error.message.partition(" ")
        source = f", of {sources[setting]}," if setting in sources else ""
        raise BadRequest(f"{setting}{source} {reason}") from None


def _apns(settings: Settings) -> ApnsKey | None:
    names = {name: getattr(settings, name) for name in ("apns_key_id", "apns_team_id", "apns_topic")}
    if not settings.apns_key_file:
        return None
    missing = [name for name, value in names.items() if not value]
    if missing:
        raise BadRequest(f"apns_key_file needs {' and '.join(missing)}, too; `kith settings` says what they are")
    pem = _read("apns_key_file", settings.apns_key_file)
    _check("apns_key_file", pem, ec.EllipticCurvePrivateKey)
    return ApnsKey(pem.decode(), *names.values())


def _fcm(settings: Settings) -> ServiceAccount | None:
    if not settings.fcm_account_file:
        return None
    try:
        account = msgspec.json.decode(_read("fcm_account_file", settings.fcm_account_file), type=ServiceAccount)
    except msgspec.MsgspecError as error:
        raise BadRequest(f"fcm_account_file is no JSON file of a service account: {error}") from None
    _check("fcm_account_file", account.private_key.encode(), rsa.RSAPrivateKey)
    return account


def _read(setting: str, path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise BadRequest(
            f"{setting} cannot be read ({path}: {error.strerror}); name the file as the provider gave it"
        ) from None


def _check(setting: str, pem: bytes, kind: type) -> None:
    """Check that this is a key of that kind. Errors: BadRequest, whose message shows nothing of the key."""
    try:
        usable = isinstance(load_pem_private_key(pem, None), kind)
    except (ValueError, TypeError):
        usable = False
    if not usable:
        raise BadRequest(f"{setting} holds no key that can be used; take the file as the provider gave it")
