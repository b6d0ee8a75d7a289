"""Delivers one webhook: reads the log from its checkpoint, sends wanted changes, advances the checkpoint, repeats.

A delivery is retried until the endpoint accepts it or it is given up; only then comes the next one. So changes of one
key arrive in order, and a failing endpoint delays only itself. The checkpoint advances after the answer: if the process
dies in between, the delivery is sent again (at least once).
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple, Protocol

import msgspec
import structlog

from kith import __version__
from kith.core.events import Event, LogPosition
from kith.graph.graphs import Graphs
from kith.leases.holding import HeldLease
from kith.log.lease_holder import LogLeaseHolder
from kith.log.store import Failure, LogStore
from kith.outbound.errors import SendFailed, SendFault
from kith.outbound.outbound import Send
from kith.watch.change_filter import filter_of
from kith.watch.changes import change_from
from kith.webhooks.next_step import (
    CHANGES_MAX,
    TRIES_MIN,
    DeliveryStanding,
    TryOutcome,
    changes_max,
    next_step,
    wait_ms,
)
from kith.webhooks.signature import sign
from kith.webhooks.webhook import Secrets, group_of
from kith.webhooks.webhooks import DEAD_MAX, Webhooks, WebhookSlot

READ_MAX = 1_000
"""Events of one read."""
BODY_BYTES_MAX = 1 << 19
"""Bytes of the changes in one delivery, unless a single change has more."""
CHECK_EVERY_S = 1.0
"""How often a webhook is checked: whether it was deleted, and whether dead letters must be replayed."""
SAVE_S = 5.0
"""How often the checkpoint is saved while no wanted change comes."""
_GAP = b'{"kind":"gap"}'
_FOREVER_MS = 1 << 62
_encode = msgspec.json.Encoder().encode
_log = structlog.get_logger("kith.webhooks")


class DueDelivery(NamedTuple):
    """A change to send. `until`: the checkpoint once it, and all before it, is done."""

    event: Event
    change: bytes
    until: LogPosition


class DeliveryContext(Protocol):
    """What the webhooks of a process share."""

    webhooks: Webhooks
    log: LogStore
    send: Send
    secrets: Secrets
    give_up_ms: int
    now_ms: Callable[[], int]
    chance: Callable[[], float]
    tokens: Callable[[Sequence[LogPosition]], Sequence[str]]
    rings: int
    """How many times the log's bell has rung."""

    async def graphs_of(self, events: Sequence[Event], names: Collection[str] = ()) -> Graphs:
        """All graphs, including those of these events and names."""
        ...

    async def wait_for_events(self, rings: int, within_s: float) -> None:
        """Wait until `self.rings` exceeds `rings`, for `within_s` at most."""
        ...


