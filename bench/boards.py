"""The interest graph: checks of boards in process and over HTTP, pages of a board's followers, and an import of pins.

The reader follows half of 1,000 owners, and has unfollowed 5,000 boards of one of them. The owner of the big board has
1 M followers.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path

import msgspec
import numpy as np

from bench.figures import DATA_SETS, KEY, SECONDS, Figure, Silent, generated, imported, server
from bench.load import request, run
from bench.routes import API
from kith.boards.board import Board, board_record
from kith.boards.following import CHECKED_MAX
from kith.commands.edges import import_pins
from kith.core.ids import NodeId
from kith.core.paging import Mark, Window
from kith.graph.edge import Direction, Edge, EdgeWrite, State
from kith.graph.graphs import BOARD_FOLLOWS, BOARD_UNFOLLOWS, BOARDS, FOLLOWS
from kith.graph.shapes import Listing
from kith.run.config import Settings
from kith.run.services import Services, open_services

_OWNERS, _BOARDS_EACH, _UNFOLLOWED = 1_000, 5, 5_000
_READER, _FIRST = NodeId(7), 50_000_000
_FOLLOWERS = 1_000_000
_CALLS, _CALLS_A_ROUND, _PAGES = 10_000, 50, 400
_REQUESTS, _CONNECTIONS = 40_000, 16
_ANSWER_BYTES = 50
_PINNERS, _PINS_EACH, _ITEMS = 40_000, 20, 10_000
_BATCH = 2_000
_BatchCheck = tuple[list[int], list[int]]


def _owners() -> list[NodeId]:
    return [NodeId(_FIRST + at) for at in range(_OWNERS)]


async def _boards(services: Services) -> tuple[list[int], list[int]]:
    """Boards of many owners, and those of the first owner that the reader unfollowed, stored as the routes would."""
    number, owners = services.stores.graph.graphs.number, _owners()
    made = [(owner, services.posts.snowflakes.next()) for owner in owners for _ in range(_BOARDS_EACH)]
    many = [(owners[0], services.posts.snowflakes.next()) for _ in range(_UNFOLLOWED)]
    ends = [(BOARDS, owner, board) for owner, board in made + many]
    ends += [(FOLLOWS, _READER, owner) for owner in owners[::2]]
    ends += [(BOARD_UNFOLLOWS, _READER, board) for _, board in many]
    ends += [(BOARD_FOLLOWS, _READER, board) for owner, board in made[::3] if owner in owners[1::2]]
    version = services.stores.graph.clock.next()
    for at in range(0, len(made + many), _BATCH):
        some = (made + many)[at : at + _BATCH]
        await services.posts.store.put([board_record(Board(owner, id_, 1, "a board"), version) for owner, id_ in some])
    for at in range(0, len(ends), _BATCH):
        await services.stores.store.apply(
            [
                EdgeWrite(Edge(number(graph), NodeId(source), NodeId(to), State.NORMAL, 1, version))
                for graph, source, to in ends[at : at + _BATCH]
            ]
        )
    return [board for _, board in made], [board for _, board in many]


def _measured(folder: Path, work: Callable[[Services], Awaitable[list[Figure]]]) -> list[Figure]:
    async def measure() -> list[Figure]:
        async with open_services(Settings(data=str(folder / "boards"), durability="relaxed")) as services:
            return await work(services)

    return asyncio.run(measure())


def boards_check(folder: Path) -> list[Figure]:
    """Checks of 25 boards; of 25 users and boards; and of 25 boards of the owner with 5,000 unfollowed ones."""

    async def work(services: Services) -> list[Figure]:
        boards, many = await _boards(services)
        users = list(map(int, _owners()))
        mixed = [(_drawn(users, 12, call), _drawn(boards, 13, call)) for call in range(_CALLS)]
        only: list[_BatchCheck] = [([], _drawn(boards, CHECKED_MAX, call)) for call in range(_CALLS)]
        unfollowed: list[_BatchCheck] = [([], _drawn(many, CHECKED_MAX, call)) for call in range(_CALLS)]
        calls, checks, worst = [await _rate(services, asked) for asked in (mixed, only, unfollowed)]
        says = f"{_OWNERS:,} owners, {len(boards):,} boards"
        return [
            Figure("boards-check", checks * CHECKED_MAX, "checks/s", ">= 300,000", data=says),
            Figure(
                "boards-check-5000",
                worst * CHECKED_MAX,
                "checks/s",
                "as boards-check",
                data=f"{says}; of 5,000 unfollowed",
            ),
            Figure("boards-check-calls", calls, "calls/s", ">= 10,000", data=f"{says}; 12 users and 13 boards a call"),
        ]

    return _measured(folder, work)


def _drawn(ids: Sequence[int], count: int, seed: int) -> list[int]:
    return random.Random(seed).sample(ids, count)


async def _rate(services: Services, asked: Sequence[_BatchCheck]) -> float:
    """Calls per second of CPU time: the best of several short rounds, because other work on the machine slows some."""
    rates = []
    for at in range(0, len(asked), _CALLS_A_ROUND):
        some = asked[at : at + _CALLS_A_ROUND]
        started = time.process_time()
        for users, boards in some:
            await services.board_following.check(_READER, users, boards)
        rates.append(len(some) / (time.process_time() - started))
    return max(rates)


def boards_check_http(folder: Path) -> list[Figure]:
    """One board per request, and 25 users and boards per request; 16 connections, one API process."""
    settings = Settings(data=str(folder / "boards-http"), durability="relaxed")

    async def fill() -> list[int]:
        async with open_services(settings) as services:
            return (await _boards(services))[0]

    boards = asyncio.run(fill())
    with server(settings) as at:
        one, many = [
            run(at.port, partial(make, boards), connections=_CONNECTIONS, seconds=SECONDS, least_bytes=_ANSWER_BYTES)
            for make in (_requests, _batches)
        ]
    says = f"{len(boards):,} boards"
    return [
        Figure("boards-check-http", one.rate, "checks/s", ">= 15,000", data=says),
        Figure("boards-check-http-25", many.rate, "calls/s", "", data=f"{says}; 12 users and 13 boards a call"),
    ]


def _requests(boards: Sequence[int]) -> list[bytes]:
    chosen = random.Random(5).choices(boards, k=_REQUESTS)
    return [request("GET", f"{API}/boards/{board}/follow", KEY, user=_READER) for board in chosen]


def _batches(boards: Sequence[int]) -> list[bytes]:
    owners = list(map(int, _owners()))
    asked = [(_drawn(owners, 12, call), _drawn(boards, 13, call)) for call in range(_CALLS)]
    bodies = [
        msgspec.json.encode({"users": list(map(str, users)), "boards": list(map(str, some))}) for users, some in asked
    ]
    return [request("POST", f"{API}/boards/check", KEY, body, user=_READER) for body in bodies]


def board_followers(folder: Path) -> list[Figure]:
    """Pages of 20 followers of a board, at random depths. 1 M users follow its owner; thousands follow the board alone,
    or unfollowed it.
    """
    data = generated(folder, 1_200_000, 5_000_000, {"dana": _FOLLOWERS, "carol": 10_000})

    async def work(services: Services) -> list[Figure]:
        graph, owner = services.stores.graph, NodeId(1)
        board = (await services.boards.create(owner, "of Dana")).board.id
        version, number = graph.clock.next(), graph.graphs.number
        strangers = [(BOARD_FOLLOWS, 10_000_000 + at) for at in range(5_000)]
        followers = (await services.stores.store.page(_in(graph.graphs.number(FOLLOWS), owner), Window(1_000))).items
        unfollowers = [(BOARD_UNFOLLOWS, mark.id) for mark in followers]
        await services.stores.store.apply(
            [
                EdgeWrite(Edge(number(name), NodeId(user), NodeId(board), State.NORMAL, followers[0].position, version))
                for name, user in strangers + unfollowers
            ]
        )
        chosen, took = random.Random(3), []
        for _ in range(_PAGES):
            after = Mark(followers[0].position - chosen.randrange(2), chosen.randrange(1_200_000))
            started = time.perf_counter()
            await services.board_following.followers(owner, board, Window(20, after=after))
            took.append((time.perf_counter() - started) * 1000)
        count = await services.board_following.follower_count(owner, board)
        says = f"{data.says}; {count:,} followers"
        return [
            Figure("board-followers-p50", float(np.median(took)), "ms", "", data=says),
            Figure("board-followers-p99", float(np.quantile(took, 0.99)), "ms", "< 2", data=says),
        ]

    settings = imported(folder, data)

    async def measure() -> list[Figure]:
        async with open_services(settings) as services:
            return await work(services)

    return asyncio.run(measure())


def import_file(folder: Path) -> list[Figure]:
    """Import real pins, or generated ones if there are none, into an empty folder; boards and posts included."""
    file, says = DATA_SETS / "pins" / "train.txt.xz", "Pinterest pins (Geng et al. 2015)"
    if not file.exists():
        file, says = folder / "pins.txt", "generated pins"
        chosen = np.random.default_rng(2)
        with file.open("w") as lines:
            for user in range(_PINNERS):
                print(user, *chosen.zipf(1.5, _PINS_EACH) % _ITEMS, file=lines)
    cpu, started = time.process_time(), time.perf_counter()
    done = import_pins(Settings(data=str(folder / "pins"), durability="relaxed"), file, Silent())
    rate, cpu_rate = done.rows / (time.perf_counter() - started), done.rows / (time.process_time() - cpu)
    says = f"{says}, {done.rows:,} rows"
    return [
        Figure("import-pins", rate, "pins/s", ">= 200,000", data=says),
        Figure("import-pins-cpu", cpu_rate, "pins/s of CPU time", "", data=says),
    ]


def _in(graph: int, node: int) -> Listing:
    return Listing(graph, node, Direction.IN)
