"""Quiet hours follow the user's local time, over midnight and across changes of daylight saving time."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from kith.notifications.preferences import QuietHours, is_quiet

BERLIN, NEW_YORK, KOLKATA = "Europe/Berlin", "America/New_York", "Asia/Kolkata"
NIGHT, NOON = (22 * 60, 7 * 60 + 30), (12 * 60, 13 * 60)


def at_ms(time: str, zone: str = "UTC", fold: int = 0) -> int:
    """The moment, in ms, at which a clock in this zone shows this time."""
    there = datetime.fromisoformat(time).replace(tzinfo=ZoneInfo(zone), fold=fold)
    return int(there.timestamp() * 1000)


@pytest.mark.parametrize(
    ("hours", "time", "quiet"),
    [
        (NIGHT, "21:59:59.999", False), (NIGHT, "22:00", True), (NIGHT, "23:59", True), (NIGHT, "00:00", True),
        (NIGHT, "07:29:59.999", True), (NIGHT, "07:30", False), (NIGHT, "12:00", False),
        (NOON, "11:59:59.999", False), (NOON, "12:00", True), (NOON, "12:59:59.999", True), (NOON, "13:00", False),
        ((600, 600), "10:00", False), ((0, 0), "00:00", False),
    ],
)  # fmt: skip
@pytest.mark.parametrize("zone", ["UTC", BERLIN, NEW_YORK, KOLKATA])
def test_quiet_hours_include_their_first_minute_and_exclude_their_last(
    hours: tuple[int, int], time: str, quiet: bool, zone: str
) -> None:
    for day in ("2026-01-15", "2026-07-15"):
        assert is_quiet(QuietHours(*hours, zone), at_ms(f"{day}T{time}", zone)) is quiet


def test_quiet_hours_are_in_the_users_zone() -> None:
    night = at_ms("2026-07-15T23:00", BERLIN)
    assert is_quiet(QuietHours(*NIGHT, BERLIN), night)
    assert not is_quiet(QuietHours(*NIGHT, NEW_YORK), night)


def test_a_repeated_hour_is_quiet_both_times() -> None:
    """Berlin's clocks go from 3:00 back to 2:00 in the morning of October 25, 2026."""
    hours = QuietHours(2 * 60, 2 * 60 + 30, BERLIN)
    first, second = (at_ms("2026-10-25T02:10", BERLIN, fold) for fold in (0, 1))
    assert second - first == 3_600_000
    assert [is_quiet(hours, ms) for ms in (first, first + 1_800_000, second, second + 1_800_000)] == [
        True, False, True, False,
    ]  # fmt: skip


def test_without_quiet_hours_no_time_is_quiet() -> None:
    assert not is_quiet(None, at_ms("2026-01-15T03:00"))


def test_an_unknown_zone_is_never_quiet() -> None:
    """It was set on a machine with other zone data. One user's setting must not stop the pushes of all others."""
    assert not is_quiet(QuietHours(0, 24 * 60 - 1, "Europe/Atlantis"), at_ms("2026-01-15T03:00"))
