"""What a primary sends its standbys: after a failure in its own process, and while nothing is written."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from cast import ALICE
from coroutines import Run
from edges import edge_of, writes_of
from embedded_engine import open_embedded

from kith.engines.embedded import segments
from kith.engines.embedded.bells import FifoBell
from kith.engines.embedded.environment import Environment
from kith.engines.embedded.shipping import Shipping

WAIT_S = 10.0


def test_a_request_after_a_failed_bell_gets_new_events(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise OSError("the bell broke")

    with open_embedded(tmp_path) as (environment, edges):
        run(edges.declare(["follows"]))

        async def scene() -> bytes | None:
            await edges.apply(writes_of(edge_of(ALICE, 2)))
            last, source = segments.last_event(environment), Shipping(environment)
            try:
                with monkeypatch.context() as broken:
                    broken.setattr(FifoBell, "rung", fail)
                    assert await source.log(last, last, 0.01) is None
                asking = asyncio.create_task(source.log(last, last, WAIT_S))
                await asyncio.sleep(0)
                await edges.apply(writes_of(edge_of(ALICE, 3)))
                return await asking
            finally:
                await source.close()

        assert run(scene()) is not None


def test_a_standby_learns_of_a_revoked_server_key_although_nothing_is_written(tmp_path: Path, run: Run) -> None:
    with open_embedded(tmp_path / "primary") as (primary, edges), Environment(tmp_path / "standby") as standby:
        run(edges.declare(["follows"]))
        run(edges.apply(writes_of(edge_of(ALICE, 2))))
        primary.put_note("server-key/01", b"1")

        async def follow() -> dict[str, bytes]:
            last, source = segments.last_event(standby), Shipping(primary)
            try:
                raw = await source.log(last, last or None, WAIT_S, with_places=True)
            finally:
                await source.close()
            assert raw is not None
            segments.replay(standby, segments.unpack(raw, "the log"))
            return standby.notes("server-key/")

        assert run(follow()) == {"01": b"1"}
        primary.put_note("server-key/01", None)
        assert run(follow()) == {}
