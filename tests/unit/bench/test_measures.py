"""Measures: docs/measured.md lists them, and a failing measure does not stop the others."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.__main__ import MEASURES, main
from bench.figures import Figure
from bench.processes import family

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "measured.md").read_text()


def test_the_page_lists_every_measure() -> None:
    listed = re.search(r"^`kith bench NAME.*?^Redis", PAGE, re.MULTILINE | re.DOTALL)
    assert listed
    assert set(re.findall(r"`([a-z-]+)`", listed[0])) == set(MEASURES)


def test_every_measure_says_what_it_measures() -> None:
    assert not [name for name, measure in MEASURES.items() if not measure.__doc__]


def test_an_unknown_name_lists_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["list-htpp"])
    assert "list-http, count-http" in capsys.readouterr().err


@pytest.fixture(autouse=True)
def signals() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def test_a_measure_that_fails_or_has_no_engine_stops_no_other(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(folder: Path) -> list[Figure]:
        raise RuntimeError("no browser")

    for name, measure in (("fails", fails), ("away", lambda _: []), ("fine", lambda _: [Figure("fine", 7, "s", "")])):
        monkeypatch.setitem(MEASURES, name, measure)
    with pytest.raises(SystemExit) as ended:
        main(["fails", "away", "fine"])
    said = capsys.readouterr()
    assert "fine" in said.out
    assert "no browser" in said.err
    assert "away: the engines that it runs on are not there" in said.err
    assert "no figure of fails, away" in str(ended.value)


def test_a_family_is_a_process_and_its_descendants() -> None:
    assert os.getpid() in family(os.getppid())
    assert family(os.getpid())[0] == os.getpid()
