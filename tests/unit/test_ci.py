"""`.ci/run` skips the engine suites where engines are unavailable, and fails where they do not start.

The commands that it calls are stand-ins here.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = ("ruff", "mypy", "lint-imports")
ALL = ["setup", "test-web", "test-faults", "test-cluster", "test"]


def stand_in(file: Path, script: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)


@pytest.mark.parametrize(
    ("engines", "failing", "made", "status"),
    [
        ("true", "none", ALL, 0),
        ("false", "none", [name for name in ALL if name != "test-cluster"], 0),
        ("true", "test-cluster", ALL[:-1], 2),
    ],
    ids=["engines-available", "engines-unavailable", "engines-do-not-start"],
)
def test_the_engine_suites_run_only_where_engines_are_available(
    tmp_path: Path, engines: str, failing: str, made: list[str], status: int
) -> None:
    shutil.copytree(ROOT / ".ci", tmp_path / ".ci")
    for tool in TOOLS:
        stand_in(tmp_path / ".venv/bin" / tool, "")
    stand_in(tmp_path / "cluster/prepare.sh", engines)
    stand_in(tmp_path / "bin/make", f'echo "$1" >> made\n[ "$1" != {failing} ] || exit 2')
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    run = subprocess.run([".ci/run"], check=False, cwd=tmp_path, env={"PATH": path}, capture_output=True, text=True)
    assert run.returncode == status, run.stderr
    assert (tmp_path / "made").read_text().split() == made
    assert ("NOT TESTED on distributed engines" in run.stderr) == (engines == "false")
