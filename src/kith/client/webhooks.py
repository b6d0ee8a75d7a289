"""Calls about webhooks: URLs of your app to which the service sends changes. All need a server key.

As in `graphs`, nothing is sent here.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from kith.client.answers import Id, Record
from kith.client.asking import BASE, checked_id, nothing, once, reader, several
from kith.client.wire import Call


class WebhookState(Record, frozen=True, kw_only=True):
    """The state of a webhook's deliveries.

    `place`: the `watch` token up to which changes were delivered; None: it was lost, and the webhook is sent a `gap`.
    `events_behind`: later events of the log, wanted or not. `gap`: a gap is still to be delivered. `failures`: failed
    tries in a row; `last_status` and `last_error` are of the last try. `resting`: the host failed so often that it is
    not tried before `next_try_at`.
    """

    place: str | None = None
    events_behind: int = 0
    gap: bool = False
    failures: int = 0
    last_status: int | None = None
    last_error: str = ""
    resting: bool = False
    next_try_at: datetime | None = None
    dead_letters: int = 0


class Webhook(Record, frozen=True, kw_only=True):
    """A webhook. `graphs` and `kinds`: the changes that it gets; empty: all."""

    id: int
    url: str
    graphs: list[str]
    kinds: list[str]
    created_at: datetime
    state: WebhookState


class NewWebhook(Webhook, frozen=True, kw_only=True):
    """A new webhook. `secret`: signs its deliveries; it is returned only here."""

    secret: str


class DeadLetter(Record, frozen=True, kw_only=True):
    """A change that could not be delivered to a webhook. `change`: as `watch` reports it."""

    change: dict[str, Any]
    tries: int
    error: str
    failed_at: datetime


class DeadLetters(Record, frozen=True, kw_only=True):
    """A webhook's oldest dead letters, oldest first. `count`: how many there are in all."""

    letters: list[DeadLetter]
    count: int


class _Count(Record, frozen=True, kw_only=True):
    count: int


class _Webhooks(Record, frozen=True, kw_only=True):
    webhooks: list[Webhook]


_PATH = f"{BASE}/webhooks"
_webhook = reader(Webhook)
_made = reader(NewWebhook)
_all = reader(_Webhooks)
_dead = reader(DeadLetters)
_count = reader(_Count)


def create_webhook(
    url: str,
    *,
    graphs: Iterable[str] = (),
    kinds: Iterable[str] = (),
    secret: str | None = None,
    key: str | None = None,
) -> Call[NewWebhook]:
    """Send changes from now on to a public URL of your app. This and the next five calls need a server key.

    `graphs` and `kinds` as in `watch`. `secret`: signs the deliveries; random by default. `key`: the idempotency key;
    random by default. The same key creates one webhook, however often it is sent.
    """
    body: dict[str, Any] = {"url": url, "graphs": [*several(graphs, "graphs")], "kinds": [*several(kinds, "kinds")]}
    return Call("POST", _PATH, _made, body=body if secret is None else {**body, "secret": secret}, headers=once(key))


def webhooks() -> Call[list[Webhook]]:
    """All webhooks, oldest first."""
    return Call("GET", _PATH, _listed)


def webhook(id: Id) -> Call[Webhook]:
    """A webhook and the state of its deliveries."""
    return Call("GET", _path(id), _webhook)


def delete_webhook(id: Id) -> Call[None]:
    """Delete a webhook. A delivery that is already on its way may still arrive."""
    return Call("DELETE", _path(id), nothing, deletes=True)


def webhook_dead_letters(id: Id, *, limit: int | None = None) -> Call[DeadLetters]:
    """The changes that could not be delivered to a webhook within `webhook_retry_hours`; at most 100 in a call."""
    return Call("GET", f"{_path(id)}/dead", _dead).asking(limit=limit)


def replay_webhook(id: Id) -> Call[int]:
    """Send all dead letters of a webhook again; returns how many."""
    return Call("POST", f"{_path(id)}/replay", _counted)


def _path(id_: Id) -> str:
    return f"{_PATH}/{checked_id(id_, 'webhook')}"


def _listed(content: bytes) -> list[Webhook]:
    return _all(content).webhooks


def _counted(content: bytes) -> int:
    return _count(content).count
