"""The devices of users: one sealed record per user, and one record per endpoint, which names its current user.

A phone may be handed on, or another user may log in on it. So an endpoint belongs to the user who registered it last;
entries of it that other users still have are ignored.

A registration writes both records, the endpoint's first. A process that stops in between leaves an endpoint that no
user has, never one that two users have. A removal takes the device out of the user's record first. Then it deletes the
endpoint's record, unless the endpoint was registered since: its record then has another version.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence

import msgspec

from kith.core.clock import HybridClock, ms_of
from kith.core.errors import DeviceLimitReached, DeviceNotFound
from kith.core.ids import ID_MAX, NodeId
from kith.core.signing import Signer
from kith.core.tokens import WriteMark
from kith.notifications.push.device import Address, Device
from kith.records.rewriting import NOTHING_TO_DO, newer_fields_of_each, next_version, rewrite
from kith.records.store import AtVersion, Put, Record, RecordKind, RecordStore

DEVICES_MAX = 20
"""Devices of a user."""
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Device]).decode


class Devices:
    """Registers, finds and removes devices. `signing`: the secret of this store, with which the records are sealed."""

    def __init__(self, records: RecordStore, clock: HybridClock, signing: bytes) -> None:
        self._records, self._clock, self._signer = records, clock, Signer(signing, "devices")

    async def add(self, user: NodeId, id_: int, address: Address) -> tuple[Device, WriteMark]:
        """Register a device. A known one keeps its id and is registered again. Errors: DeviceLimitReached."""

        async def replace() -> tuple[Put, Device]:
            stored, devices = await self._read(user)
            (holder,) = await self._holders([address])
            at_ms = ms_of(self._clock.next())
            known_device = next((entry for entry in devices if _same_endpoint(entry.address, address)), None)
            device = Device(id_ if known_device is None else known_device.id, at_ms, address)
            others = await self._other_devices(user, devices, address)
            holder_record = Record(
                RecordKind.DEVICE_HOLDER, _id_of(address), next_version(self._clock, holder), _encode(user)
            )
            return await self._put(user, stored, [*others, device], [(holder_record, _version(holder))]), device

        put, device = await rewrite("the devices of this user", user, replace)
        return device, put.mark

    async def _other_devices(self, user: int, devices: Sequence[Device], address: Address) -> list[Device]:
        """The user's devices except the one at this address; DeviceLimitReached if there is no room for another."""
        others = [
            device
            for device in (await self._registered_devices({user: devices}))[user]
            if not _same_endpoint(device.address, address)
        ]
        if len(others) >= DEVICES_MAX:
            raise DeviceLimitReached(f"a user has {DEVICES_MAX} devices at most; delete one", max=DEVICES_MAX)
        return others

    async def of(self, users: Sequence[int]) -> dict[int, list[Device]]:
        """The devices of each user, without those that another user registered since."""
        records = await self._records.get_many(RecordKind.DEVICES, users) if users else []
        return await self._registered_devices(
            {user: self._open(user, record) for user, record in zip(users, records, strict=True)}
        )

    async def _registered_devices(self, listed: Mapping[int, Sequence[Device]]) -> dict[int, list[Device]]:
        """The `listed` devices of each user, without those that another user registered since."""
        addresses = [device.address for devices in listed.values() for device in devices]
        holder = dict(zip(map(_id_of, addresses), map(_holder, await self._holders(addresses)), strict=True))
        return {
            user: [device for device in devices if holder[_id_of(device.address)] == user]
            for user, devices in listed.items()
        }

    async def _holders(self, addresses: Sequence[Address]) -> list[Record | None]:
        """The record of each endpoint."""
        ids = [_id_of(address) for address in addresses]
        return await self._records.get_many(RecordKind.DEVICE_HOLDER, ids) if ids else []

    async def one(self, user: NodeId, id_: int) -> Device:
        """A device of a user. Errors: DeviceNotFound."""
        for device in (await self.of([user]))[user]:
            if device.id == id_:
                return device
        raise DeviceNotFound(f"this user has no device {id_}; GET /devices lists them", id=str(id_))

    async def remove(self, user: NodeId, id_: int) -> WriteMark:
        """Remove a device of a user. Errors: DeviceNotFound."""
        await self.one(user, id_)
        return await self._keep(user, lambda device: device.id != id_)

    async def prune(self, user: int, gone: Device) -> None:
        """Remove a device that its provider does not know any more, unless it was registered again since."""
        await self._keep(user, lambda device: device.id != gone.id or device.registered_ms > gone.registered_ms)

    async def forget(self, user: int) -> None:
        """Remove all devices of a user. May be repeated."""
        await self._keep(user, lambda _: False)

    async def _keep(self, user: int, keeps: Callable[[Device], bool]) -> WriteMark:
        async def replace() -> tuple[Put, list[Record]]:
            stored, devices = await self._read(user)
            remaining = [device for device in devices if keeps(device)]
            if remaining == devices:
                return NOTHING_TO_DO, []
            holders = await self._holders([device.address for device in devices if device not in remaining])
            stale_holders = [record for record in holders if record is not None and _holder(record) == user]
            return await self._put(user, stored, remaining), stale_holders

        put, stale_holders = await rewrite("the devices of this user", user, replace)
        if stale_holders:
            versions = [record.updated_at for record in stale_holders]
            await self._records.forget(RecordKind.DEVICE_HOLDER, [record.id for record in stale_holders], versions)
        return put.mark

    async def _read(self, user: int) -> tuple[Record | None, list[Device]]:
        (stored,) = await self._records.get_many(RecordKind.DEVICES, [user])
        return stored, self._open(user, stored)

    async def _put(
        self,
        user: int,
        stored: Record | None,
        devices: Sequence[Device],
        holder_records: Sequence[tuple[Record, int]] = (),
    ) -> Put:
        """Write the devices of a user.

        `holder_records`: endpoint records to write first, each with the version it replaces.
        """
        opened = self._opened(user, stored)
        data = _encode(devices) if opened is None else newer_fields_of_each(_encode(devices), opened)
        sealed = self._signer.seal(data, _bound_to(user)).encode()
        record = Record(RecordKind.DEVICES, user, next_version(self._clock, stored), sealed)
        only_if = [
            AtVersion(item.kind, item.id, version) for item, version in [*holder_records, (record, _version(stored))]
        ]
        return await self._records.put([*(item for item, _ in holder_records), record], only_if=only_if)

    def _open(self, user: int, record: Record | None) -> list[Device]:
        """The devices in a record; none if another store sealed it."""
        opened = self._opened(user, record)
        return [] if opened is None else _decode(opened)

    def _opened(self, user: int, record: Record | None) -> bytes | None:
        return None if record is None else self._signer.open(record.data.decode(), _bound_to(user))


def _same_endpoint(address: Address, other_address: Address) -> bool:
    return (address.kind, address.endpoint) == (other_address.kind, other_address.endpoint)


def _id_of(address: Address) -> int:
    """The id of an endpoint's record. Endpoints are random and long, so the id discloses nothing of them."""
    text = f"{address.kind} {address.endpoint}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") & ID_MAX


def _version(record: Record | None) -> int:
    return 0 if record is None else record.updated_at


def _holder(record: Record | None) -> int | None:
    return None if record is None else msgspec.msgpack.decode(record.data, type=int)


def _bound_to(user: int) -> bytes:
    return user.to_bytes(8, "big")
