"""The rate that progress shows."""

from __future__ import annotations

from kith.commands.console import Rate


def test_a_rate_covers_this_run_only_and_is_empty_until_it_is_meaningful() -> None:
    now = [100.0]
    rate = Rate(5_000_000, lambda: now[0])
    now[0] += 0.000_01
    assert rate.of(5_006_084) == ""
    now[0] = 102.0
    assert rate.of(5_006_000) == ", 3,000/s"
