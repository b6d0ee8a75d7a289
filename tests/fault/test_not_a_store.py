"""Files and folders that are not a store, or a damaged one, are refused in one clear line: by the engine and `kith
serve`.

Each is opened in its own process, because reading beyond the end of a mapped file kills the process (SIGBUS).
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from processes import EngineProcess, engine_over, serve_refused

from kith.engines.embedded.environment import Environment
from kith.engines.embedded.store_file import STORE_FILE

_PAGE = 4096
_EDGES = 5_000
_WHOLE = f"WHOLE {_EDGES}\n"
_OPEN_AND_READ = """
import asyncio, sys
from pathlib import Path
from kith.core.errors import KithError
from kith.engines.embedded.commits import CommitQueue
from kith.engines.embedded.edge_store import EmbeddedEdges
from kith.engines.embedded.environment import Environment
from kith.graph.audit import audit

async def read(environment):
    store = EmbeddedEdges(environment, CommitQueue(environment))
    found = [await audit(store, name, number) for name, number in environment.graph_numbers().items()]
    print("WHOLE" if all(one.clean for one in found) else "DAMAGED", sum(one.edges for one in found))

try:
    with Environment(Path(sys.argv[1])) as environment:
        asyncio.run(read(environment))
except KithError as error:
    print(error.code, error.message)
"""


@pytest.fixture(scope="module")
def whole_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with `_EDGES` edges, closed."""
    folder = tmp_path_factory.mktemp("whole") / "data"
    with engine_over(folder) as engine:
        engine("write", 0, _EDGES)
    return folder


@pytest.fixture
def folder(whole_store: Path, tmp_path: Path) -> Path:
    """A copy of the whole store, for one test to damage."""
    return Path(shutil.copytree(whole_store, tmp_path / "data"))


def cut(pages: float) -> Callable[[bytes], bytes]:
    """Keep only the first `pages` pages."""
    return lambda content: content[: int(pages * _PAGE)]


def painted(filler: bytes, first: int, last: int | None) -> Callable[[bytes], bytes]:
    """Overwrite the pages from `first` up to `last`."""

    def paint(content: bytes) -> bytes:
        end = len(content) if last is None else last * _PAGE
        return content[: first * _PAGE] + filler * (end - first * _PAGE) + content[end:]

    return paint


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": cut(0),
    "text": lambda _: b"This is not a store but a letter.\n" * 400,
    "a-short-text": lambda _: b"hello\n",
    "half-a-meta-page": cut(0.5),
    "one-page": cut(1),
    "both-meta-pages-only": cut(2),
    "half": lambda content: content[: len(content) // 2],
    "half-and-torn": lambda content: content[: len(content) // 2 + 1_001],
    "a-tenth": lambda content: content[: len(content) // 10],
    "last-page-missing": lambda content: content[:-_PAGE],
    "meta-pages-zeroed": painted(b"\0", 0, 2),
    "first-meta-page-torn": painted(b"\xff", 0, 1),
    "zeroes-after-the-meta-pages": painted(b"\0", 2, None),
    "noise-after-the-meta-pages": painted(b"\xa5", 2, None),
}


@pytest.mark.parametrize("ruin", DAMAGES)
def test_a_damaged_store_is_refused_by_the_engine_unless_nothing_is_missing(folder: Path, ruin: str) -> None:
    damage(folder, ruin)
    status, output = open_and_read(folder)
    assert status == 0, f"died with {status}:\n{output}"
    assert output.startswith(("STORE_MISMATCH", "STORE_UNAVAILABLE")) or output == _WHOLE, output


@pytest.mark.parametrize("ruin", ["empty", "text", "half", "a-tenth", "both-meta-pages-only"])
def test_a_damaged_store_is_refused_by_kith_serve_in_one_line(folder: Path, ruin: str) -> None:
    damage(folder, ruin)
    before = (folder / STORE_FILE).read_bytes()
    check_refused(*serve_refused(folder))
    assert (folder / STORE_FILE).read_bytes() == before, "a refused store must not be changed"


def test_a_folder_in_place_of_the_store_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "data" / STORE_FILE).mkdir(parents=True)
    check_refused(*serve_refused(tmp_path / "data"))


def test_a_file_in_place_of_the_data_folder_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a letter")
    check_refused(*serve_refused(tmp_path / "data"))


def test_a_store_truncated_while_open_ends_its_process_and_is_refused_by_the_next(folder: Path) -> None:
    """The system kills a process that reads beyond the end of a mapped file (SIGBUS). No read answers from missing
    pages.
    """
    with engine_over(folder) as engine:
        assert engine("read", 0) == {"exists": True}
        os.truncate(folder / STORE_FILE, (folder / STORE_FILE).stat().st_size // 10)
        with pytest.raises(AssertionError, match="the engine died with"):
            read_all(engine)
        assert engine.process.wait() == -signal.SIGBUS
    status, output = open_and_read(folder)
    assert (status, output.split()[0]) == (0, "STORE_MISMATCH"), output


def test_an_untouched_store_opens(folder: Path) -> None:
    assert open_and_read(folder) == (0, _WHOLE)


def test_a_store_whose_last_pages_were_never_written_opens(folder: Path) -> None:
    """LMDB skips pages that a transaction took and returned. So a sound file may be shorter than its header says."""
    chosen = random.Random(0)
    with Environment(folder, durability="relaxed") as environment:
        db = environment.lmdb.open_db(b"spare")
        for _ in range(500):
            with environment.lmdb.begin(write=True, db=db) as txn:
                keys = [chosen.randbytes(20) for _ in range(500)]
                for key in keys:
                    txn.put(key, chosen.randbytes(chosen.choice((10, 900, 3_000))))
                for key in keys:
                    txn.delete(key)
            short = environment.bytes_used() - (folder / STORE_FILE).stat().st_size
            if short > 0:
                break
    assert short > 0, "this LMDB writes all of its pages, so the test checks nothing"
    assert open_and_read(folder) == (0, _WHOLE)


def read_all(engine: EngineProcess) -> None:
    """Read each edge."""
    for source in range(_EDGES):
        assert engine("read", source) == {"exists": True}


def open_and_read(folder: Path) -> tuple[int, str]:
    """Open the folder in a new process and audit it. Returns the exit status and the output: result or error."""
    command = [sys.executable, "-c", _OPEN_AND_READ, str(folder)]
    process = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return process.returncode, process.stdout + process.stderr


def damage(folder: Path, ruin: str) -> None:
    store = folder / STORE_FILE
    store.write_bytes(DAMAGES[ruin](store.read_bytes()))


def check_refused(status: int, output: str) -> None:
    assert status == 1, f"status {status}:\n{output}"
    assert "Traceback" not in output
    assert output.startswith("kith: "), output
    assert len(output.splitlines()) == 1, output
