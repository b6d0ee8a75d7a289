"""`kith standby` listens at the same address after it is promoted or starts over."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kith.commands import standby
from kith.run.serving import processes


@pytest.mark.parametrize(("ended", "goes_on_as"), [(processes.PROMOTED, "serve"), (processes.START_OVER, "standby")])
def test_the_command_that_replaces_a_standby_listens_at_the_same_address(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ended: int, goes_on_as: str
) -> None:
    became: list[str] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(standby.standby, "prepare", lambda *_: None)
    monkeypatch.setattr(standby.standby, "served", contextlib.nullcontext)
    monkeypatch.setattr(standby.supervisor, "check_port", lambda _: None)
    monkeypatch.setattr(standby.supervisor, "prepare", lambda *_, **__: None)
    monkeypatch.setattr(standby.supervisor, "run", lambda *_, **__: ended)
    monkeypatch.setattr(standby, "_become", lambda *command: became.extend(command))

    answer = CliRunner().invoke(standby.commands, ["standby", "--of", "http://a:1", "--host", "127.0.0.2"])

    assert answer.exit_code == 0, answer.output
    assert became[0] == goes_on_as
    assert became[became.index("--host") + 1] == "127.0.0.2"
