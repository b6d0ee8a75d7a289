"""The log is retained for webhooks that have not read it, and events that were dropped unread are sent as a gap."""

from __future__ import annotations

import asyncio
from typing import Any, get_type_hints

import msgspec
import pytest
from cast import START_MS
from webhook_world import GAP, URL, Play, WebhookWorld, deliveries, in_order, until

from kith.core.errors import WebhookLimitReached
from kith.run.config import Settings
from kith.webhooks import delivery, webhooks
from kith.webhooks.webhook import Webhook, group_of

PORT = "logs"


def test_the_log_is_retained_for_a_webhook_whose_endpoint_is_down(play: Play) -> None:
    async def scene(world: WebhookWorld) -> None:
        seen = await world.create()
        world.app.answer = lambda _: 500
        await world.write(10)

        async def kept() -> list[str]:
            return [lease.name for lease in await world.log.leases()]

        async with world.working():
            await until(kept)
            await world.write(600)
        async with world.working():  # another process sends what the first one did not
            world.app.answer = lambda _: 200
            await until(lambda: len(world.app.numbers()) >= 610)
            assert sorted(world.app.numbers()) == list(range(1, 611))
            assert GAP not in [change for sent in world.app.taken for change in sent.body["changes"]]
            await world.webhooks.delete(seen.webhook.id)
            await until(lambda: not deliveries())
        assert await kept() == []

    play(scene, events_max=60, give_up_ms=10**12)


def test_the_log_is_retained_from_the_creation_of_a_webhook(play: Play) -> None:
    async def scene(world: WebhookWorld) -> None:
        seen = await world.create()
        await world.write(600)
        async with world.working():
            await until(lambda: len(world.app.numbers()) >= 600)
        assert in_order(world.app.numbers())
        assert GAP not in [change for sent in world.app.taken for change in sent.body["changes"]]
        await world.create("https://second.example/")
        await world.create("https://third.example/")
        with pytest.raises(WebhookLimitReached):
            await world.create("https://fourth.example/")
        await world.webhooks.delete(seen.webhook.id)
        assert len(await world.log.leases()) == 2

    play(scene, events_max=60)


def test_as_many_webhooks_as_the_setting_allows_retain_the_log_and_so_may_others(play: Play) -> None:
    (most,) = {one.le for one in get_type_hints(Settings, include_extras=True)["webhooks_max"].__metadata__ if one.le}

    async def scene(world: WebhookWorld) -> None:
        for number in range(most):
            await world.create(f"https://app{number}.example/")
        assert await world.log.lease("standby/second", await world.log.end())
        assert len(await world.log.leases()) == most + 1

    play(scene, webhooks_max=most)


def test_events_that_were_dropped_unread_are_sent_as_one_gap(play: Play) -> None:
    async def scene(world: WebhookWorld) -> None:
        seen = await world.create()
        world.app.answer = lambda _: 500
        async with world.working():
            await world.write(20)
            await until(lambda: world.app.got)
        await world.log.release(group_of(seen.webhook.id))  # as when the lease is too old, or retains too much
        await world.write(600)
        world.app.answer = lambda _: 200
        async with world.working():
            await until(lambda: 620 in world.app.numbers())
            await world.write(5)
            await until(lambda: 625 in world.app.numbers())
        changes = [change for sent in world.app.taken for change in sent.body["changes"]]
        assert changes[0] == GAP
        assert changes.count(GAP) == 1
        assert len(world.app.numbers()) < 625
        assert in_order(world.app.numbers())

    play(scene, events_max=60, give_up_ms=1)


def test_a_webhook_whose_position_is_lost_resumes_from_now_and_sends_a_gap(play: Play) -> None:
    """As after `kith rebuild`: its note is in the log, its position is not."""

    async def scene(world: WebhookWorld) -> None:
        seen = await world.create()
        await world.webhooks.delete(seen.webhook.id)
        strange = Webhook(
            id=99, url=URL, graphs=("follows",), kinds=(),
            secret=world.secrets.seal(99, "whsec_of-another-life"), created_ms=START_MS,
        )  # fmt: skip
        await world.write(10)
        await world.edges.put_note(f"{webhooks.PREFIX}00000", msgspec.json.encode(strange))
        async with world.working():
            await until(lambda: world.app.taken)
            await world.write(5)
            await until(lambda: len(world.app.numbers()) == 5)
        assert world.app.taken[0].body["changes"] == [GAP]
        assert sorted(world.app.numbers()) == [11, 12, 13, 14, 15]

    play(scene)


def test_a_webhook_that_wants_nothing_of_a_long_history_yields_and_saves_its_position(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "READ_MAX", 4)

    async def scene(world: WebhookWorld) -> None:
        seen = await world.create(graphs=[], kinds=["profile"])
        await world.write(110)
        turns, at_read = 0, []
        saved = []
        read = world.log.read

        async def noted(*arguments: Any) -> Any:
            at_read.append(turns)
            saved.append((await world.state(seen)).at)
            return await read(*arguments)

        monkeypatch.setattr(world.log, "read", noted)
        async with world.working():
            while len(at_read) < 25:
                await asyncio.sleep(0)
                turns += 1
        assert len(set(at_read[:25])) == 25, "other tasks run between two reads"
        assert len(set(saved)) > 1, "its position advances meanwhile"

    play(scene)
