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
    one, other = [EmbeddedFanoutState(environment, edges._commits, "fanout") for _ in range(2)]
    assert list(run(other.snapshot()).deliveries) == []
    run(one.deliver(Delivery(5, ALICE)))
    run(one.withhold({ALICE: 4}))
    assert list(run(other.snapshot()).deliveries) == [Delivery(5, ALICE)]
    assert run(other.snapshot()).withheld.rate_of(ALICE) == 4
    run(other.end_delivery(5))
    run(other.withhold({BOB: 2}))
    assert list(run(one.snapshot()).deliveries) == []
    assert run(one.snapshot()).withheld.rate_of(BOB) == 2
    run(one.withhold({BOB: 1}))  # which changes nothing
    monkeypatch.setattr(fanout_state, "_rows", None)
    assert run(one.snapshot()).withheld.rate_of(BOB) == 2
