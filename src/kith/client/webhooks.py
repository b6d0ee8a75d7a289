"""Calls about webhooks: URLs of your app that are told what changes. They take a server key.

As in `graphs`, nothing is sent.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from kith.client.answers import Id, Record
from kith.client.asking import BASE, checked_id, nothing, once, reader, several
from kith.client.wire import Call


class WebhookState(Record, frozen=True, kw_only=True):
    """How its deliveries stand. `place`: up to where it is told, a token of `watch`; None: lost, and a gap is told.

    `events_behind`: events of the log that follow, wanted or not. `failures`: tries in a row that failed; `last_status`
    and `last_error`: of the last try. `resting`: its host failed so often that it is not tried until `next_try_at`.
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
    """A webhook. `graphs` and `kinds`: what it wants; empty: all."""

    id: int
    url: str
    graphs: list[str]
    kinds: list[str]
    created_at: datetime
    state: WebhookState


class NewWebhook(Webhook, frozen=True, kw_only=True):
    """A webhook that was made. `secret`: what its deliveries are signed with; it is told this once."""

    secret: str


class DeadLetter(Record, frozen=True, kw_only=True):
    """A change that a webhook did not take; `change`: as `watch` tells it."""

    change: dict[str, Any]
    tries: int
    error: str
    failed_at: datetime


class DeadLetters(Record, frozen=True, kw_only=True):
    """Some of them, oldest first; `count`: how many there are."""

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
    """Have what changes from now on sent to a public URL of your app. Takes a server key, as do the next five.

    `graphs` and `kinds` as for `watch`. `secret`: to sign with; one is made if not given. The same `key` makes one
    webhook, however often it is sent; one is made if not given.
    """
    body: dict[str, Any] = {"url": url, "graphs": [*several(graphs, "graphs")], "kinds": [*several(kinds, "kinds")]}
    return Call("POST", _PATH, _made, body=body if secret is None else {**body, "secret": secret}, headers=once(key))


def webhooks() -> Call[list[Webhook]]:
    """All webhooks, oldest first."""
    return Call("GET", _PATH, _listed)


def webhook(id: Id) -> Call[Webhook]:
    """A webhook, and how its deliveries stand."""
    return Call("GET", _path(id), _webhook)


def delete_webhook(id: Id) -> Call[None]:
    """End a webhook; a delivery that is on its way may still arrive."""
    return Call("DELETE", _path(id), nothing, deletes=True)


def webhook_dead_letters(id: Id, *, limit: int | None = None) -> Call[DeadLetters]:
    """What a webhook did not take for `webhook_retry_hours`, 100 changes at most."""
    return Call("GET", f"{_path(id)}/dead", _dead).asking(limit=limit)


def replay_webhook(id: Id) -> Call[int]:
    """Send all dead letters of a webhook once more; how many."""
    return Call("POST", f"{_path(id)}/replay", _counted)


def _path(id_: Id) -> str:
    return f"{_PATH}/{checked_id(id_, 'webhook')}"


def _listed(content: bytes) -> list[Webhook]:
    return _all(content).webhooks


def _counted(content: bytes) -> int:
    return _count(content).count
