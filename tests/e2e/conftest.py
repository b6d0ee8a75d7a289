"""Fixtures for tests of whole processes. `servers`, which the tests of the API use too, runs the servers."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cast import People, people_of
from commands import CLEAN, Kith, kith_in

from kith.commands.cli import main

_numbers = itertools.count()


@pytest.fixture
def people() -> People:
    """Alice, Bob, Carol and Dana, with ids that no other test uses."""
    return people_of(next(_numbers))


@pytest.fixture
def kith(tmp_path: Path) -> Kith:
    """`kith("audit", "--data", "x", KITH_PORT="7")` in an empty folder, on a wide terminal."""

    return kith_in(tmp_path)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Kith:
    """Like `kith`, but in this process, for tests with many calls. An error that is not Kith's is raised."""
    monkeypatch.chdir(tmp_path)
    for name in set(os.environ) - set(CLEAN):
        monkeypatch.delenv(name)

    def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        with monkeypatch.context() as patch:
            patch.setattr(sys, "argv", ["kith", *arguments])
            for name, value in variables.items():
                patch.setenv(name, value)
            capsys.readouterr()
            with pytest.raises(SystemExit) as ended:
                main()
        code = ended.value.code
        return subprocess.CompletedProcess(arguments, code if isinstance(code, int) else 0, *capsys.readouterr())

    return run
