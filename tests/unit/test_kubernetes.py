"""deploy/kubernetes is valid, and names only commands, workers, settings and gauges that exist.

`kubernetes-1.37.json` holds the strict schemas of these kinds as Kubernetes publishes them (Apache-2.0), without
descriptions.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import typer
import yaml

from kith.commands.cli import MODULES
from kith.run import config
from kith.run.config import SECRET, Settings
from kith.run.consumers import WORKERS

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "kubernetes"
GUIDE = (ROOT / "docs" / "kubernetes.md").read_text()
SCHEMA = json.loads((Path(__file__).parent / "kubernetes-1.37.json").read_text())
OBJECTS: list[dict[str, Any]] = [
    made for file in sorted(FOLDER.glob("*.yaml")) for made in yaml.safe_load_all(file.read_text())
]
"""Every object of the files. `NAMED` below has them by kind and name."""
NAMED = {f"{made['kind']} {made['metadata']['name']}": made for made in OBJECTS}
SETTINGS: dict[str, str] = NAMED["ConfigMap kith"]["data"]


def of_kind(kind: str) -> list[dict[str, Any]]:
    return [made for made in OBJECTS if made["kind"] == kind]


DEPLOYMENTS = {made["metadata"]["name"]: made["spec"] for made in of_kind("Deployment")}
CONTAINERS = {name: spec["template"]["spec"]["containers"][0] for name, spec in DEPLOYMENTS.items()}


def problems(made: dict[str, Any]) -> list[str]:
    """The errors of an object under the schema of its kind."""
    schema = {"$ref": f"#/definitions/{made['kind']}", "definitions": SCHEMA["definitions"]}
    return [error.message for error in jsonschema_rs.validator_for(schema).iter_errors(made)]


@pytest.mark.parametrize("name", NAMED)
def test_each_object_fits_its_schema(name: str) -> None:
    assert problems(NAMED[name]) == []
    assert len(NAMED) == len(OBJECTS), "two objects have the same name"


def test_the_schema_refuses_a_misspelled_field() -> None:
    wrong = copy.deepcopy(NAMED["Deployment kith-api"])
    wrong["spec"]["template"]["spec"]["containers"][0]["livenessprobe"] = {}
    assert problems(wrong)


def command_of(name: str) -> tuple[str, list[str], dict[str, str]]:
    """The command of a deployment, its positional arguments, and its options with their values."""
    command, *rest = CONTAINERS[name]["args"]
    options = {word: rest[at + 1] for at, word in enumerate(rest) if word.startswith("--")}
    return command, [word for word in rest if word not in {*options, *options.values()}], options


@pytest.mark.parametrize("name", CONTAINERS)
def test_each_deployment_runs_an_existing_command(name: str) -> None:
    command, words, options = command_of(name)
    module = __import__(MODULES[command], fromlist=["commands"])
    group = typer.main.get_command(module.commands)
    known: Any = group.commands[command] if hasattr(group, "commands") else group
    assert set(options) <= {option for parameter in known.params for option in parameter.opts}
    assert set(words) <= set(WORKERS)


def test_each_worker_is_run_by_exactly_one_deployment() -> None:
    run = [word for name in CONTAINERS for word in command_of(name)[1]]
    assert sorted(run) == sorted(WORKERS)


@pytest.mark.parametrize("name", CONTAINERS)
def test_probes_call_the_port_and_paths_that_answer_them(name: str) -> None:
    (port,) = CONTAINERS[name]["ports"]
    told = command_of(name)[2].get("--probe-port", SETTINGS["KITH_PORT"])
    assert str(port["containerPort"]) == told
    paths = {kind: CONTAINERS[name][f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")}
    assert {asked["port"] for asked in paths.values()} == {port["name"]}
    assert [asked["path"] for asked in paths.values()] == ["/healthz", "/healthz", "/readyz"]


@pytest.mark.parametrize("name", CONTAINERS)
def test_no_liveness_probe_kills_sooner_than_kith_itself_would(name: str) -> None:
    probe = CONTAINERS[name]["livenessProbe"]
    assert probe["timeoutSeconds"] >= 5, "a busy process answers late, and the default is 1 s"
    assert probe["periodSeconds"] * probe["failureThreshold"] >= Settings().hang_timeout_s


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_each_deployment_selects_its_pods_and_gives_them_time_to_drain(name: str) -> None:
    spec = DEPLOYMENTS[name]
    assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
    pod = spec["template"]["spec"]
    paused_s = pod["containers"][0].get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
    assert pod["terminationGracePeriodSeconds"] >= paused_s + int(SETTINGS["KITH_DRAIN_TIMEOUT_S"]) + 10
    assert [next(iter(source.values()))["name"] for source in pod["containers"][0]["envFrom"]] == ["kith", "kith"]


def test_services_and_disruption_budgets_select_existing_pods() -> None:
    labels = [spec["template"]["metadata"]["labels"] for spec in DEPLOYMENTS.values()]
    (service,) = of_kind("Service")
    assert service["spec"]["selector"] in labels
    assert all(budget["spec"]["selector"]["matchLabels"] in labels for budget in of_kind("PodDisruptionBudget"))


def test_the_settings_of_the_config_map_are_valid(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in SETTINGS.items():
        monkeypatch.setenv(name, value)
    settings = config.load()
    assert settings.engine == "cluster"
    assert all((settings.cassandra, settings.kafka, settings.redis, settings.media_url))


def test_secrets_are_in_the_guide_and_not_in_the_config_map() -> None:
    told = set(re.findall(r"--from-literal=(\w+)=", GUIDE))
    ours = {name.removeprefix("KITH_").lower() for name in told if name.startswith("KITH_")}
    assert ours <= set(Settings.__struct_fields__)
    assert ours >= {"jwt_secret", "redis_password", "cassandra_password"} <= SECRET
    assert not SECRET & {name.removeprefix("KITH_").lower() for name in SETTINGS}


def scaled() -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    for made in of_kind("HorizontalPodAutoscaler"):
        (metric,) = made["spec"]["metrics"]
        yield made["spec"]["scaleTargetRef"]["name"], made["spec"], metric


def test_each_autoscaler_scales_an_existing_deployment_by_its_own_lag() -> None:
    looked = {}
    for target, spec, metric in scaled():
        assert target in DEPLOYMENTS
        assert "replicas" not in DEPLOYMENTS[target], "the autoscaler alone sets the number of replicas"
        if metric["type"] == "External":
            looked[target] = metric["external"]["metric"]["name"]
            assert spec["maxReplicas"] <= int(SETTINGS["KITH_CLUSTER_PARTITIONS"])
    expected = {f"kith-{name}": f"kith_{name}_lag_oldest_seconds" for name in ("apply", "fanout", "notifications")}
    assert looked == expected
    assert all(command_of(target)[1] == [target.removeprefix("kith-")] for target in looked)
    rule = re.search(r"seriesQuery: '\{__name__=~\"(.*?)\"", GUIDE)
    assert rule
    assert all(re.fullmatch(rule[1], name) for name in looked.values())


def test_the_guide_names_every_file() -> None:
    assert {file.name for file in FOLDER.iterdir()} == set(re.findall(r"deploy/kubernetes/(\w+\.yaml)", GUIDE))
