"""Runs Node and Deno for tests of JavaScript code, if they are installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

NODE_MIN = 20
LIMIT_S = 120


def node(*arguments: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run Node."""
    return _run("node", *arguments, cwd=cwd, **variables)


def deno(*arguments: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run Deno, with its update check off."""
    return _run("deno", *arguments, cwd=cwd, DENO_NO_UPDATE_CHECK="1", NO_COLOR="1", **variables)


def _run(*command: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def _version() -> int:
    """The major version of the installed Node; 0 if there is none."""
    if shutil.which("node") is None:
        return 0
    found = re.match(r"v(\d+)", node("--version", cwd=Path.cwd()).stdout)
    return int(found[1]) if found else 0


needs_deno = pytest.mark.skipif(shutil.which("deno") is None, reason="needs Deno on the PATH (`pip install deno`)")
needs_node = pytest.mark.skipif(_version() < NODE_MIN, reason=f"needs Node {NODE_MIN} or newer on the PATH")
