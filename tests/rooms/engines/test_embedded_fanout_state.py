"""The stored state of fan-out is reloaded where it changed, and only there."""

from __future__ import annotations

import pytest
from cast import ALICE, BOB
from coroutines import Run

from kith.engines.embedded import fanout_state
from kith.engines.embedded.edge_store import EmbeddedEdges
from kith.engines.embedded.environment import Environment
from kith.engines.embedded.fanout_state import EmbeddedFanoutState
from kith.home.fanout.state import Delivery


def test_each_process_sees_the_state_of_another_and_reads_rows_once(
    run: Run, embedded: tuple[Environment, EmbeddedEdges], monkeypatch: pytest.MonkeyPatch
) -> None:
    environment, edges = embedded
    first, second = [EmbeddedFanoutState(environment, edges._commits, "fanout") for _ in range(2)]
    assert list(run(second.snapshot()).deliveries) == []
    run(first.deliver(Delivery(5, ALICE)))
    run(first.withhold({ALICE: 4}))
    assert list(run(second.snapshot()).deliveries) == [Delivery(5, ALICE)]
    assert run(second.snapshot()).withheld.rate_of(ALICE) == 4
    run(second.end_delivery(5))
    run(second.withhold({BOB: 2}))
    assert list(run(first.snapshot()).deliveries) == []
    assert run(first.snapshot()).withheld.rate_of(BOB) == 2
    run(first.withhold({BOB: 1}))  # which changes nothing
    monkeypatch.setattr(fanout_state, "_rows", None)
    assert run(first.snapshot()).withheld.rate_of(BOB) == 2
