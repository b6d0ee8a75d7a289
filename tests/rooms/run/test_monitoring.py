"""Alert rules and the dashboard name only metrics that exist, and leave none of Kith's out."""

from __future__ import annotations

import json
import math
import re
import time
from pathlib import Path
from typing import Literal

import pytest
from coroutines import run_coroutine

from kith.core.errors import StoreUnavailable
from kith.engines.blobs.blob_store import FolderBlobs
from kith.engines.embedded import store_role
from kith.engines.embedded.closed_note import ClosedNote
from kith.run.config import Settings
from kith.run.consumers import CONSUMERS
from kith.run.machines.standby_lag import StandbyLag
from kith.run.measures.descriptions import GAUGES, in_words
from kith.run.measures.media_size import measure
from kith.run.opening import wiring
from kith.run.opening.stores import OpenStores

ROOT = Path(__file__).parents[3]
PAGES = ROOT / "docs" / "monitoring"
ALERTS = (PAGES / "alerts.yaml").read_text()
DASHBOARD = json.loads((PAGES / "grafana.json").read_text())
EXPRESSIONS = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
RULES = re.findall(r"^ +expr: (.+)$", ALERTS, re.MULTILINE)


def close_as(stores: OpenStores, why: Literal["standby", "fenced"]) -> None:
    assert stores.folder is not None
    store_role.close_to_writes(stores.folder.environment, ClosedNote(why, "http://10.0.0.1:7400"))


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """The text of /metrics of a primary and of a standby, after everything that can be counted has been."""
    folder = tmp_path_factory.mktemp("data")
    settings = Settings(data=str(folder), durability="relaxed", backup_to=str(folder / "backups"))
    level = StandbyLag(folder, begin=True)
    level.note_caught_up(time.monotonic_ns())
    level.close()

    async def measured(now_ms: int) -> None:
        await measure(FolderBlobs(folder / "media", sync=False), folder, now_ms)

    async def texts() -> tuple[str, str]:
        await measured(0)
        await measured(90_000_000)
        async with wiring.open_stores(settings, "api") as stores:
            metrics = stores.metrics
            metrics.observe("check", time.perf_counter(), 500)
            metrics.called("edges apply", 0.001)
            metrics.call_failed("edges apply", "STORE_FULL")
            metrics.failed(StoreUnavailable("it is away"))
            metrics.messages_sent("new_post", 1)
            metrics.stream_ended("gone")
            metrics.walk_ended("online", 1, 1, 1, 1)
            metrics.checked("store", 1, 1)
            metrics.filtering(1, 32, 0.01)
            for name in CONSUMERS:
                await stores.log.save(name, await stores.log.end(), {})
            as_primary = (await metrics.render()).decode()
            close_as(stores, "standby")
            return as_primary, (await metrics.render()).decode()

    primary, standby = run_coroutine(texts())
    return str(primary), str(standby)


@pytest.fixture(scope="module")
def told(rendered: tuple[str, str]) -> str:
    return "".join(rendered)


def metrics_of(text: str) -> set[str]:
    return set(re.findall(r"\bkith_[a-z0-9_]+(?![a-z0-9_.])", text))


def patterns_of(text: str) -> list[str]:
    """Metrics named by a pattern: those of each consumer."""
    return re.findall(r'__name__=~"([^"]+)"', text)


def series(told: str) -> set[str]:
    return set(re.findall(r"^(kith_[a-z0-9_]+)", told, re.MULTILINE))


@pytest.mark.parametrize("expression", [*RULES, *EXPRESSIONS])
def test_every_metric_of_a_rule_or_a_panel_exists(told: str, expression: str) -> None:
    named, patterns = metrics_of(expression), patterns_of(expression)
    assert named or patterns or "up{" in expression
    assert named <= series(told)
    for pattern in patterns:
        found = [name for name in series(told) if re.fullmatch(pattern, name)]
        assert len(found) >= len(CONSUMERS), pattern
    assert expression.count("(") == expression.count(")")
    labels = set(re.findall(r"by \(([^)]+)\)", expression)) | set(re.findall(r"{(\w+)[=!]", expression))
    for label in {one.strip() for part in labels for one in part.split(",")} - {"job", "__name__"}:
        assert f'{label}="' in told


def test_the_panels_show_every_family(told: str) -> None:
    families = set(re.findall(r"^# TYPE (kith_\w+)", told, re.MULTILINE))
    everything = " ".join(EXPRESSIONS)
    shown, patterns = metrics_of(everything), patterns_of(everything)
    assert not {
        family
        for family in families
        if not any(name.startswith(family) for name in shown)
        and not any(re.fullmatch(pattern, family) for pattern in patterns)
    }


def test_every_metric_has_a_description(told: str) -> None:
    described = dict(re.findall(r"^# HELP kith_(\w+) (.+)$", told, re.MULTILINE))
    assert not [name for name, description in described.items() if description == in_words(name)]
    assert GAUGES.keys() <= described.keys(), "a gauge that is described is gone"


def test_the_guides_name_every_metric(told: str) -> None:
    of_consumers = {name for name in series(told) if re.match(f"kith_({'|'.join(set(CONSUMERS) - {'fanout'})})_", name)}
    families = set(re.findall(r"^# TYPE (kith_\w+)", told, re.MULTILINE)) - of_consumers
    guides = "".join((ROOT / "docs" / page).read_text() for page in ("operations.md", "standby.md"))
    assert families <= metrics_of(guides)


def test_alerts_of_two_consumers_differ_in_a_label() -> None:
    """An alert has no metric's name, and Prometheus refuses a rule that gives two alerts with the same labels."""
    of_consumers = [rule for rule in RULES if patterns_of(rule)]
    assert of_consumers
    for rule in of_consumers:
        named = re.search(r'"consumer", "\$1", "__name__", "([^"]+)"\)$', rule)
        assert rule.startswith("label_replace("), rule
        assert named, rule
        assert all(named[1].replace("(.+)", ".+") == pattern for pattern in patterns_of(rule))


def test_a_standby_reports_no_lag_of_consumers_because_it_runs_none(rendered: tuple[str, str]) -> None:
    primary, standby = rendered
    for name in ("fanout", "notifications", "push"):
        assert f"kith_{name}_lag_oldest_seconds" in primary
        assert f"kith_{name}_lag_oldest_seconds" not in standby


def test_only_a_standby_is_behind_and_infinitely_until_it_has_caught_up(tmp_path: Path) -> None:
    """A gauge that is missing would fire no alert; a fenced primary follows nobody."""

    async def measured(why: Literal["standby", "fenced"]) -> float | None:
        async with wiring.open_stores(Settings(data=str(tmp_path / why), durability="relaxed"), "api") as stores:
            close_as(stores, why)
            return (await stores.metrics.gauges()).get("standby_behind_seconds")

    assert run_coroutine(measured("standby")) == math.inf
    assert run_coroutine(measured("fenced")) is None


def test_every_rule_says_what_to_do_and_how_urgent_it_is() -> None:
    rules = re.split(r"- alert: ", ALERTS)[1:]
    assert len(rules) == len(RULES) > 10
    for rule in rules:
        assert re.search(r"severity: (page|ticket)}", rule), rule
        assert "summary: " in rule
        assert "action: " in rule


def test_operations_that_a_rule_leaves_out_exist() -> None:
    """Operations that take long by nature."""
    sources = "".join(file.read_text() for file in (ROOT / "src" / "kith" / "api" / "resources").glob("*.py"))
    names = re.findall(r'operation!="(\w+)"', ALERTS)
    assert names
    assert set(names) <= set(re.findall(r"async def (\w+)", sources))
