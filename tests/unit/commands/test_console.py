"""What progress says."""

from __future__ import annotations

from kith.commands.console import Rate


def test_a_rate_is_of_what_this_run_did_and_is_not_told_before_it_means_something() -> None:
    now = [100.0]
    rate = Rate(5_000_000, lambda: now[0])
    now[0] += 0.000_01
    assert rate.of(5_006_084) == ""
    now[0] = 102.0
    assert rate.of(5_006_000) == ", 3,000/s"
