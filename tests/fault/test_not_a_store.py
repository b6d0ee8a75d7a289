"""What is not a store, or no longer one, is refused in one clear line: by the engine, and by `kith serve`.

Everything is opened in a process of its own, because reading beyond the end of a mapped file kills (SIGBUS).
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from processes import engine_over, serve_refused

from kith.engines.embedded.environment import STORE_FILE

_PAGE = 4096
_OPEN_AND_READ = """
import asyncio, sys
from pathlib import Path
from kith.core.errors import KithError
from kith.engines.embedded.commits import CommitQueue
from kith.engines.embedded.edges import EmbeddedEdges
from kith.engines.embedded.environment import Environment
from kith.graph.audit import audit

async def read(environment):
    for name, number in environment.graph_numbers().items():
        await audit(EmbeddedEdges(environment, CommitQueue(environment)), name, number)

try:
    with Environment(Path(sys.argv[1])) as environment:
        asyncio.run(read(environment))
        print("OPENED")
except KithError as error:
    print(error.code, error.message)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data folder with 5,000 edges, closed."""
    with engine_over(tmp_path / "data") as engine:
        engine("write", 0, 5_000)
    return tmp_path / "data"


def cut(pages: float) -> Callable[[bytes], bytes]:
    """Only the first `pages` pages."""
    return lambda whole: whole[: int(pages * _PAGE)]


def painted(filler: bytes, first: int, last: int | None) -> Callable[[bytes], bytes]:
    """Pages from `first` up to `last` overwritten."""

    def paint(whole: bytes) -> bytes:
        end = len(whole) if last is None else last * _PAGE
        return whole[: first * _PAGE] + filler * (end - first * _PAGE) + whole[end:]

    return paint


RUINED: dict[str, Callable[[bytes], bytes]] = {
    "empty": cut(0),
    "text": lambda _: b"This is not a store but a letter.\n" * 400,
    "a-short-text": lambda _: b"hello\n",
    "half-a-meta-page": cut(0.5),
    "one-page": cut(1),
    "both-meta-pages-only": cut(2),
    "half": lambda whole: whole[: len(whole) // 2],
    "half-and-torn": lambda whole: whole[: len(whole) // 2 + 1_001],
    "a-tenth": lambda whole: whole[: len(whole) // 10],
    "last-page-missing": lambda whole: whole[:-_PAGE],
    "meta-pages-zeroed": painted(b"\0", 0, 2),
    "first-meta-page-torn": painted(b"\xff", 0, 1),
    "zeroes-after-the-meta-pages": painted(b"\0", 2, None),
    "noise-after-the-meta-pages": painted(b"\xa5", 2, None),
}


@pytest.mark.parametrize("ruin", RUINED)
def test_a_ruined_store_is_refused_by_the_engine(folder: Path, ruin: str) -> None:
    spoil(folder, ruin)
    command = [sys.executable, "-c", _OPEN_AND_READ, str(folder)]
    opened = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert opened.returncode == 0, f"died with {opened.returncode}:\n{opened.stderr}"
    assert opened.stdout.split()[0] in ("STORE_MISMATCH", "STORE_UNAVAILABLE"), opened.stdout


@pytest.mark.parametrize("ruin", ["empty", "text", "half", "a-tenth", "both-meta-pages-only"])
def test_a_ruined_store_is_refused_by_kith_serve_in_one_line(folder: Path, ruin: str) -> None:
    spoil(folder, ruin)
    before = (folder / STORE_FILE).read_bytes()
    check_refused(*serve_refused(folder))
    assert (folder / STORE_FILE).read_bytes() == before, "what is refused is not touched"


def test_a_folder_in_the_place_of_the_store_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "data" / STORE_FILE).mkdir(parents=True)
    check_refused(*serve_refused(tmp_path / "data"))


def test_a_file_in_the_place_of_the_data_folder_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a letter")
    check_refused(*serve_refused(tmp_path / "data"))


def test_an_untouched_store_opens(folder: Path) -> None:
    command = [sys.executable, "-c", _OPEN_AND_READ, str(folder)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "OPENED\n"


def spoil(folder: Path, ruin: str) -> None:
    store = folder / STORE_FILE
    store.write_bytes(RUINED[ruin](store.read_bytes()))


def check_refused(status: int, said: str) -> None:
    assert status == 1, f"status {status}:\n{said}"
    assert "Traceback" not in said
    assert said.startswith("kith: "), said
    assert len(said.splitlines()) == 1, said
