"""/webhooks: sends changes to URLs of the app. Server keys only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from kith.api.answers import CountAnswer, Time
from kith.api.call import Call
from kith.api.operations import delete, get, post
from kith.api.parameters import Id, IdempotencyKey
from kith.api.presenter import time_of
from kith.core.ids import NodeId
from kith.graph.graphs import Graphs
from kith.watch.watch import Watch
from kith.webhooks.webhooks import WebhookProgress, Webhooks

DEAD_SHOWN_MAX = 100
DeadLimit = Annotated[int | None, Meta(ge=1, le=DEAD_SHOWN_MAX, description=f"How many, 1 to {DEAD_SHOWN_MAX}.")]


class WebhookRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A new webhook. `graphs` and `kinds` filter as for /watch. `secret` signs deliveries; Kith makes one if it is left
    out.
    """

    url: str
    graphs: list[str] = []
    kinds: list[str] = []
    secret: str | None = None


class WebhookState(msgspec.Struct, frozen=True, rename="camel"):
    """The state of its deliveries. `place`: changes up to this token of /watch are delivered; null if the position was
    lost, and the next delivery reports a gap.

    `eventsBehind`: events of the log after `place`, whether they match or not. `gap`: some events were deleted from the
    log before they were delivered. `failures`: failed attempts in a row. `lastStatus`, `lastError`: of the last
    attempt. `resting`: the host failed so often that it is not tried before `nextTryAt`.
    """

    place: str | None
    events_behind: int
    gap: bool
    failures: int
    last_status: int | None
    last_error: str
    resting: bool
    next_try_at: Time | None
    dead_letters: int


class WebhookAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """A webhook. Its secret is not returned."""

    id: str
    url: str
    graphs: list[str]
    kinds: list[str]
    created_at: Time
    state: WebhookState


class WebhookMade(WebhookAnswer, frozen=True, kw_only=True, rename="camel"):
    """A new webhook with its secret, which is returned only here."""

    secret: str


class WebhooksAnswer(msgspec.Struct, frozen=True):
    """All webhooks, oldest first."""

    webhooks: list[WebhookAnswer]


class DeadLetter(msgspec.Struct, frozen=True, rename="camel"):
    """A change whose delivery was given up. `change`: as /watch sends it."""

    change: dict[str, Any]
    tries: int
    error: str
    failed_at: Time


class DeadLetters(
    msgspec.Struct,
    frozen=True,
):
    """Dead letters, oldest first. `count`: how many there are in all."""

    letters: list[DeadLetter]
    count: int


class WebhooksResource:
    """Webhooks. `next_id`: makes ids."""

    def __init__(self, webhooks: Webhooks, graphs: Graphs, next_id: Callable[[], NodeId], watch: Watch) -> None:
        self._webhooks, self._graphs, self._next_id, self._watch = webhooks, graphs, next_id, watch

    @post("/webhooks", "Have changes sent to a URL", callers="server", status=201)
    async def create_webhook(
        self, call: Call, body: WebhookRequest, idempotency_key: IdempotencyKey = None
    ) -> WebhookMade:
        """From now on, changes that /watch would send are POSTed to the URL. Deliveries are signed with the secret,
        arrive at least once and in order per key, and are retried for hours if they fail. Answer 2xx within 15 seconds.
        The URL must be public; redirects are not followed. docs/webhooks.md shows how to check the signature.
        """
        progress, secret = await self._webhooks.create(
            self._next_id(), body.url, graphs=body.graphs, kinds=body.kinds, known=self._graphs, secret=body.secret,
            key=idempotency_key,
        )  # fmt: skip
        answer = self._answer(progress)
        return WebhookMade(**msgspec.structs.asdict(answer), secret=secret)

    @get("/webhooks", "All webhooks", callers="server")
    async def webhooks(self, call: Call) -> WebhooksAnswer:
        """Oldest first."""
        return WebhooksAnswer([self._answer(progress) for progress in await self._webhooks.progress_of_all()])

    @get("/webhooks/{webhook_id}", "A webhook, and the state of its deliveries", callers="server")
    async def webhook(self, call: Call, webhook_id: Id) -> WebhookAnswer:
        """The secret is not returned."""
        return self._answer(await self._webhooks.progress_of(webhook_id))

    @delete("/webhooks/{webhook_id}", "Delete a webhook", callers="server", status=204)
    async def delete_webhook(self, call: Call, webhook_id: Id) -> None:
        """A delivery that is already on its way may still arrive. The webhook's dead letters are deleted."""
        await self._webhooks.delete(webhook_id)

    @get("/webhooks/{webhook_id}/dead", "Dead letters of a webhook", callers="server")
    async def webhook_dead_letters(self, call: Call, webhook_id: Id, limit: DeadLimit = None) -> DeadLetters:
        """Deliveries that failed for `webhook_retry_hours` and were given up, so that later changes could be
        delivered.
        """
        failures = await self._webhooks.dead(webhook_id)
        changes = await self._watch.changes_of([failure.event for failure in failures[: limit or DEAD_SHOWN_MAX]])
        letters = [
            DeadLetter(
                msgspec.json.decode(msgspec.json.encode(change)),
                failure.tries,
                failure.error,
                time_of(failure.failed_at_ms),
            )
            for change, failure in zip(changes, failures, strict=False)
        ]
        return DeadLetters(letters, len(failures))

    @post("/webhooks/{webhook_id}/replay", "Replay dead letters", callers="server")
    async def replay_webhook(self, call: Call, webhook_id: Id) -> CountAnswer:
        """Sends every dead letter once, beside new changes, marked `replayed`. Deliveries that fail become dead letters
        again. `count`: how many are sent.
        """
        return CountAnswer(await self._webhooks.replay(webhook_id))

    def _answer(self, progress: WebhookProgress) -> WebhookAnswer:
        webhook, standing = progress.webhook, progress.webhook.standing
        state = WebhookState(
            None if progress.at is None else self._watch.token(progress.at),
            0 if progress.behind is None else progress.behind.events,
            standing.gap or progress.behind is None or progress.behind.lost,
            standing.failures,
            standing.status,
            standing.error,
            standing.resting,
            time_of(standing.next_try_ms) if standing.next_try_ms else None,
            progress.dead,
        )
        names = list(webhook.graphs), list(webhook.kinds)
        return WebhookAnswer(str(webhook.id), webhook.url, *names, time_of(webhook.created_ms), state)
