"""deploy/Dockerfile copies only the sources of the package, and installs the tested versions."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from kith.run.config import Settings

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text()
IGNORED = (ROOT / "deploy" / "Dockerfile.dockerignore").read_text().splitlines()
COPIED = {name for line in re.findall(r"^COPY (.+) \S+$", DOCKERFILE, re.MULTILINE) for name in line.split()}


def test_only_the_sources_of_the_package_are_copied() -> None:
    """A checkout may hold a kith.toml, data folders and backups. A layer would keep their secrets."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    built_of = {*wheel["only-include"], project["project"]["readme"], *project["project"]["license-files"]}
    assert {re.sub("^src/kith$", "src", name) for name in built_of} == COPIED - {"pyproject.toml", "requirements.txt"}
    assert all((ROOT / name).exists() for name in COPIED)


def test_only_these_sources_are_sent_to_the_builder() -> None:
    assert IGNORED[0] == "*"
    assert {line.removeprefix("!") for line in IGNORED if line.startswith("!")} == COPIED


def test_the_installed_versions_are_the_tested_ones() -> None:
    assert "-c versions.txt" in DOCKERFILE
    (program,) = re.findall(r"sed '(.+?)' requirements.txt > versions.txt", DOCKERFILE)
    assert program == r"/--hash/d; s/ \\$//"
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    kept = [re.sub(r" \\$", "", line) for line in lines if "--hash" not in line]
    assert all(re.fullmatch(r"\s*(#.*)?|\S+==\S+( ; .+)?", line) for line in kept)


def test_the_image_runs_without_root_and_keeps_data_in_its_volume() -> None:
    variables = dict(re.findall(r"KITH_(\w+)=(\S+)", DOCKERFILE))
    assert {name.lower() for name in variables} <= set(Settings.__struct_fields__)
    assert f"VOLUME {variables['DATA']}\n" in DOCKERFILE
    user = re.search(r"^USER (\d+)$", DOCKERFILE, re.MULTILINE)
    assert user
    assert int(user[1]) > 0
