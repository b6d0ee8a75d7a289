"""The links that `kith demo` prints, opened in a browser: the reader as Bob, and the console with the printed key."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from commands import CLEAN, KITH, free_port, thirty_people
from playwright.sync_api import Browser, expect
from scenes import TO_THE_END, until

LINKS = (r"(http\S+/app#token=\S+)", r"(http\S+/console)\n", r"Server key for this run: (\S+)")


class Invitation(NamedTuple):
    """The links and the key that a demo printed."""

    reader: str
    console: str
    key: str


@pytest.fixture
def invited(tmp_path: Path) -> Iterator[Invitation]:
    """A running demo of thirty people."""
    thirty_people(tmp_path / "few.csv")
    command = [*KITH, "demo", "few.csv", "--port", free_port()]
    with subprocess.Popen(
        command, cwd=tmp_path, env={**CLEAN, "COLUMNS": "200"}, stdout=subprocess.PIPE, text=True
    ) as demo:
        assert demo.stdout is not None
        said = ""
        for line in demo.stdout:
            said += line
            if "/app#token=" in line:
                break
        try:
            yield Invitation(*(re.search(one, said)[1] for one in LINKS))  # type: ignore[index]
        finally:
            demo.terminate()
            demo.stdout.read()


def test_the_links_of_the_demo_lead_into_its_community(invited: Invitation, browser: Browser) -> None:
    context = browser.new_context(viewport={"width": 1000, "height": 900})
    page, wrong = context.new_page(), list[str]()
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto(invited.reader)
    expect(page.get_by_role("button", name=re.compile("^Stories of "))).not_to_have_count(0)
    expect(page.locator("kith-post").first).to_be_visible()
    like = page.locator("kith-post").first.get_by_role("button", name=re.compile("^Like"))
    pressed = like.get_attribute("aria-pressed")
    like.click()
    expect(like).to_have_attribute("aria-pressed", "false" if pressed == "true" else "true")
    expect(
        page.get_by_role("button", name=re.compile(r"^\d+ new posts?$"))
    ).to_be_visible()  # the demo posts all the time
    page.evaluate("location.hash = '#/latest'")
    expect(page.locator("kith-post").first).to_be_visible()
    until(page, TO_THE_END)
    page.get_by_role("link", name="You", exact=True).click()
    expect(page.get_by_role("heading", level=1)).not_to_be_empty()
    page.get_by_role("button", name="More", exact=True).click()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Token")).to_be_visible()
    page.goto(invited.console)
    page.get_by_label("Server key").fill(invited.key)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("img", name=re.compile("^Requests: now"))).to_be_visible()
    context.close()
    assert not wrong
