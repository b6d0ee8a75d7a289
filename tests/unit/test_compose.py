"""compose.yaml is valid, and starts the same engines as the scripts in cluster/: same versions, ports and settings.

`compose-spec.json` is the schema of the Compose Specification (Apache-2.0), as published except for white space.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
NOT_SHARED = {"listeners", "log.dirs"}
"""Settings of Kafka that differ in a container."""


def script(name: str) -> str:
    return (ROOT / "cluster" / name).read_text()


def defaults(name: str) -> list[str]:
    """The default first port of a script, as often as it stands there."""
    return re.findall(r"_PORT:-(\d+)\}\n", script(name))


def test_the_file_fits_the_compose_specification() -> None:
    schema = json.loads((Path(__file__).parent / "compose-spec.json").read_text())
    assert not [error.message for error in jsonschema_rs.validator_for(schema).iter_errors(COMPOSE)]


@pytest.mark.parametrize("name", SERVICES)
def test_no_port_is_open_to_other_machines(name: str) -> None:
    assert all(port.startswith("127.0.0.1:") for port in SERVICES[name]["ports"])


@pytest.mark.parametrize(("service", "name"), [("cassandra", "cassandra.sh"), ("kafka", "kafka.sh"), ("s3", "s3.sh")])
def test_ports_are_those_of_the_scripts(service: str, name: str) -> None:
    assert {SERVICES[service]["ports"][0].split(":")[1]} == set(defaults(name))


def test_redis_is_started_by_the_script() -> None:
    (first,) = set(defaults("redis.sh"))
    last = int(first) + 5
    assert SERVICES["redis"]["ports"] == [f"127.0.0.1:{first}-{last}:{first}-{last}"]
    files = ("redis.sh", *re.findall(r"^\. \./(\S+)$", script("redis.sh"), re.MULTILINE))
    assert SERVICES["redis"]["volumes"] == [f"./cluster/{name}:/kith/cluster/{name}:ro" for name in files]


def test_versions_are_those_of_the_scripts() -> None:
    tags = {name: service["image"].split(":")[1] for name, service in SERVICES.items()}
    assert {tags["cassandra"]} == set(re.findall(r"<version>(\d\.\d+\.\d+)<", script("cassandra.pom.xml")))
    assert tags["kafka"] in re.findall(r"kafka_2.13</artifactId>\s*<version>(.*)<", script("kafka.pom.xml"))
    assert [tags["s3"]] == re.findall(r"^version=(.*)$", script("s3.sh"), re.MULTILINE)


def own_settings(text: str) -> dict[str, Any]:
    """The settings that a script appends to `cassandra.yaml` for one node of Cassandra."""
    (own,) = re.findall(r"cassandra\.yaml - > \S+ <<Y\n(.*?)\nY\n", text, re.DOTALL)
    found: dict[str, Any] = yaml.safe_load("\n".join(line for line in own.splitlines() if not line.startswith("$(")))
    return found


def test_cassandra_has_the_settings_of_the_script() -> None:
    service, text = SERVICES["cassandra"], script("cassandra.sh")
    assert "./cluster/cassandra.yaml:/kith/cassandra.yaml:ro" in service["volumes"]
    shared = yaml.safe_load(script("cassandra.yaml"))
    one = text.replace("127.0.0.$1", "127.0.0.1").replace("$port", "19042").replace("$((port + 1000))", "20042")
    command = service["command"][-1]
    here, there = own_settings(one), own_settings(command)
    assert not shared.keys() & {*here, *there}
    assert (
        there.pop("broadcast_rpc_address") == here["rpc_address"]
    )  # the container's own address cannot be reached from outside
    assert there.pop("rpc_address") == "0.0.0.0"
    del here["rpc_address"]
    folders = {name for name in here if name.endswith(("_directory", "_directories"))}
    assert {name: there[name] for name in there.keys() - folders} == {
        name: here[name] for name in here.keys() - folders
    }
    assert folders <= there.keys()
    assert all("/var/lib/cassandra" in str(there[name]) for name in folders)


def test_engines_have_the_memory_and_options_of_the_scripts() -> None:
    cassandra, text = SERVICES["cassandra"]["environment"], script("cassandra.sh")
    assert [cassandra["MAX_HEAP_SIZE"].lower()] == re.findall(r"_HEAP:-(\w+)\}", text)
    for option in cassandra["JVM_EXTRA_OPTS"].split():
        assert option.partition("=")[0] in text, option
    (heap,) = re.findall(r"_HEAP:-(\w+)\}", script("kafka.sh"))
    assert SERVICES["kafka"]["environment"]["KAFKA_HEAP_OPTS"] == f"-Xms{heap} -Xmx{heap}"


def test_kafka_has_the_settings_of_the_script() -> None:
    text = script("kafka.sh").split("<<P\n")[1].split("\nP\n")[0]
    (port,) = set(defaults("kafka.sh"))
    one_node = {"$1": "1", "$copies": "1", "$enough": "1", "$voters": f"1@127.0.0.1:{int(port) + 1000}"}
    wanted = {}
    for line in text.splitlines():
        name, _, value = line.partition("=")
        value = value.replace("$((port + $1 - 1))", port)
        wanted[name] = one_node.get(value, value.partition(",")[0] if name == "advertised.listeners" else value)
    environment = SERVICES["kafka"]["environment"]
    found = {name: environment.get(f"KAFKA_{name.upper().replace('.', '_')}") for name in wanted}
    assert {name: found[name] for name in wanted if name not in NOT_SHARED} == {
        name: value for name, value in wanted.items() if name not in NOT_SHARED
    }
