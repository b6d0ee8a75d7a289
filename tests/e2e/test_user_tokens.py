"""The examples of docs/user-tokens.md work: a server accepts tokens that they sign."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import Kith, done
from javascript import needs_node, node
from servers import DEFAULT_SETTINGS, JWT_SECRET, Server, serving

PAGE = (Path(__file__).parents[2] / "docs" / "user-tokens.md").read_text()
NAMED_BY_THE_APP = {"KITH_JWT_ISSUER", "KITH_JWT_AUDIENCE"}
ALICE = 7


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with the default issuer and audience of tokens."""
    settings = {name: value for name, value in DEFAULT_SETTINGS.items() if name not in NAMED_BY_THE_APP}
    with serving(tmp_path_factory.mktemp("tokens"), settings=settings) as running:
        yield running


def example(heading: str, language: str) -> str:
    """The first code block in this language under a heading of the page."""
    found = re.search(rf"^## {heading}$.*?```{language}\n(.*?)```", PAGE, re.MULTILINE | re.DOTALL)
    assert found, heading
    return found[1]


def user_of(server: Server, token: str) -> int:
    """ALICE if the token is valid for her, as only she may read her list of blocks; else 0."""
    with server.client(token) as http:
        answer = http.get(f"/api/v1/users/{ALICE}/blocked")
    return ALICE if answer.status_code == 200 else 0


def test_python_signs_a_token(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KITH_JWT_SECRET", JWT_SECRET)
    names: dict[str, Any] = {}
    exec(compile(example("Python", "python"), "docs/user-tokens.md: Python", "exec"), names)
    assert user_of(server, names["kith_token"](str(ALICE))) == ALICE
    assert user_of(server, names["kith_token"](str(ALICE + 1))) == 0
    assert user_of(server, names["kith_token"](str(ALICE), ttl_s=-60)) == 0


@needs_node
def test_node_signs_a_token(server: Server, tmp_path: Path) -> None:
    (tmp_path / "app.mjs").write_text(example("Node", "js") + f"console.log(kithToken({ALICE}));\n")
    run = node("app.mjs", cwd=tmp_path, KITH_JWT_SECRET=JWT_SECRET)
    assert user_of(server, run.stdout.strip()) == ALICE, run.stderr
    forged = node("app.mjs", cwd=tmp_path, KITH_JWT_SECRET=JWT_SECRET + "?")
    assert user_of(server, forged.stdout.strip()) == 0


def test_the_command_signs_a_token_as_an_app_would(server: Server, kith: Kith) -> None:
    shown = example("Without a backend yet", "").strip()
    command = shown.replace("--user 1", f"--user {ALICE}").split()[1:]
    token = done(kith(*command, "--data", str(server.data), KITH_JWT_SECRET=JWT_SECRET)).strip()
    assert user_of(server, token) == ALICE
