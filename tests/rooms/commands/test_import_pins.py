"""A file of pins becomes boards, posts and pins once, by either path and however often the import is interrupted."""

from __future__ import annotations

import asyncio
import lzma
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest
from edge_imports import Silent, graph_content
from store_wrappers import ProcessDied

from kith.commands.edges import import_pins
from kith.commands.transfer import pins
from kith.commands.transfer.loading import ImportResult
from kith.commands.transfer.pins import NUMBERS_MAX, board_of, post_of
from kith.core.errors import BadRequest
from kith.core.ids import NodeId
from kith.core.paging import Window
from kith.people.privacy import SYSTEM
from kith.run.config import Settings
from kith.run.services import Services, open_services

Answer = TypeVar("Answer")
FILE = "1 10 11 12\n2 11 13\n3 10\n"


def file_of(folder: Path, text: str, name: str = "pins.txt") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def bring(set_to: Settings, path: Path, progress: Silent | None = None) -> ImportResult:
    """`kith import pins`."""
    return import_pins(set_to, path, progress or Silent())


def with_services(set_to: Settings, ask: Callable[[Services], Awaitable[Answer]]) -> Answer:
    async def run() -> Answer:
        async with open_services(set_to) as services:
            return await ask(services)

    return asyncio.run(run())


async def boards_and_pins(services: Services) -> dict[int, list[str]]:
    """Texts of the posts on the board of each user from 1 to 40, the newest pin first."""
    found = {}
    for user in range(1, 41):
        boards, _ = await services.boards.of_owner(SYSTEM, NodeId(user), Window(10))
        for board in boards:
            shown, page = await services.pins.of_board(SYSTEM, board.id, Window(50))
            assert not page.more_after
            assert await services.pins.counts([board.id]) == [len(shown)]
            assert board.owner not in found
            found[board.owner] = [post.text for post in shown]
    return found


def expected(text: str) -> dict[int, list[str]]:
    lines = [list(map(int, line.split())) for line in text.splitlines()]
    return {user: [f"Item {item}" for item in reversed(list(dict.fromkeys(items)))] for user, *items in lines}


def test_users_get_boards_and_items_become_posts_of_their_first_pinner(set_to: Settings, tmp_path: Path) -> None:
    done = bring(set_to, file_of(tmp_path, FILE))
    assert (done.way, done.rows, done.applied, done.refused) == ("bulk", 6, 6, 0)

    async def ask(services: Services) -> tuple[dict[int, list[str]], list[int], list[int]]:
        posts = await services.posts.read([post_of(item) for item in (10, 11, 12, 13)])
        shown = await services.posts.outbox(SYSTEM, NodeId(1), Window(10))
        return await boards_and_pins(services), [post.author for post in posts if post], [p.id for p in shown[0]]

    found, authors, outbox = with_services(set_to, ask)
    assert found == expected(FILE)
    assert authors == [1, 1, 1, 2]
    assert sorted(outbox) == [post_of(item) for item in (10, 11, 12)]


def test_importing_a_file_again_changes_nothing_and_another_file_adds(set_to: Settings, tmp_path: Path) -> None:
    path = file_of(tmp_path, FILE)
    bring(set_to, path)

    async def change(services: Services) -> None:
        await services.boards.change(NodeId(2), board_of(2), name="Soups")
        await services.pins.remove(NodeId(1), board_of(1), post_of(12))

    with_services(set_to, change)
    again = bring(set_to, path)
    assert (again.way, again.applied) == ("merge", 0)
    bring(set_to, file_of(tmp_path, "3 14 13\n4 10\n", "more.txt"))

    async def ask(services: Services) -> tuple[dict[int, list[str]], str]:
        return await boards_and_pins(services), (await services.boards.get(SYSTEM, board_of(2))).name

    found, name = with_services(set_to, ask)
    assert name == "Soups"
    assert found[1] == ["Item 11", "Item 10"]
    assert sorted(found[3]) == ["Item 10", "Item 13", "Item 14"]
    assert found[4] == ["Item 10"]


@pytest.mark.usefixtures("tiny", "small_chunks")
@pytest.mark.parametrize("calls", [0, 1, 5, 12, 16, 20])
def test_an_import_of_pins_cut_short_resumes_and_ends_the_same(
    set_to: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls: int
) -> None:
    monkeypatch.setattr(pins, "CHUNK_BYTES", 50)
    monkeypatch.setattr(pins, "_BATCH", 3)
    chosen = random.Random(calls)
    text = "".join(f"{user} {' '.join(map(str, chosen.sample(range(90), 5)))}\n" for user in range(1, 41))
    path = file_of(tmp_path, text)
    with pytest.raises(ProcessDied):
        bring(set_to, path, Silent(calls))
    done = bring(set_to, path)
    assert (done.way, done.refused) == ("bulk", 0)
    assert with_services(set_to, boards_and_pins) == expected(text)
    assert len(graph_content(set_to, "pins").edges) == 200
    assert graph_content(set_to, "boards").counts
    assert graph_content(set_to, "authored").counts


def test_lines_that_are_no_pins_are_refused_by_number(set_to: Settings, tmp_path: Path) -> None:
    lines = ["# users and items", "1 10 11", "", "2", "3 x", f"4 {NUMBERS_MAX}", "5 -1", f"6\t10 {NUMBERS_MAX - 1}"]
    path = tmp_path / "pins.txt.xz"
    path.write_bytes(lzma.compress("\n".join(lines).encode()))
    report = tmp_path / "refused.tsv"
    done = import_pins(set_to, path, Silent(), report=report)
    assert (done.applied, done.refused) == (4, 4)
    assert [line.split("\t")[0] for line in report.read_text().splitlines()] == ["4", "5", "6", "7"]


def test_the_fast_and_the_slow_reader_agree_on_clean_lines(tmp_path: Path) -> None:
    chosen = random.Random(1)
    text = "".join(
        f"{user} {'  '.join(str(chosen.randrange(10**12)) for _ in range(chosen.randint(1, 9)))}{end}"
        for user in range(50)
        for end in ("\n", "\r\n", "\n\n")
    )
    fast = [chunk.edges.tolist() for chunk in pins.read_pins(file_of(tmp_path, text))]
    slow = [chunk.edges.tolist() for chunk in pins.read_pins(file_of(tmp_path, "#\n" + text))]
    assert fast == slow


@pytest.mark.parametrize(("name", "content"), [("pins.csv.xz", b"no xz"), ("pins.ndjson", b"{}"), ("pins", b"1 2")])
def test_a_file_that_cannot_be_read_is_refused(set_to: Settings, tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadRequest):
        bring(set_to, tmp_path / name)
    assert bring(set_to, file_of(tmp_path, FILE, "other.txt")).applied == 6
