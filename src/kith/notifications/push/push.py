"""Follows the log and sends each new notice to the devices of the users it notifies, at least once.

A message that a provider takes is done. One that it does not take now is owed to the device (`pending`), and retried
with growing pauses until the notice is a day old. Other devices do not wait for it. Each try decides again what may be
sent (`due`).

A process that stopped repeats what it sent since its last checkpoint. A repeated message has the same topic, so it
replaces the first one, in transit and on the screen. One process does not send a device the same message twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import structlog

from kith.core.backoff import is_due
from kith.core.events import RECORD_CHANGED, Event
from kith.leases.holding import Leases
from kith.notifications.notice import read_notice
from kith.notifications.notices import Notices
from kith.notifications.push.device import Device, DeviceKind
from kith.notifications.push.devices import Devices
from kith.notifications.push.due import AddressedNotice, PushSelector
from kith.notifications.push.message import TTL_MS, PushMessage
from kith.notifications.push.pending import PendingPushNote, PendingPushStore
from kith.notifications.push.provider import Provider, Verdict
from kith.notifications.rings import read_ring
from kith.outbound.errors import SendFailed
from kith.records.store import RecordKind

NAME = "push"
SENDING_MAX = 64
"""Messages in flight at once."""
DECIDED_MAX = 500
"""Notices that are decided and sent together. The followers notified of a mention may be many thousands in a batch."""
QUEUED_MS_MAX = 5_000
"""A message that waited longer for its turn is owed, and decided again: another user may have the device by now."""
SENT_MAX = 100_000
"""Sent messages that are remembered, so that they are not sent twice."""
RETRY_EVERY_MS = 1_000
"""Pause between two checks of owed messages."""
RETRY_DEVICES_MAX = 200
"""Devices that are tried in a slice of the backlog."""
ACCEPTED_RECENTLY_MS = 3_600_000
"""If a host took a message within this time, its refusal of another device is not our fault: users make up devices."""
REFUSED_USERS = 3
"""A host's refusals are our fault once it refused devices of this many users and took nothing meanwhile.

