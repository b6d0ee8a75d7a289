"""Peers are timed as the load generator times Kith."""

from __future__ import annotations

import asyncio

import pytest

from bench import peers


def test_calls_of_the_warm_up_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first calls prepare statements and fill caches."""
    monkeypatch.setattr(peers, "_WARM_S", 0.05)
    monkeypatch.setattr(peers, "SECONDS", 0.05)
    calls = 0

    async def ask() -> None:
        nonlocal calls
        calls += 1
        await asyncio.sleep(0.001)

    rate = asyncio.run(peers.asked_rate([ask]))
    assert 0 < rate * peers.SECONDS < calls


def test_callers_run_concurrently(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "_WARM_S", 0.0)
    monkeypatch.setattr(peers, "SECONDS", 0.1)
    here, most = 0, 0

    async def ask() -> None:
        nonlocal here, most
        here += 1
        most = max(most, here)
        await asyncio.sleep(0.01)
        here -= 1

    asyncio.run(peers.asked_rate([ask] * 7))
    assert most == 7
