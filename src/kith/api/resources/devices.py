"""/devices: the devices that the acting user's notifications are pushed to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from kith.api.answers import Time
from kith.api.call import Call
from kith.api.operations import delete, get, post
from kith.api.parameters import Id
from kith.api.presenter import time_of
from kith.core.errors import BadRequest, Forbidden, InvalidContent
from kith.core.ids import NodeId
from kith.notifications.push.device import Address, Device, DeviceKind, Offer, token_address, webpush_address
from kith.notifications.push.devices import Devices


class KeysPart(msgspec.Struct, forbid_unknown_fields=True):
    """The keys of a browser's subscription, as base64url."""

    p256dh: str
    auth: str


class DeviceRequest(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """The address of a device, with the fields that its provider uses. `webpush`: `endpoint` and `keys`, as the
    browser's `PushSubscription.toJSON()` returns them. `apns`: `token`, the device token in hexadecimal digits;
    `sandbox`, if the app was built for development. `fcm`: `token`, the registration token.
    """

    kind: DeviceKind
    endpoint: str | None = None
    keys: KeysPart | None = None
    expiration_time: Any = None
    token: str | None = None
    sandbox: bool = False


class DeviceAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """A device. Its address is a secret and is never returned."""

    id: str
    kind: DeviceKind
    registered_at: Time


class DevicesAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """The devices of a user. `kinds`: the kinds that this server can send to. `applicationServerKey`: the key that a
    browser needs to subscribe; null if the server does not send `webpush`.
    """

    devices: list[DeviceAnswer]
    kinds: list[DeviceKind]
    application_server_key: str | None


class DevicesResource:
    """The devices of users. `next_id` makes ids. `check` raises Forbidden for a removed account."""

    def __init__(
        self,
        devices: Devices,
        offer: Offer,
        next_id: Callable[[], NodeId],
        check: Callable[[NodeId], Awaitable[None]],
    ) -> None:
        self._devices, self._offer, self._next_id, self._check = devices, offer, next_id, check

    @post("/devices", "Register a device for push notifications", callers="acting", status=201)
    async def add_device(self, call: Call, body: DeviceRequest) -> DeviceAnswer:
        """Send this each time the app starts: the same device keeps its id. A device that another user registered
        before is moved to this user. A user can have at most 20 devices.
        """
        if body.kind not in self._offer.kinds:
            raise BadRequest(f"this server does not send by {body.kind}; GET /devices lists what it sends by")
        await self._check(call.acting_user)
        device, mark = await self._devices.add(call.acting_user, self._next_id(), _address(body, self._offer))
        call.note_write(mark)
        try:
            await self._check(call.acting_user)
        except Forbidden:  # removed while this was written; what came before, the removal forgets
            await self._devices.forget(call.acting_user)
            raise
        return _answer(device)

    @get("/devices", "The devices of the acting user", callers="acting")
    async def devices(self, call: Call) -> DevicesAnswer:
        """Oldest registration first. Devices that their provider no longer knows are left out."""
        devices = (await self._devices.of([call.acting_user]))[call.acting_user]
        return DevicesAnswer([_answer(device) for device in devices], sorted(self._offer.kinds), self._offer.key)

    @get("/devices/{device_id}", "A device", callers="acting")
    async def device(self, call: Call, device_id: Id) -> DeviceAnswer:
        """`registeredAt` is when the app last registered it."""
        return _answer(await self._devices.one(call.acting_user, device_id))

    @delete("/devices/{device_id}", "Unregister a device", callers="acting", status=204)
    async def delete_device(self, call: Call, device_id: Id) -> None:
        """Call it when a user logs out. A push that is already on its way may still arrive."""
        call.note_write(await self._devices.remove(call.acting_user, device_id))


def _address(body: DeviceRequest, offer: Offer) -> Address:
    if body.kind == "webpush":
        if body.endpoint is None or body.keys is None or body.token is not None or body.sandbox:
            raise InvalidContent("webpush takes `endpoint` and `keys`", field="endpoint")
        return webpush_address(body.endpoint, body.keys.p256dh, body.keys.auth, offer.hosts)
    if body.token is None or body.endpoint is not None or body.keys is not None:
        raise InvalidContent(f"{body.kind} takes `token`", field="token")
    return token_address(body.kind, body.token, sandbox=body.sandbox)


def _answer(device: Device) -> DeviceAnswer:
    return DeviceAnswer(str(device.id), device.address.kind, time_of(device.registered_ms))
