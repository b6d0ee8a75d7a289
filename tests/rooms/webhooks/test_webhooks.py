"""Webhooks are created and deleted: bounds, idempotency keys, refusals, and what is left of them."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import msgspec
import pytest
import structlog
from coroutines import answer
from webhook_world import Play, WebhookWorld, deliveries, until

from kith.core.errors import BadRequest, IdempotencyKeyReused, WebhookLimitReached, WebhookNotFound
from kith.webhooks.next_step import TRIES_MIN, DeliveryStanding
from kith.webhooks.webhook import Webhook, group_of
from kith.webhooks.webhooks import KEYS, PREFIX, WebhookSlot

PORT = "logs"


def test_a_deleted_webhook_gets_nothing_more_and_frees_its_slot(play: Play) -> None:
    async def scene(world: WebhookWorld) -> None:
        first = await world.create("https://first.example/")
        await world.create()
        async with world.working():
            await world.write(5)
            await until(lambda: len(world.app.numbers("https://first.example/")) == 5)
            await world.webhooks.delete(first.webhook.id)
            await world.write(30)
            await until(lambda: len(world.app.numbers()) == 35)
            await asyncio.sleep(0)
            ended = len(world.app.numbers("https://first.example/"))
            await world.write(10)
            await until(lambda: len(world.app.numbers()) == 45)
            assert len(world.app.numbers("https://first.example/")) == ended
        assert await answer(world.webhooks.progress_of(first.webhook.id)) is WebhookNotFound
        assert await world.log.progress(group_of(first.webhook.id)) is None
        await world.create()
        await world.create()

    play(scene)


def test_fields_that_a_newer_kith_stored_are_kept_when_deliveries_fail(play: Play) -> None:
    async def scene(world: WebhookWorld) -> None:
        seen = await world.create()
        ((key, raw),) = (await world.edges.notes(PREFIX)).items()
        newer = {"newer": ["of a newer Kith", {"and": 7}]}
        await world.edges.put_note(key, msgspec.json.encode({**msgspec.json.decode(raw), **newer}))
        world.app.answer = lambda _: refusing()
        await world.write(1)
        async with world.working():
            await until(lambda: len(world.app.got) > 1)
        assert (await world.webhooks.progress_of(seen.webhook.id)).webhook.standing.failures
        stored = msgspec.json.decode((await world.edges.notes(PREFIX))[key])
        assert {name: stored[name] for name in newer} == newer

    async def refusing() -> int:
        return 500

    play(scene)


def test_nothing_is_left_of_a_webhook_that_is_deleted_while_it_gives_up(play: Play) -> None:
    async def scene(world: WebhookWorld) -> None:
        seen = await world.create()
        group = group_of(seen.webhook.id)

        async def ended_at_the_last_try() -> int:
            if (await world.webhooks.progress_of(seen.webhook.id)).webhook.standing.failures + 1 == TRIES_MIN:
                save = world.webhooks.save_standing

                async def then_ended(*arguments: Any) -> Any:
                    found = await save(*arguments)
                    await world.webhooks.delete(seen.webhook.id)
                    return found

                cast(Any, world.webhooks).save_standing = then_ended
            return 500

        world.app.answer = lambda _: ended_at_the_last_try()
        await world.write(1)
        async with world.working():
            await until(lambda: len(world.app.got) == TRIES_MIN)
            await until(lambda: not deliveries())
        assert not await world.log.failures(group)
        assert await world.log.progress(group) is None
        assert not await world.log.leases()

    play(scene, give_up_ms=1)


def test_the_bound_on_webhooks_holds_for_concurrent_requests(play: Play) -> None:
    async def scene(world: WebhookWorld) -> None:
        made = await asyncio.gather(*(answer(world.create()) for _ in range(6)))
        assert sum(one is WebhookLimitReached for one in made) == 3
        assert len(await world.webhooks.all()) == 3

    play(scene)


def test_concurrent_requests_with_one_idempotency_key_make_one_webhook(play: Play) -> None:
    async def scene(world: WebhookWorld) -> None:
        made = await asyncio.gather(*(world.made(key="k") for _ in range(6)))  # twice the bound on webhooks
        (kept,) = await world.webhooks.all()
        assert {(seen.webhook.id, secret) for seen, secret in made} == {
            (kept.webhook.id, world.secrets.open(kept.webhook))
        }
        assert await answer(world.made("https://other.example/", key="k")) is IdempotencyKeyReused
        assert await answer(world.made(key="k", secret="another secret of mine")) is IdempotencyKeyReused
        await world.webhooks.delete(kept.webhook.id)
        assert (await world.create(key="k")).webhook.id != kept.webhook.id

    play(scene)


@pytest.mark.parametrize("key", ["", "é", "a\tb", "x" * 201], ids=["empty", "no ASCII", "not printable", "too long"])
def test_a_key_that_other_requests_refuse_is_refused_here_too(play: Play, key: str) -> None:
    async def scene(world: WebhookWorld) -> None:
        assert await answer(world.made(key=key)) is BadRequest
        assert await world.webhooks.all() == []

    play(scene)


def test_the_second_webhook_of_one_key_is_removed_though_a_worker_took_it_up(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two requests made one each, and the first claimed the key. A worker then saved the standing of the second."""

    async def scene(world: WebhookWorld) -> None:
        hooks, make = world.webhooks, world.webhooks._store_new

        async def make_both(asked: Webhook) -> WebhookSlot:
            mine, other = await make(asked), await make(msgspec.structs.replace(asked, id=10_000))
            await world.edges.put_note(KEYS + asked.key, b"10000", only_if=None)
            assert await hooks.save_standing(mine, DeliveryStanding(status=200))
            return other

        monkeypatch.setattr(hooks, "_store_new", make_both)
        seen, _ = await world.made(key="k")
        assert [seen.webhook.id] == [one.webhook.id for one in await hooks.all()] == [10_000]

    play(scene)


@pytest.mark.parametrize(
    "asked", [{"url": "app"}, {"url": "https://me:x@app.example"}, {"secret": "short"}, {"secret": "ü" * 20},
              {"kinds": ["likes"]}, {"key": "k" * 201}]
)  # fmt: skip
def test_an_invalid_webhook_is_refused(play: Play, asked: dict[str, Any]) -> None:
    async def scene(world: WebhookWorld) -> None:
        assert await answer(world.made(**asked)) is BadRequest
        assert not await world.webhooks.all()

    play(scene)


def test_no_secret_is_stored_readable_or_logged(play: Play) -> None:
    async def scene(world: WebhookWorld) -> None:
        _, secret = await world.made(secret="whsec_a-secret-of-this-test")
        notes = await world.edges.notes("webhook")
        assert secret.encode() not in b"".join(notes.values())
        world.app.answer = lambda _: 500
        await world.write(3)
        with structlog.testing.capture_logs() as logged:
            async with world.working():
                await until(lambda: len(world.app.got) > 2)
        assert logged
        assert secret not in repr(logged)
        assert "secret-path" not in repr(logged)

    play(scene)
