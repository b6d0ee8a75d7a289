"""What a user sets while their account is removed is not kept: the removal forgets only what came before."""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from cast import ALICE, SECRET
from coroutines import Run, answer
from reference_edges import ReferenceEdges
from services import Services

from kith.api.resources.devices import DeviceRequest, DevicesResource
from kith.api.resources.preferences import PreferencesRequest, PreferencesResource
from kith.core.errors import Forbidden
from kith.graph.edge import State
from kith.notifications.preferences import DEFAULT, PreferenceStore
from kith.notifications.push.device import Offer
from kith.notifications.push.devices import Devices
from kith.people.accounts import check_not_removed

CALL: Any = SimpleNamespace(acting_user=ALICE, note_write=lambda _: None)
DEVICE = DeviceRequest(kind="fcm", token="a" * 40)
OFFER = Offer(frozenset({"fcm"}), None, ())


@pytest.mark.parametrize("what", ["a device", "preferences"])
def test_what_is_set_while_the_account_is_removed_is_not_kept(
    run: Run, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    async def scene() -> None:
        kith = await Services.over(ReferenceEdges())
        put, check = kith.records.put, partial(check_not_removed, kith.edges)
        devices = Devices(kith.records, kith.graph.clock, SECRET)
        preferences = PreferenceStore(kith.records, kith.graph.clock)

        async def overtaken(*written: Any, **named: Any) -> Any:
            monkeypatch.setattr(kith.records, "put", put)
            await kith.edges.change_node(ALICE, state=State.REMOVED)
            return await put(*written, **named)

        monkeypatch.setattr(kith.records, "put", overtaken)
        setting: Awaitable[object]
        if what == "a device":
            setting = DevicesResource(devices, OFFER, kith.snowflakes.next, check).add_device(CALL, DEVICE)
        else:
            setting = PreferencesResource(preferences, check).put_preferences(CALL, PreferencesRequest(mentions="none"))
        assert await answer(setting) is Forbidden
        assert await devices.of([ALICE]) == {ALICE: []}
        assert await preferences.of(ALICE) == DEFAULT

    run(scene())