One user is enough while no host of the provider has taken a message since this process began.
"""
UNPROVEN_MAX = 5_000
"""While so many devices are owed messages, none are owed to further browsers whose host has taken no message since this
process began: users choose the host of a browser, so they could invent devices until all others wait.
"""
HOSTS_MAX = 1_000
"""Hosts whose refusals are counted. Beyond, all counts restart."""
_log = structlog.get_logger("kith.push")
T = TypeVar("T")


class Sending(NamedTuple):
    """A message for a device of a user."""

    user: int
    device: Device
    message: PushMessage


class Push:
    """The consumer of the log. See `log.runner.Consumer`. `providers`: those that are set up."""

    name = NAME

    def __init__(
        self,
        notices: Notices,
        selector: PushSelector,
        devices: Devices,
        pending: PendingPushStore,
        providers: Mapping[DeviceKind, Provider],
        leases: Leases,
        *,
        now_ms: Callable[[], int],
    ) -> None:
        self._notices, self._selector, self._devices, self._pending = notices, selector, devices, pending
        self._providers, self._leases, self._now_ms = providers, leases, now_ms
        self._sent: dict[tuple[int, int], None] = {}
        self._paused_until_ms: dict[str, int] = {}  # by lane
        self._last_taken_ms = dict[str, int]()  # by lane: when it last took a message
        self._refused_users = dict[str, set[int]]()  # by lane: users it refused since it last took a message
        self._taking_kinds = set[DeviceKind]()  # kinds whose provider took a message
        self._faults = dict[DeviceKind, str | None]()
        self._retry_due_ms = 0
        self._owed_loaded = False
        self._send_slots = asyncio.Semaphore(SENDING_MAX)

    async def handle(self, events: Sequence[Event]) -> None:
        """Send the new notices among these events, and mentions to the followers who got rows of them."""
        changed = [event for event in events if event.state == RECORD_CHANGED]
        notices = {event.destination: read_notice(event.data) for event in changed if event.source == RecordKind.NOTICE}
        addressed_notices = [
            AddressedNotice(notice.recipient, notice) for notice in notices.values() if notice is not None
        ]
        await self.send(addressed_notices + await self._followers(changed))

    async def send(self, notices: Sequence[AddressedNotice]) -> None:
        """Send notices to users, each to all of their devices. Overloaded while too many devices are owed something."""
        if not notices:
            return
        if not self._owed_loaded:
            await self._pending.all()
            self._owed_loaded = True
        for start in range(0, len(notices), DECIDED_MAX):
            await self._send_part(notices[start : start + DECIDED_MAX])

    async def _send_part(self, notices: Sequence[AddressedNotice]) -> None:
        sendings = [
            Sending(due_push.user, device, due_push.message)
            for due_push in await self._selector.of(notices, self._now_ms())
            for device in due_push.devices
            if self._has_provider(device) and (due_push.message.notice.id, device.id) not in self._sent
        ]
        verdicts = await _gather_all(self._send_new(sending) for sending in sendings)
        late = [(sending, verdict) for sending, verdict in zip(sendings, verdicts, strict=True) if verdict is not None]
        for sending, verdict in late:
            await self._queue_retry(sending, verdict)

    async def work_backlog(self) -> bool:
        """Retry messages that are owed and due, some devices at a time; returns whether there are more.

        No pause is longer than a notice may ring. A later time was set before the clock was put back: it is due.
        """
        now_ms = self._now_ms()
        if 0 < self._retry_due_ms - now_ms <= RETRY_EVERY_MS:
            return False
        async with self._leases.hold("push-owed") as lease:
            if lease is None:
                self._retry_due_ms = now_ms + RETRY_EVERY_MS
                return False
            notes = await self._pending.all()
            due_notes = [note for note in notes if is_due(note.pending.next_try_ms, now_ms, TTL_MS)]
            due_notes.sort(key=lambda note: note.pending.next_try_ms)
            await self._retry(due_notes[:RETRY_DEVICES_MAX], now_ms)
        more = len(due_notes) > RETRY_DEVICES_MAX
        self._retry_due_ms = now_ms if more else now_ms + RETRY_EVERY_MS
        return more

    async def rebuild(self) -> None:
        """Do nothing: notices whose events the log forgot do not ring; they are in the inboxes."""

    async def _followers(self, changed: Sequence[Event]) -> list[AddressedNotice]:
        """The followers with devices who got rows of mentions, by these events."""
        rings = [
            (event.destination, read_ring(event.data)) for event in changed if event.source == RecordKind.MENTION_RING
        ]
        pairs = list(dict.fromkeys((user, id_) for id_, ring in rings for user in ring.users))
        ids = list({id_ for _, id_ in pairs})
        notices_by_id = {notice.id: notice for notice in await self._notices.read(ids) if notice is not None}
        return [AddressedNotice(user, notices_by_id[id_]) for user, id_ in pairs if id_ in notices_by_id]

    async def _send_new(self, sending: Sending) -> Verdict | None:
        """Send a new message; returns the verdict if it must be retried. It waits behind older ones that are owed."""
        if sending.device.id in self._pending.known:
            return Verdict("later")
        return await self._act_on(sending, await self._try_send(sending))

    async def _act_on(self, sending: Sending, verdict: Verdict) -> Verdict | None:
        """Act on a verdict; returns it if the message must be retried."""
        kind, now_ms = sending.device.address.kind, self._now_ms()
        lane = self._providers[kind].lane(sending.device)
        if verdict.whole and verdict.wait_s:
            self._paused_until_ms[lane] = now_ms + int(verdict.wait_s * 1000)
        match verdict.what:
            case "taken":
                self._note_sent(sending)
                self._last_taken_ms[lane] = now_ms
                self._taking_kinds.add(kind)
                self._refused_users.pop(lane, None)
                await self._note_fault(kind, None)
            case "gone":
                await self._devices.prune(sending.user, sending.device)
                _log.info("a device is gone", kind=kind, device=sending.device.id)
            case "fault":
                _log.error("a provider refuses what we send", kind=kind, error=verdict.error)
                if verdict.whole or self._is_ours(sending, lane, now_ms):
                    await self._note_fault(kind, verdict.error)
                return verdict if verdict.again else None
            case "later":
                _log.info("a message must wait", kind=kind, device=sending.device.id, error=verdict.error)
                return verdict
        return None

    def _is_ours(self, sending: Sending, lane: str, now_ms: int) -> bool:
        """Whether a lane's refusal of a device is our fault, as far as other devices show."""
        if now_ms - self._last_taken_ms.get(lane, 0) < ACCEPTED_RECENTLY_MS:
            return False
        if len(self._refused_users) >= HOSTS_MAX:
            self._refused_users.clear()
        users = self._refused_users.setdefault(lane, set())
        if len(users) < REFUSED_USERS:
            users.add(sending.user)
        return len(users) >= (REFUSED_USERS if sending.device.address.kind in self._taking_kinds else 1)

    async def _try_send(self, sending: Sending) -> Verdict:
        """The provider's verdict on a message; `later` if its lane pauses, or it does not answer."""
        provider = self._providers[sending.device.address.kind]
        asked_ms = self._now_ms()
        rests_until_ms = self._paused_until_ms.get(provider.lane(sending.device), 0)
        if not is_due(rests_until_ms, asked_ms, TTL_MS):
            return Verdict("later", "", (rests_until_ms - asked_ms) / 1000)
        async with self._send_slots:
            if self._now_ms() - asked_ms > QUEUED_MS_MAX:
                return Verdict("later", "others took long")
            try:
                return await provider.send(sending.device, sending.message, self._now_ms())
            except SendFailed as error:
                return Verdict("later", error.message, error.retry_after_s)
            except Exception as error:  # a defect of ours must not hold back others
                _log.exception(
                    "a message could not be made", kind=sending.device.address.kind, device=sending.device.id
                )
                return Verdict("fault", type(error).__name__)

    async def _queue_retry(self, sending: Sending, verdict: Verdict) -> None:
        owed = self._pending.known
        if len(owed) >= UNPROVEN_MAX and sending.device.id not in owed and not self._is_proven(sending.device):
            _log.warning("a message is dropped: its host never took one", kind="webpush", device=sending.device.id)
            return
        notice, wait_ms = sending.message.notice, int(verdict.wait_s * 1000)
        dropped = await self._pending.add(sending.device.id, sending.user, [notice.id], self._now_ms(), wait_ms)
        if dropped:
            _log.warning(
                "too many messages to retry for a device; the oldest are dropped",
                device=sending.device.id,
                dropped=dropped,
            )

    async def _retry(self, notes: Sequence[PendingPushNote], now_ms: int) -> None:
        """Send these devices the owed messages that still ring, each device's in order."""
        await _gather_all(self._retry_device(note, now_ms) for note in notes)

    async def _retry_device(self, note: PendingPushNote, now_ms: int) -> None:
        """Decide each message right before it is sent: another user may have logged in on the device meanwhile."""
        ids = list(note.pending.notices)
        while ids:
            sending = None if (ids[0], note.device) in self._sent else await self._due_sending(note, ids[0])
            if sending is not None:
                verdict = await self._try_send(sending)
                retry_verdict = await self._act_on(sending, verdict)
                if retry_verdict is not None:
                    await self._pending.settle(note, ids, now_ms, int(retry_verdict.wait_s * 1000))
                    return
                if verdict.what == "gone":
                    break
            del ids[0]
        await self._pending.settle(note, (), now_ms)

    async def _due_sending(self, note: PendingPushNote, notice: int) -> Sending | None:
        """What a device is to be sent of an owed notice; None if nothing any more, or if its provider is not set up."""
        (stored,) = await self._notices.read([notice])
        due_pushes = (
            []
            if stored is None
            else await self._selector.of([AddressedNotice(note.pending.user, stored)], self._now_ms())
        )
        sendings = (
            Sending(due_push.user, device, due_push.message) for due_push in due_pushes for device in due_push.devices
        )
        return next(
            (
                sending
                for sending in sendings
                if sending.device.id == note.device and self._has_provider(sending.device)
            ),
            None,
        )

    def _is_proven(self, device: Device) -> bool:
        """Whether the host of a device is known to be real: it took a message, or is the app's choice."""
        kind = device.address.kind
        return kind != "webpush" or self._providers[kind].lane(device) in self._last_taken_ms

    def _has_provider(self, device: Device) -> bool:
        return device.address.kind in self._providers

    def _note_sent(self, sending: Sending) -> None:
        self._sent[sending.message.notice.id, sending.device.id] = None
        if len(self._sent) > SENT_MAX:
            del self._sent[next(iter(self._sent))]

    async def _note_fault(self, kind: DeviceKind, why: str | None) -> None:
        """Store for operators that a provider refuses us, or that it does not any more."""
        if kind not in self._faults or self._faults[kind] != why:
            self._faults[kind] = why
            await self._pending.fault(kind, why)


async def _gather_all(calls: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """The answers of all calls. The first error is raised once all calls have ended.

    If some were still sending, the repeated batch would send the same messages again.
    """
    answers = await asyncio.gather(*calls, return_exceptions=True)
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
    return [answer for answer in answers if not isinstance(answer, BaseException)]
