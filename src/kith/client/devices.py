"""Calls about the devices on which a user's notifications ring. As in `graphs`, nothing is sent."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, TypeAlias

from kith.client.answers import Id, Record
from kith.client.asking import BASE, checked_id, nothing, reader
from kith.client.wire import Call

DeviceKind: TypeAlias = Literal["webpush", "apns", "fcm"]


class Device(Record, frozen=True, kw_only=True):
    """A device; where it is reached is not told. `kind`: a `DeviceKind`, or what a newer service calls it."""

    id: int
    kind: str
    registered_at: datetime


class DeviceList(Record, frozen=True, kw_only=True):
    """Those of a user. `kinds`: what the server sends by; `application_server_key`: for a browser to subscribe."""

    devices: list[Device]
    kinds: list[str]
    application_server_key: str | None = None


_PATH = f"{BASE}/devices"
_device = reader(Device)
_devices = reader(DeviceList)


def add_device(
    kind: DeviceKind,
    *,
    endpoint: str | None = None,
    p256dh: str | None = None,
    auth: str | None = None,
    token: str | None = None,
    sandbox: bool = False,
) -> Call[Device]:
    """Have the acting user's notifications ring on a device; call it each time the app starts.

    `webpush`: `endpoint` and the two `keys` of the browser's subscription. `apns`, `fcm`: `token`; `sandbox` for an app
    that was built for Apple's development environment.
    """
    body: dict[str, Any] = {"kind": kind}
    if endpoint is not None:
        body["endpoint"] = endpoint
    if p256dh is not None or auth is not None:
        body["keys"] = {"p256dh": p256dh, "auth": auth}
    if token is not None:
        body["token"] = token
    return Call("POST", _PATH, _device, body={**body, "sandbox": True} if sandbox else body)


def devices() -> Call[DeviceList]:
    """Where the acting user's notifications ring, and what the server sends by."""
    return Call("GET", _PATH, _devices)


def device(id: Id) -> Call[Device]:
    """A device of the acting user."""
    return Call("GET", f"{_PATH}/{checked_id(id, 'device')}", _device)


def delete_device(id: Id) -> Call[None]:
    """Have nothing ring on a device any more, as when its user logs out."""
    return Call("DELETE", f"{_PATH}/{checked_id(id, 'device')}", nothing, deletes=True)
