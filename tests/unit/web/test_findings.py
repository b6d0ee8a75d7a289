"""Findings of the console: the problems that it shows first, from the last sample. A pure function, run by Node."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from javascript import needs_node, node

from kith.web.site import CONSOLE

HOUR_S, DAY_S = 3_600, 86_400
ASK = """
import { findings } from %s;
const [values, processes] = JSON.parse(process.argv[1]);
const history = {
  names: () => Object.keys(values),
  last: (name) => values[name] ?? null,
  latest: { now: 1_800_000_000_000, processes },
};
console.log(JSON.stringify(findings(history)));
"""
WORKER = {"kind": "fanout+notifications", "pid": 7, "running": True, "seen": 0}
WELL = {"fanout_dead_events": 0, "notifications_dead_events": 0, "backup_age_seconds": HOUR_S}


def findings_for(values: dict[str, Any], processes: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """The (severity, text) pairs that the console shows for these values."""
    script = ASK % json.dumps((CONSOLE / "overview.js").as_uri())
    asked = json.dumps([values, processes])
    run = node("--input-type=module", "--eval", script, "--", asked, cwd=Path.cwd())
    assert run.returncode == 0, run.stderr
    return [(how, words) for how, words in json.loads(run.stdout)]


@needs_node
def test_a_healthy_server_has_no_findings() -> None:
    assert findings_for(WELL | {"backup_drill_age_seconds": DAY_S}, [WORKER]) == []


@needs_node
@pytest.mark.parametrize(
    ("values", "how", "says"),
    [
        ({"backup_failing": 1}, "bad", "Backups fail"),
        ({"backup_age_seconds": 3 * DAY_S}, "bad", "The last backup was 72 h ago"),
        ({"backup_drill_failed": 1, "backup_drill_age_seconds": HOUR_S}, "bad", "The last drill of the backup failed"),
        ({"backup_drill_age_seconds": None}, "warn", "The backup was never tried"),
        ({"backup_drill_age_seconds": 31 * DAY_S}, "warn", "The backup was last tried 744 h ago"),
        ({"standby_behind_seconds": 90}, "bad", "This standby is 90 s behind its primary"),
        ({"rival_primary": 1}, "bad", "Another machine is the primary, too"),
        ({"fanout_dead_events": 2}, "bad", "2 dead events of fanout wait for you"),
        ({"fanout_lag_events": 5, "fanout_lag_oldest_seconds": 60}, "bad", "fanout is 5 events behind"),
        ({"push_dead_events": 0}, "bad", "No worker of push runs"),
        ({"push_dead_events": 0, "standby_behind_seconds": None}, "bad", "No worker of push runs"),  # just promoted
        ({"disk_free_bytes": 2**20}, "bad", "are left on the disk"),
        ({"log_leases_lost": 1}, "bad", "lost their place in the log"),
    ],
)
def test_each_problem_is_reported(values: dict[str, Any], how: str, says: str) -> None:
    ((said_how, words),) = findings_for(WELL | values, [WORKER])
    assert (said_how, says in words) == (how, True), words


@needs_node
def test_a_machine_that_became_a_standby_lacks_no_workers() -> None:
    values = dict.fromkeys(WELL, None) | {"standby_behind_seconds": 1, "backup_age_seconds": HOUR_S}
    assert findings_for(values, []) == []
    ((how, words),) = findings_for(values | {"standby_behind_seconds": None}, [])
    assert (how, "has not caught up" in words) == ("bad", True)
