"""A server is stopped, started again, and restored from a backup, while a user reads and writes in a browser."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from playwright.sync_api import Browser, Locator, Page, expect
from scenes import Stage, card
from servers import COMMAND, DEFAULT_SETTINGS, serving

AWAY = "You are offline, or the server is not there."


def kith(*arguments: str | Path) -> None:
    subprocess.run([COMMAND, *arguments], check=True, env={**os.environ, **DEFAULT_SETTINGS}, capture_output=True)


def like_of(page: Page, text: str) -> Locator:
    return card(page, text).get_by_role("button", name=re.compile("^Like"))


def test_an_outage_and_a_restore_lose_nothing_that_was_typed(tmp_path: Path, browser: Browser) -> None:
    with serving(tmp_path) as server:
        port, stage = server.port, Stage(browser, server, 1)
        stage.posts(1, [f"post number {number}" for number in range(60)])
        page = stage.open(1)
        stage.at(page, "#/latest")
        expect(page.locator("kith-post").first).to_be_visible()
        other = stage.open(1, page.context)
        stage.at(other, "#/latest")
        kith("backup", tmp_path / "backup", "--data", server.data)
        like_of(other, "post number 58").click()  # so this tab waits for a write that the backup lacks
        stage.settled(other)
        page.get_by_role("button", name="Write").click()
        page.get_by_label("What you say").fill("typed before it stopped")
    expect(page.get_by_text(AWAY)).to_be_visible()
    page.get_by_role("button", name="Post", exact=True).click()
    expect(page.get_by_role("alert").filter(has_text="Not sent. No answer from the server.")).to_be_visible()
    with serving(tmp_path, port=port):
        expect(page.get_by_text(AWAY)).to_be_hidden()
        expect(page.get_by_label("What you say")).to_have_value("typed before it stopped")
        page.get_by_role("button", name="Post", exact=True).click()
        expect(card(page, "typed before it stopped")).to_be_visible()
        page.get_by_role("button", name="Write").click()
        page.get_by_label("What you say").fill("typed before it was restored")
    kith("restore", tmp_path / "backup", "--data", tmp_path / "restored" / "data")
    with serving(tmp_path / "restored", port=port):
        expect(page.get_by_text(AWAY)).to_be_hidden()
        expect(page.get_by_label("What you say")).to_have_value("typed before it was restored")
        page.get_by_role("button", name="Post", exact=True).click()
        expect(card(page, "typed before it was restored")).to_be_visible()
        stage.settled(page)
        expect(page.get_by_text("post number 59", exact=True)).to_be_visible()
        like_of(other, "post number 57").click()
        stage.settled(other)
        expect(like_of(other, "post number 57")).to_have_attribute("aria-pressed", "true")
        expect(other.get_by_text("out of date")).to_have_count(0)
    stage.close()