class WebhookDelivery:
    """Delivers one webhook while this process holds its `lease`."""

    def __init__(self, context: DeliveryContext, slot: WebhookSlot, lease: HeldLease) -> None:
        self._context, self._slot, self._lease = context, slot, lease
        self._group = group_of(slot.webhook.id)
        self._log_lease = LogLeaseHolder(context.log, self._group, context.now_ms)
        self._due: deque[DueDelivery] = deque()
        self._gap = slot.webhook.standing.gap
        self._read_to = self._done_to = self._saved = LogPosition(b"")
        self._save_due_ms = self._check_due_ms = 0

    async def run(self) -> None:
        """Deliver until the webhook is deleted, or another process takes it over. Errors: Unavailable."""
        if await self._begin():
            while await self._step():
                pass

    async def _begin(self) -> bool:
        """Load the checkpoint, and save it: if nothing can be saved, nothing may be sent.

        If the checkpoint is lost, or lies in events that a restore lost, continue from now, and report a gap. Returns
        False if the webhook was changed meanwhile.
        """
        progress, end = await self._context.log.progress(self._group), await self._context.log.end()
        lost = progress is None or not self._context.log.covers(end, progress.at)
        self._gap = self._gap or lost
        self._read_to = self._done_to = end if progress is None or lost else progress.at
        slot = await self._context.webhooks.save_standing(self._slot, self._standing)
        if slot is None:
            return False
        self._slot = slot
        await self._save({})
        return True

    async def _step(self) -> bool:
        """Send a due delivery, or read on, or wait. Returns False once the webhook is deleted."""
        context, rings = self._context, self._context.rings
        self._lease.check()
        slot = await context.webhooks.reload(self._slot)
        if slot is None:
            await context.webhooks.forget_checkpoint(
                self._slot.webhook.id
            )  # this process may have saved it after the deletion
            return False
        self._slot = slot
        await self._log_lease.keep(self._saved)
        await self._replay()
        pause_ms = wait_ms(slot.webhook.standing, context.now_ms())
        if pause_ms:
            await asyncio.sleep(min(CHECK_EVERY_S, pause_ms / 1000))
        elif self._due or await self._read() or self._gap:
            if self._due or self._gap:
                await self._deliver()
            else:  # no wanted change among these events, and there may be hours of them
                await self._save_if_due()
                await asyncio.sleep(0)
        else:
            await self._save_if_due()
            await context.wait_for_events(rings, CHECK_EVERY_S)
        return True

    async def _read(self) -> bool:
        """Read events, and queue the wanted ones; returns whether there were any events."""
        context, webhook = self._context, self._slot.webhook
        batch = await context.log.read(self._read_to, READ_MAX)
        self._gap = self._gap or batch.lost
        graphs = await context.graphs_of(batch.events, webhook.graphs)
        events = filter_of(webhook.kinds, webhook.graphs, (), graphs).candidates(batch.events)
        changes = dict(zip((event.log_position for event in events), self._changes(events, graphs), strict=True))
        until = self._read_to
        for event in batch.events:
            until = context.log.joined(until, event.log_position)
            if event.log_position in changes:
                self._due.append(DueDelivery(event, changes[event.log_position], until))
        self._read_to = batch.next
        if not self._due:
            self._done_to = self._read_to
        return bool(batch.events)

    async def _deliver(self) -> None:
        """Attempt the next delivery. Save the outcome before the checkpoint: a stop in between repeats the delivery."""
        context = self._context
        standing = self._standing
        due = _fitting(self._due, changes_max(standing))
        outcome = await self._send([*([_GAP] if self._gap else []), *(delivery.change for delivery in due)])
        step = next_step(standing, outcome, context.now_ms(), await self._give_up_after_ms(len(due)), context.chance())
        self._lease.check()
        slot = await context.webhooks.save_standing(self._slot, step.standing)
        if slot is None or step.verdict == "again":
            self._slot = slot or self._slot  # None: changed meanwhile; the next step reloads it
            return
        self._slot, self._gap = slot, step.standing.gap
        tries = standing.failures + 1
        given_up = due if step.verdict == "give up" else ()
        for _ in due:
            self._done_to = self._due.popleft().until
        if not self._due:
            self._done_to = self._read_to
        await self._save(
            {delivery.event.log_position: self._dead(delivery.event, tries, outcome.error) for delivery in given_up}
        )

    @property
    def _standing(self) -> DeliveryStanding:
        """The state of deliveries, with the gap that is not reported yet."""
        return msgspec.structs.replace(self._slot.webhook.standing, gap=self._gap)

    async def _give_up_after_ms(self, change_count: int) -> int:
        """How long the next delivery may hold back later ones.

        For ever, if it reports only a gap, which must arrive, or if there is no room for its dead letters.
        """
        context = self._context
        if self._slot.webhook.standing.failures + 1 < TRIES_MIN:
            return context.give_up_ms
        dead_count = len(await context.log.failures(self._group, DEAD_MAX))
        return context.give_up_ms if change_count and dead_count + change_count <= DEAD_MAX else _FOREVER_MS

    async def _send(self, changes: Sequence[bytes], *, replayed: bool = False) -> TryOutcome:
        """Send one delivery, and return its outcome."""
        context, webhook = self._context, self._slot.webhook
        secret = context.secrets.open(webhook)
        if secret is None:
            return TryOutcome(None, "its secret was sealed by another store; delete this webhook, and create it again")
        name, body = build_delivery(webhook.id, changes, replayed=replayed)
        headers = {
            "Content-Type": "application/json",
            "User-Agent": f"Kith/{__version__}",
            "Kith-Webhook": str(webhook.id),
            "Kith-Delivery": name,
            "Kith-Signature": sign(secret, body, context.now_ms() // 1000),
        }
        try:
            answer = await self._lease.run_while_held(context.send("POST", webhook.url, headers, body))
        except SendFailed as error:
            outcome = TryOutcome(None, error.message, error.retry_after_s, error.fault is SendFault.RESTING)
        else:
            outcome = TryOutcome(answer.status, _status_error(answer.status), answer.retry_after_s)
        if not outcome.delivered and not outcome.resting:
            failures = webhook.standing.failures + 1
            _log.warning("a delivery failed", webhook=webhook.id, delivery=name, tries=failures, error=outcome.error)
        return outcome

    async def _replay(self) -> None:
        """Send revived dead letters (`Webhooks.replay`) once, besides new changes. They wait while the host rests."""
        context = self._context
        if 0 < self._check_due_ms - context.now_ms() <= CHECK_EVERY_S * 1000:
            return
        self._check_due_ms = context.now_ms() + int(CHECK_EVERY_S * 1000)
        revived = [letter for letter in await context.log.failures(self._group, DEAD_MAX) if not letter.dead]
        letters = [letter.event for letter in revived]
        tries = {letter.event.log_position: letter.tries + 1 for letter in revived}
        changes = self._changes(letters, await context.graphs_of(letters))
        due = [DueDelivery(event, change, event.log_position) for event, change in zip(letters, changes, strict=True)]
        while due:
            part = _fitting(due, CHANGES_MAX)
            outcome = await self._send([delivery.change for delivery in part], replayed=True)
            self._lease.check()
            if outcome.resting:
                return
            if not outcome.delivered:
                dead = {mark: self._dead(event, tries[mark], outcome.error) for event, _, mark in due}
                await context.log.save(self._group, None, dead)
                return
            await context.log.save(
                self._group, None, dict.fromkeys((delivery.event.log_position for delivery in part), None)
            )
            due = due[len(part) :]

    def _changes(self, events: Sequence[Event], graphs: Graphs) -> list[bytes]:
        """Events as encoded changes."""
        tokens = self._context.tokens([event.log_position for event in events])
        return [_encode(change_from(event, token, graphs)) for event, token in zip(events, tokens, strict=True)]

    def _dead(self, event: Event, tries: int, error: str) -> Failure:
        return Failure(self._group, event, tries, error, self._context.now_ms(), 0, dead=True)

    async def _save_if_due(self) -> None:
        """Save the checkpoint every SAVE_S while no wanted change comes. Never past a gap that is not reported."""
        now_ms = self._context.now_ms()
        if self._done_to != self._saved and not self._gap and not 0 < self._save_due_ms - now_ms <= SAVE_S * 1000:
            self._save_due_ms = now_ms + int(SAVE_S * 1000)
            await self._save({})

    async def _save(self, dead: Mapping[LogPosition, Failure | None]) -> None:
        """Save the checkpoint, together with the changes that were given up."""
        self._lease.check()
        await self._context.log.save(self._group, self._done_to, dead)
        self._saved = self._done_to


def build_delivery(webhook: int, changes: Sequence[bytes], *, replayed: bool = False) -> tuple[str, bytes]:
    """The name and the body of a delivery. The name is a hash of its changes, so a repetition has the same name."""
    joined = b",".join(changes)
    name = hashlib.blake2b(b"%d\n" % webhook + joined, digest_size=16).hexdigest()
    head = b'{"delivery":"%b","webhook":"%d","replayed":%b' % (name.encode(), webhook, _encode(replayed))
    return name, head + b',"changes":[%b]}' % joined


def _fitting(due: Iterable[DueDelivery], changes: int) -> list[DueDelivery]:
    """The first changes that fit into one delivery: up to `changes` of them, and at least one."""
    fitting: list[DueDelivery] = []
    size = 0
    for delivery in islice(due, changes):
        size += len(delivery.change)
        if fitting and size > BODY_BYTES_MAX:
            break
        fitting.append(delivery)
    return fitting


def _status_error(status: int) -> str:
    if 200 <= status < 300:
        return ""
    return f"it answered {status}" + (", a redirect, which is not followed" if 300 <= status < 400 else "")
