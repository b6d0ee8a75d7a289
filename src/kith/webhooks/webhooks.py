"""Webhooks: made, found, ended; their dead letters, listed and sent again.

Each is a note in one of `webhooks_max` slots. A slot is taken, changed and freed only if it is unchanged since it was
read. So the bound is exact, and a worker that another has replaced changes nothing.
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
from kith.log.keeping import Keeping
from kith.log.store import Backlog, Failure, LogStore
from kith.outbound.addresses import IpNetwork, refuse_private
from kith.outbound.urls import check_url
from kith.records.claims import check_key
from kith.watch.wanted import wanted_of
from kith.webhooks.next_step import DeliveryStanding
from kith.webhooks.webhook import Secrets, Webhook, checked_secret, group_of

NAME = "webhooks"
"""Of the worker that delivers them."""
PREFIX = "webhook/"
"""Of the notes: `webhook/<slot>`, a Webhook as JSON."""
KEYS = "webhook-key/"
"""Of the notes that claim an Idempotency-Key: `webhook-key/<digest>`, the id of the webhook that it stands for."""
DEAD_MAX = 1_000
"""Dead letters kept of a webhook; when there are this many, nothing more is given up and the next delivery is tried
on."""
_REWRITES_MAX = 16
_encode, _decode = msgspec.json.encode, msgspec.json.Decoder(Webhook).decode


async def webhooks_of(store: Notes) -> list[Webhook]:
    """Every webhook of a store."""
    return [_decode(raw) for raw in (await store.notes(PREFIX)).values()]


class WebhookSlot(NamedTuple):
    """A webhook as it stands in its slot."""

    key: str
    raw: bytes
    webhook: Webhook


class WebhookProgress(NamedTuple):
    """A webhook and how far it is. `at`, `behind`: None where its place is lost, as after a rebuild: a gap is told."""

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
        """`networks`: those that may be called although they are not public."""
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
        """Tell a URL what changes from now on; with its secret, which is told this once.

        The same Idempotency-Key answers the same webhook while it is there. Errors: BadRequest for a URL or secret that
        cannot be used; UnknownGraph; IdempotencyKeyReused; WebhookLimitReached.
        """
        refuse_private(check_url(url).host, self._networks)
        wanted_of(kinds, graphs, (), known)
        asked = Webhook(
            id=id_, url=url, graphs=tuple(dict.fromkeys(graphs)), kinds=tuple(dict.fromkeys(kinds)),
            secret=checked_secret(secret), created_ms=self._now_ms(), key="" if key is None else _digest(key),
        )  # fmt: skip
        if not asked.key:
            return await self._progress_of((await self._make(asked)).webhook), asked.secret
        made = False
        for _ in range(_REWRITES_MAX):
            claim = await self._notes.get_note(KEYS + asked.key)
            of_key = [kept.webhook for kept in await self.all() if kept.webhook.key == asked.key]
            claimed = next((one for one in of_key if _encode(one.id) == claim), None)
            if claimed is not None:
                if made and claimed.id != id_:
                    with contextlib.suppress(WebhookNotFound):
                        await self.delete(id_)
                return await self._answered(claimed, asked, given=secret is not None)
            if not of_key:
                await self._make(asked)
                made = True
            first = of_key[0].id if of_key else id_
            await self._notes.put_note(KEYS + asked.key, _encode(first), only_if=claim)
        raise Conflict("this Idempotency-Key is used by many at once; try again")

    async def _make(self, asked: Webhook) -> WebhookSlot:
        """Keep it, from the end of the log on."""
        # The place first: without the note it is nobody's, and the note without it would begin with a gap.
        at, keeping = await self._log.end(), Keeping(self._log, group_of(asked.id), self._now_ms)
        await self._log.save(group_of(asked.id), at, {})
        await keeping.keep(at)  # until a worker has taken it up
        try:
            return await self._slot(msgspec.structs.replace(asked, secret=self._secrets.seal(asked.id, asked.secret)))
        except WebhookLimitReached:
            await self.forget_place(asked.id)
            raise

    async def _slot(self, made: Webhook) -> WebhookSlot:
        """Take a free slot; WebhookLimitReached."""
        raw = _encode(made)
        for slot in range(self._webhooks_max):
            if await self._notes.put_note(f"{PREFIX}{slot:05}", raw, only_if=None):
                return WebhookSlot(f"{PREFIX}{slot:05}", raw, made)
        raise WebhookLimitReached(
            f"there are {self._webhooks_max} webhooks; delete one, or raise the setting `webhooks_max`",
            max=self._webhooks_max,
        )

    async def _answered(self, made: Webhook, asked: Webhook, *, given: bool) -> tuple[WebhookProgress, str]:
        """What the request that made it was answered. `given`: whether the secret of this one was."""
        secret = self._secrets.open(made)
        same = (made.url, made.graphs, made.kinds) == (asked.url, asked.graphs, asked.kinds)
        if secret is None or not same or (given and secret != asked.secret):
            raise IdempotencyKeyReused(
                "this Idempotency-Key came with other content before; use a new key for another webhook"
            )
        return await self._progress_of(made), secret

    async def all(self) -> list[WebhookSlot]:
        """Every webhook, as it stands, oldest first."""
        notes = await self._notes.notes(PREFIX)
        found = [WebhookSlot(key, raw, _decode(raw)) for key, raw in notes.items()]
        return sorted(found, key=lambda kept: kept.webhook.id)

    async def progress_of_all(self) -> list[WebhookProgress]:
        """Every webhook and how far it is, oldest first."""
        return [await self._progress_of(kept.webhook) for kept in await self.all()]

    async def progress_of(self, id_: int) -> WebhookProgress:
        """A webhook and how far it is; WebhookNotFound."""
        return await self._progress_of((await self._found(id_)).webhook)

    async def delete(self, id_: int) -> None:
        """End a webhook; a delivery that is on its way may still arrive. Its dead letters go first. WebhookNotFound."""
        for _ in range(_REWRITES_MAX):
            kept = await self._found(id_)
            await self._log.forget(group_of(id_))
            if await self._keep(kept, None):
                if kept.webhook.key:
                    await self._notes.put_note(KEYS + kept.webhook.key, None, only_if=_encode(id_))
                await self.forget_place(id_)
                return
        raise Conflict(f"webhook {id_} is being changed by many at once; try again", id=str(id_))

    async def dead(self, id_: int, limit: int = DEAD_MAX) -> list[Failure]:
        """The changes that were given up, as the log holds them, `limit` at most; WebhookNotFound."""
        await self._found(id_)
        return [one for one in await self._log.failures(group_of(id_), limit) if one.dead]

    async def replay(self, id_: int) -> int:
        """Have all dead letters sent once more by the worker, beside what is new; how many. WebhookNotFound."""
        found = await self.dead(id_)
        revived = {one.event.log_position: msgspec.structs.replace(one, dead=False, next_try_ms=0) for one in found}
        if revived:
            await self._log.save(group_of(id_), None, revived)
        return len(revived)

    # For the worker.

    async def reread(self, kept: WebhookSlot) -> WebhookSlot | None:
        """A webhook as it is now; None if it was ended."""
        raw = await self._notes.get_note(kept.key)
        if raw is None:
            return None
        found = _decode(raw)
        return WebhookSlot(kept.key, raw, found) if found.id == kept.webhook.id else None

    async def save_standing(self, kept: WebhookSlot, standing: DeliveryStanding) -> WebhookSlot | None:
        """Keep how deliveries stand; None, and nothing kept, if the webhook was changed since it was read."""
        if kept.webhook.standing == standing:
            return kept
        raw = _encode({**msgspec.json.decode(kept.raw), "standing": standing})  # so fields of a newer Kith stay
        return WebhookSlot(kept.key, raw, _decode(raw)) if await self._keep(kept, raw) else None

    async def _keep(self, kept: WebhookSlot, raw: bytes | None) -> bool:
        """Put another in its slot, or none; whether it was as it was read."""
        return await self._notes.put_note(kept.key, raw, only_if=kept.raw)

    async def forget_place(self, id_: int) -> None:
        """Forget how far one was that is ended, and its dead letters, and keep the log for it no more."""
        await self._log.release(group_of(id_))
        await self._log.forget(group_of(id_))

    async def _found(self, id_: int) -> WebhookSlot:
        for kept in await self.all():
            if kept.webhook.id == id_:
                return kept
        raise WebhookNotFound(f"there is no webhook {id_}; GET /webhooks lists them", id=str(id_))

    async def _progress_of(self, webhook: Webhook) -> WebhookProgress:
        group = group_of(webhook.id)
        progress = await self._log.progress(group)
        dead = len([one for one in await self._log.failures(group) if one.dead])
        at, behind = (None, None) if progress is None else progress
        return WebhookProgress(webhook, at, behind, dead)


def _digest(key: str) -> str:
    """What stands for an Idempotency-Key; BadRequest for one that cannot be."""
    check_key(key)
    return hashlib.blake2b(key.encode(), digest_size=16).hexdigest()
