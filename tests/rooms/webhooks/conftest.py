"""A scene over each kind of log."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from coroutines import run_coroutine, without_waits
from engines import Engine
from webhook_world import Play, WebhookWorld

from kith.webhooks import delivery, worker

CHECK_EVERY_S = 0.02
"""Seconds. `without_waits` does not skip waits that end at an event or a deadline, so their deadlines are near."""


@pytest.fixture
def play(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Play:
    """Plays a scene over an empty store, in which time passes without waiting."""
    for module in (delivery, worker):
        monkeypatch.setattr(module, "CHECK_EVERY_S", CHECK_EVERY_S)

    def played(scene: Callable[[WebhookWorld], Awaitable[None]], *, events_max: int = 100_000, **settings: int) -> None:
        async def acted() -> None:
            assert engine.logs is not None
            with engine.logs(tmp_path, events_max=events_max) as logged:
                await logged.edges.declare(["follows"])
                with without_waits():
                    await scene(WebhookWorld(logged, **settings))

        run_coroutine(acted())

    return played
