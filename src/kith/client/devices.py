"""Calls about the devices that get a user's push notifications. As in `graphs`, nothing is sent here."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, TypeAlias

from kith.client.answers import Id, Record
from kith.client.asking import BASE, checked_id, nothing, reader
from kith.client.wire import Call

DeviceKind: TypeAlias = Literal["webpush", "apns", "fcm"]


class Device(Record, frozen=True, kw_only=True):
    """A device. Its address is never returned. `kind`: a `DeviceKind`, or one that only a newer service knows."""

    id: int
    kind: str
    registered_at: datetime


class DeviceList(Record, frozen=True, kw_only=True):
    """The devices of a user. `kinds`: the kinds that the server can send to.

    `application_server_key`: what a browser needs for `pushManager.subscribe`.
    """

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
    """Register a device for the acting user's push notifications. Call it each time the app starts.

    Kind `webpush` takes `endpoint`, `p256dh` and `auth` of the browser's subscription. Kinds `apns` and `fcm` take
    `token`; `sandbox`: the app was built for Apple's development environment.
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
    """The acting user's devices, and the kinds that the server can send to."""
    return Call("GET", _PATH, _devices)


def device(id: Id) -> Call[Device]:
    """A device of the acting user."""
    return Call("GET", f"{_PATH}/{checked_id(id, 'device')}", _device)


def delete_device(id: Id) -> Call[None]:
    """Remove a device, so that it gets no more push notifications. Call it when the user logs out."""
    return Call("DELETE", f"{_PATH}/{checked_id(id, 'device')}", nothing, deletes=True)
