"""The examples of docs/client.md run, in their order, against a real server."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pictures import photo
from servers import serving

from kith.client import Kith

GUIDE = (Path(__file__).parents[2] / "docs" / "client.md").read_text()
SECTIONS = [
    "Lists",
    "Many at once",
    "Users",
    "Posts",
    "Comments",
    "Home",
    "Pictures and videos",
    "Moderation",
    "Stories",
    "Boards",
    "Notifications",
]
"""Sections of the guide whose examples use the names of `given`. The others show how to connect, stream and test."""


def examples() -> list[tuple[str, str]]:
    """(section, code) of every Python example, in order."""
    found, section = [], ""
    for heading, code in re.findall(r"^## (.*?)$|```python\n(.*?)```", GUIDE, re.MULTILINE | re.DOTALL):
        section = heading or section
        if code:
            found.append((section, code))
    return found


def given(kith: Kith) -> dict[str, Any]:
    """Names that the examples use without defining them."""
    alice, bob = kith.as_user(1), kith.as_user(2)
    bob.follow(1)
    picture = alice.upload_media("fox.jpg")
    return {"kith": kith, "alice": alice, "bob": bob, "picture": picture, "cursor_from_the_app": None, "rows": [(5, 6)]}


def test_the_examples_of_the_guide_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("fox.jpg").write_bytes(photo())
    run = set()
    with serving(tmp_path) as server, Kith(server.url, server.key) as kith:
        names = given(kith)
        for section, code in examples():
            if section in SECTIONS:
                exec(compile(code, f"docs/client.md: {section}", "exec"), names)
                run.add(section)
    assert run == set(SECTIONS)
