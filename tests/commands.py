"""Commands of `kith`, run as users run them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import servers

KITH = [sys.executable, "-m", "kith"]
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("KITH_")}
LIMIT_S = 120
"""Seconds after which a command hangs."""
Kith = Callable[..., subprocess.CompletedProcess[str]]


def done(run: subprocess.CompletedProcess[str]) -> str:
    """What a command that went well printed."""
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def refused(run: subprocess.CompletedProcess[str]) -> str:
    """The one line by which a command refuses; progress that was drawn before it is not counted."""
    assert run.returncode == 1, f"status {run.returncode}\n{run.stdout}{run.stderr}"
    assert "Traceback" not in run.stderr, run.stderr
    said = [line for line in run.stderr.splitlines() if line.strip() and not line.startswith(("reading", "writing"))]
    assert len(said) == 1, run.stderr
    assert said[0].startswith("kith: "), run.stderr
    assert len(said[0]) > len("kith: ") + 10
    return said[0]


def free_port() -> str:
    """A port that nobody listens on, as an argument."""
    return str(servers.free_port())
