"""Fields of a newer Kith survive changes by this one: in outcomes, devices, owed notices, recent mentions, walks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from cast import ALICE
from coroutines import Run
from notification_world import NotificationWorld
from push_world import PushWorld

from kith.core.clock import Hlc
from kith.core.signing import Signer
from kith.notifications.outcomes import Outcomes, TierOutcome
from kith.notifications.recent import Shard
from kith.notifications.tiers import Tier
from kith.notifications.walks import EndedWalk, Walk, Walks
from kith.records.store import RecordKind, RecordStore

NEWER = ["of a newer Kith", {"and": 7}]


async def fields(records: RecordStore, kind: RecordKind, id_: int) -> Any:
    (stored,) = await records.get_many(kind, [id_])
    assert stored is not None
    return msgspec.msgpack.decode(stored.data)


async def as_newer(records: RecordStore, kind: RecordKind, id_: int, change: Callable[[bytes], bytes]) -> None:
    """Rewrite a record as a newer Kith would."""
    (stored,) = await records.get_many(kind, [id_])
    assert stored is not None
    newer = msgspec.structs.replace(stored, data=change(stored.data), updated_at=Hlc(stored.updated_at + 1))
    await records.put([newer])


def longer(data: bytes) -> bytes:
    return msgspec.msgpack.encode([*msgspec.msgpack.decode(data), *NEWER])


def each_longer(data: bytes) -> bytes:
    return msgspec.msgpack.encode([[*one, *NEWER] for one in msgspec.msgpack.decode(data)])


def test_outcomes_of_other_tiers_keep_their_newer_fields(run: Run, world: NotificationWorld) -> None:
    async def scenario() -> None:
        records, notice = world.whole.records, 77
        outcomes = Outcomes(records, world.services.graph.clock)
        for tier in (Tier.DAY, Tier.MONTH):
            await outcomes.note(EndedWalk(Walk(notice, ALICE, tier, 1, told=5)))
        await as_newer(records, RecordKind.MENTION_OUTCOME, notice, each_longer)
        await outcomes.note(EndedWalk(Walk(notice, ALICE, Tier.MONTH, 1, told=9)))
        await outcomes.note(EndedWalk(Walk(notice, ALICE, Tier.ALL, 1, told=1)))
        stored = await fields(records, RecordKind.MENTION_OUTCOME, notice)
        assert [one[-2:] == NEWER for one in stored] == [True, True, False]
        told = [(one.tier, one.told) for one in (await outcomes.of([notice]))[0]]
        assert told == [(Tier.DAY, 5), (Tier.MONTH, 9), (Tier.ALL, 1)]
        assert isinstance((await outcomes.of([notice]))[0][0], TierOutcome)

    run(scenario())


def test_devices_keep_their_newer_fields_when_another_one_comes_or_goes(run: Run, push_world: PushWorld) -> None:
    async def scenario() -> None:
        records, bound, signer = push_world.world.posts.store, ALICE.to_bytes(8, "big"), push_world.devices._signer
        kept, gone = [await push_world.add(ALICE, name=name) for name in ("the phone", "the tablet")]
        await as_newer(records, RecordKind.DEVICES, ALICE, lambda data: sealed(signer, bound, data, each_longer))
        new = await push_world.add(ALICE, name="the watch")
        await push_world.devices.prune(ALICE, gone)
        (stored,) = await records.get_many(RecordKind.DEVICES, [ALICE])
        assert stored is not None
        opened = signer.open(stored.data.decode(), bound)
        assert opened is not None
        found = {one[0]: one[-2:] == NEWER for one in msgspec.msgpack.decode(opened)}
        assert found == {kept.id: True, new.id: False}
        assert (await push_world.devices.of([ALICE]))[ALICE] == [kept, new]

    run(scenario())


def sealed(signer: Signer, bound: bytes, data: bytes, change: Callable[[bytes], bytes]) -> bytes:
    opened = signer.open(data.decode(), bound)
    assert opened is not None
    return signer.seal(change(opened), bound).encode()


def test_the_list_of_recent_mentions_keeps_its_newer_fields(run: Run, world: NotificationWorld) -> None:
    async def scenario() -> None:
        records, recent = world.posts.store, world.recent
        now = world.services.snowflakes.next
        await recent._add(3, [(19, now())])
        await as_newer(records, RecordKind.RECENT_MENTIONS, 3, longer)
        await recent._add(3, [(35, now())])
        (stored,) = await records.get_many(RecordKind.RECENT_MENTIONS, [3])
        assert stored is not None
        assert msgspec.msgpack.decode(stored.data)[-2:] == NEWER
        assert msgspec.msgpack.decode(stored.data, type=Shard).mentions.keys() == {19, 35}

    run(scenario())


def test_a_walk_that_a_newer_kith_began_continues_and_keeps_its_newer_fields(
    run: Run, world: NotificationWorld
) -> None:
    async def scenario() -> None:
        notes = world.services.edges
        kept, walk = Walks(notes), Walk(5, ALICE, Tier.DAY, 3)
        await kept.begin([walk])
        raw = await notes.get_note(walk.key)
        assert raw is not None
        await notes.put_note(walk.key, longer(raw))
        further = msgspec.structs.replace(walk, done=1, told=7)
        assert await kept.step(walk, further)
        raw = await notes.get_note(walk.key)
        assert raw is not None
        assert msgspec.msgpack.decode(raw)[-2:] == NEWER
        assert await kept.current(walk) == further
        assert await kept.step(further, None)

    run(scenario())


def test_notices_owed_to_a_device_keep_their_newer_fields(run: Run, push_world: PushWorld) -> None:
    async def scenario() -> None:
        notes, owed = push_world.owed._notes, push_world.owed
        await owed.add(7, ALICE, [1, 2], 0, 0)
        raw = await notes.get_note("push-owed/7")
        assert raw is not None
        await notes.put_note("push-owed/7", msgspec.json.encode([*msgspec.json.decode(raw), *NEWER]))
        await owed.add(7, ALICE, [3], 0, 0)
        (kept,) = await owed.all()
        await owed.settle(kept, [2], 0)
        raw = await notes.get_note("push-owed/7")
        assert raw is not None
        assert msgspec.json.decode(raw)[-2:] == NEWER
        assert [one.pending.notices for one in await owed.all()] == [(2,)]

    run(scenario())
