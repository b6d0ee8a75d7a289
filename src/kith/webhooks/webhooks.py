"""Creates, lists and deletes webhooks; lists and replays their dead letters.

Each webhook is a note in one of `webhooks_max` slots. A slot is taken, changed and freed by compare and set. So the
bound is exact, and a worker that was replaced by another can change nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from kith.core.errors import Conflict, IdempotencyKeyReused, WebhookLimitReached, WebhookNotFound
from kith.core.events import LogPosition
from kith.graph.graphs import Graphs
from kith.graph.store import Notes
from kith.log.lease_holder import LogLeaseHolder
from kith.log.store import Backlog, Failure, LogStore
from kith.outbound.addresses import IpNetwork, refuse_private
from kith.outbound.urls import check_url
from kith.records.claims import check_key
from kith.watch.change_filter import filter_of
from kith.webhooks.next_step import DeliveryStanding
from kith.webhooks.webhook import Secrets, Webhook, checked_secret, group_of

NAME = "webhooks"
"""The name of the worker that delivers webhooks."""
PREFIX = "webhook/"
"""Prefix of the notes of webhooks. `webhook/<slot>`: a Webhook as JSON."""
KEYS = "webhook-key/"
"""Prefix of the notes that claim an Idempotency-Key. `webhook-key/<digest>`: the id of the webhook it created."""
DEAD_MAX = 1_000
"""Dead letters of one webhook. Once there are this many, no delivery is given up any more; it is retried instead."""
_REWRITES_MAX = 16
_encode, _decode = msgspec.json.encode, msgspec.json.Decoder(Webhook).decode


async def webhooks_of(store: Notes) -> list[Webhook]:
    """Every webhook of a store."""
    return [_decode(raw) for raw in (await store.notes(PREFIX)).values()]


class WebhookSlot(NamedTuple):
    """A webhook as stored in its slot."""

    key: str
    raw: bytes
    webhook: Webhook


class WebhookProgress(NamedTuple):
    """A webhook and its progress. `at`, `behind`: None if its checkpoint is lost, as after a rebuild; a gap follows."""

    webhook: Webhook
    at: LogPosition | None
    behind: Backlog | None
    dead: int


class Webhooks:
    """All webhooks of a store. `webhooks_max`: the setting of this name."""

    def __init__(
        self,
        notes: Notes,
        log: LogStore,
        secrets: Secrets,
        *,
        webhooks_max: int,
        now_ms: Callable[[], int],
        networks: Sequence[IpNetwork] = (),
    ) -> None:
        """`networks`: networks that may be called even if they are not public."""
        self._notes, self._log, self._secrets, self._now_ms = notes, log, secrets, now_ms
        self._webhooks_max, self._networks = webhooks_max, networks

    async def create(
        self,
        id_: int,
        url: str,
        *,
        graphs: Sequence[str],
        kinds: Sequence[str],
        known: Graphs,
        secret: str | None = None,
        key: str | None = None,
    ) -> tuple[WebhookProgress, str]:
        """Create a webhook that sends changes from now on. Returns it with its secret, which no other call returns.

        While the webhook exists, the same Idempotency-Key returns it again.
        Errors: BadRequest for an unusable URL or secret; UnknownGraph; IdempotencyKeyReused; WebhookLimitReached.
        """
        refuse_private(check_url(url).host, self._networks)
        filter_of(kinds, graphs, (), known)
        new_webhook = Webhook(
            id=id_, url=url, graphs=tuple(dict.fromkeys(graphs)), kinds=tuple(dict.fromkeys(kinds)),
            secret=checked_secret(secret), created_ms=self._now_ms(), key="" if key is None else _digest(key),
        )  # fmt: skip
        if not new_webhook.key:
            return await self._progress_of((await self._store_new(new_webhook)).webhook), new_webhook.secret
        is_stored = False
        for _ in range(_REWRITES_MAX):
            claim = await self._notes.get_note(KEYS + new_webhook.key)
            same_key = [slot.webhook for slot in await self.all() if slot.webhook.key == new_webhook.key]
            claimed = next((webhook for webhook in same_key if _encode(webhook.id) == claim), None)
            if claimed is not None:
                if is_stored and claimed.id != id_:
                    with contextlib.suppress(WebhookNotFound):
                        await self.delete(id_)
                return await self._repeated_answer(claimed, new_webhook, has_secret=secret is not None)
            if not same_key:
                try:
                    await self._store_new(new_webhook)
                except WebhookLimitReached:
                    if all(slot.webhook.key != new_webhook.key for slot in await self.all()):
                        raise
                    continue  # a request with this key took the last slot
                is_stored = True
            first = same_key[0].id if same_key else id_
            await self._notes.put_note(KEYS + new_webhook.key, _encode(first), only_if=claim)
        raise Conflict("this Idempotency-Key is used by many at once; try again")

    async def _store_new(self, webhook: Webhook) -> WebhookSlot:
        """Store a new webhook, with its checkpoint at the end of the log."""
        # The checkpoint first: alone it does no harm, while a note without one would start with a gap.
        end, log_lease = await self._log.end(), LogLeaseHolder(self._log, group_of(webhook.id), self._now_ms)
        await self._log.save(group_of(webhook.id), end, {})
        await log_lease.keep(end)  # lease the log until a worker delivers this webhook
        try:
            return await self._slot(
                msgspec.structs.replace(webhook, secret=self._secrets.seal(webhook.id, webhook.secret))
            )
        except WebhookLimitReached:
            await self.forget_checkpoint(webhook.id)
            raise

    async def _slot(self, webhook: Webhook) -> WebhookSlot:
        """Store a webhook in a free slot. WebhookLimitReached if there is none."""
        raw = _encode(webhook)
        for slot in range(self._webhooks_max):
            if await self._notes.put_note(f"{PREFIX}{slot:05}", raw, only_if=None):
                return WebhookSlot(f"{PREFIX}{slot:05}", raw, webhook)
        raise WebhookLimitReached(
            f"there are {self._webhooks_max} webhooks; delete one, or raise the setting `webhooks_max`",
            max=self._webhooks_max,
        )

    async def _repeated_answer(
        self, existing: Webhook, requested: Webhook, *, has_secret: bool
    ) -> tuple[WebhookProgress, str]:
        """The answer that the creating request got. `has_secret`: whether this request names a secret itself."""
        secret = self._secrets.open(existing)
        is_same = (existing.url, existing.graphs, existing.kinds) == (requested.url, requested.graphs, requested.kinds)
        if secret is None or not is_same or (has_secret and secret != requested.secret):
            raise IdempotencyKeyReused(
                "this Idempotency-Key was used with other content before; use a new key for another webhook"
            )
        return await self._progress_of(existing), secret

    async def all(self) -> list[WebhookSlot]:
        """Every webhook as stored, oldest first."""
        notes = await self._notes.notes(PREFIX)
        slots = [WebhookSlot(key, raw, _decode(raw)) for key, raw in notes.items()]
        return sorted(slots, key=lambda slot: slot.webhook.id)

    async def progress_of_all(self) -> list[WebhookProgress]:
        """Every webhook with its progress, oldest first."""
        return [await self._progress_of(slot.webhook) for slot in await self.all()]

    async def progress_of(self, id_: int) -> WebhookProgress:
        """A webhook with its progress. WebhookNotFound."""
        return await self._progress_of((await self._slot_of(id_)).webhook)

    async def delete(self, id_: int) -> None:
        """Delete a webhook, its dead letters first. A delivery in flight may still arrive. WebhookNotFound."""
        for _ in range(_REWRITES_MAX):
            slot = await self._slot_of(id_)
            await self._log.forget(group_of(id_))
            if await self._replace_note(slot, None):
                if slot.webhook.key:
                    await self._notes.put_note(KEYS + slot.webhook.key, None, only_if=_encode(id_))
                await self.forget_checkpoint(id_)
                return
        raise Conflict(f"webhook {id_} is being changed by many at once; try again", id=str(id_))

    async def dead(self, id_: int, limit: int = DEAD_MAX) -> list[Failure]:
        """Up to `limit` changes that were given up, as the log stores them. WebhookNotFound."""
        await self._slot_of(id_)
        return [failure for failure in await self._log.failures(group_of(id_), limit) if failure.dead]

    async def replay(self, id_: int) -> int:
        """Have the worker send all dead letters once more, besides new changes; returns how many. WebhookNotFound."""
        failures = await self.dead(id_)
        revived = {
            failure.event.log_position: msgspec.structs.replace(failure, dead=False, next_try_ms=0)
            for failure in failures
        }
        if revived:
            await self._log.save(group_of(id_), None, revived)
        return len(revived)

    # For the worker.

    async def reload(self, slot: WebhookSlot) -> WebhookSlot | None:
        """Reload a webhook; None if it was deleted."""
        raw = await self._notes.get_note(slot.key)
        if raw is None:
            return None
        webhook = _decode(raw)
        return WebhookSlot(slot.key, raw, webhook) if webhook.id == slot.webhook.id else None

    async def save_standing(self, slot: WebhookSlot, standing: DeliveryStanding) -> WebhookSlot | None:
        """Store the state of deliveries. Returns None, and stores nothing, if the webhook changed since it was read."""
        if slot.webhook.standing == standing:
            return slot
        raw = _encode({**msgspec.json.decode(slot.raw), "standing": standing})  # keeps a newer Kith's fields
        return WebhookSlot(slot.key, raw, _decode(raw)) if await self._replace_note(slot, raw) else None

    async def _replace_note(self, slot: WebhookSlot, raw: bytes | None) -> bool:
        """Replace the note in a slot, or delete it (None), if it is still as it was read; returns whether it was."""
        return await self._notes.put_note(slot.key, raw, only_if=slot.raw)

    async def forget_checkpoint(self, id_: int) -> None:
        """Forget the checkpoint and dead letters of a deleted webhook, and release its lease of the log."""
        await self._log.release(group_of(id_))
        await self._log.forget(group_of(id_))

    async def _slot_of(self, id_: int) -> WebhookSlot:
        for slot in await self.all():
            if slot.webhook.id == id_:
                return slot
        raise WebhookNotFound(f"there is no webhook {id_}; GET /webhooks lists them", id=str(id_))

    async def _progress_of(self, webhook: Webhook) -> WebhookProgress:
        group = group_of(webhook.id)
        progress = await self._log.progress(group)
        dead = len([failure for failure in await self._log.failures(group) if failure.dead])
        position, behind = (None, None) if progress is None else progress
        return WebhookProgress(webhook, position, behind, dead)


def _digest(key: str) -> str:
    """The digest of an Idempotency-Key; BadRequest for an invalid key."""
    check_key(key)
    return hashlib.blake2b(key.encode(), digest_size=16).hexdigest()
