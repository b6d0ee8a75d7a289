"""Runs `kith` commands as users do."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import servers
from forking import launcher

KITH = [sys.executable, "-m", "kith"]
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("KITH_")}
LIMIT_S = 120
"""Seconds after which a command counts as hanging, and is killed."""
Kith = Callable[..., subprocess.CompletedProcess[str]]


def kith_in(folder: Path, limit_s: float = LIMIT_S) -> Kith:
    """A function that runs commands in a folder, on a wide terminal: `kith("audit", "--data", "x", KITH_PORT="7")`."""

    def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {**CLEAN, "COLUMNS": "200", **variables}
        return launcher().run(*arguments, cwd=folder, env=environment, timeout=limit_s)

    return run


def done(run: subprocess.CompletedProcess[str]) -> str:
    """The output of a command. Fails if its status is not 0."""
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def refused(run: subprocess.CompletedProcess[str]) -> str:
    """The error line of a command that refuses, without progress lines. Fails if it has not exactly one."""
    assert run.returncode == 1, f"status {run.returncode}\n{run.stdout}{run.stderr}"
    assert "Traceback" not in run.stderr, run.stderr
    progress = ("reading", "writing", "counting")
    said = [line for line in run.stderr.splitlines() if line.strip() and not line.startswith(progress)]
    assert len(said) == 1, run.stderr
    assert said[0].startswith("kith: "), run.stderr
    assert len(said[0]) > len("kith: ") + 10
    return said[0]


def free_port() -> str:
    """A port that nobody listens on, as an argument."""
    return str(servers.free_port())


def thirty_people(file: Path) -> Path:
    """A file of 290 follows among 30 users: each follows the 9 after them, and all follow user 1."""
    rows = {(n, 1 + (n + k) % 30) for n in range(1, 31) for k in range(9)} | {(n, 1) for n in range(2, 31)}
    file.write_text("".join(f"{n},{m}\n" for n, m in sorted(rows)))
    return file
