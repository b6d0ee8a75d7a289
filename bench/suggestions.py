"""Suggestions: one ranking over two hops, a page of a stored ranking, and the job that ranks everyone."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.figures import DATA_SETS, ROOT, Data, Figure, imported, real_graph, with_peer
from kith.commands.transfer.formats import EdgeFileWriter, read
from kith.core.ids import NodeId
from kith.core.paging import Window
from kith.run.config import Settings
from kith.run.opening import wiring
from kith.suggestions.suggestions import Suggestions

_WORST_USERS, _DEGREE = 8, 500
_HEAVY_USERS = 100
_ROUNDS = 25
_PEER = "SQLite, in process, the same join in SQL"
_PEER_SQL = (
    "SELECT b.d, count(*) n FROM follows a JOIN follows b ON b.s = a.d WHERE a.s = ?1 AND b.d <> ?1"
    " AND b.d NOT IN (SELECT d FROM follows WHERE s = ?1) GROUP BY b.d ORDER BY n DESC, b.d DESC LIMIT 1000"
)

Pairs = NDArray[np.int64]


def suggest(folder: Path) -> list[Figure]:
    """Rankings for users with exactly 500 x 500 follows, and for the heaviest users of a real graph; stored pages."""
    worst = _worst_case(folder)
    users = list(range(1, _WORST_USERS + 1))
    took, kept = _rankings(imported(folder, worst), users * _ROUNDS)
    peer_ms = _sqlite_ms(folder, worst, users)
    figures = [
        with_peer(_of(took, "suggest", "< 50", worst.says), _PEER, peer_ms, lower_is_better=True),
        Figure("suggest-p50", _percentile(took, 50), "ms p50", "", data=worst.says),
        Figure("suggest-kept", _percentile(kept, 99), "ms p99", "", data=f"{worst.says}; a page of 20, kept"),
    ]
    for name, data in _graphs(folder):
        heavy, visits = _heaviest(data)
        took, _ = _rankings(imported(folder, data), heavy * (_ROUNDS // 5))
        says = f"{data.says}; the {len(heavy)} users with most to walk, {visits:,} visits on average"
        figures.append(_of(took, f"suggest-{name}", "< 50", says))
        figures.append(Figure(f"suggest-{name}-p50", _percentile(took, 50), "ms p50", "", data=says))
    return figures


def suggest_all(folder: Path) -> list[Figure]:
    """`kith suggest` in a process of its own: its rate, and its peak private memory."""
    figures = []
    for name, data in _graphs(folder):
        settings = imported(folder, data)
        command = [sys.executable, "-c", _JOB, settings.data]
        answer = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
        rate, users, peak_mb = map(float, answer.stdout.split())
        says = f"{data.says}; {users:,.0f} users who follow somebody"
        figures.append(Figure(f"suggest-all-{name}", rate, "users/s", "", data=says))
        figures.append(Figure(f"suggest-all-{name}-memory", peak_mb, "MB", "flat", data=says))
    return figures


# Measures private memory (RssAnon), without mapped pages of files, which the kernel may take back at any time.
_JOB = """
import re, sys, threading, time
from pathlib import Path
from kith.commands.suggest import suggest_all
from kith.run.config import Settings
peak = 0
def watch():
    global peak
    while True:
        peak = max(peak, int(re.search(r"RssAnon:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]))
        time.sleep(0.02)
class Silent:
    def counted(self, users): pass
    def ranked(self, done, users): pass
threading.Thread(target=watch, daemon=True).start()
started = time.perf_counter()
done = suggest_all(Settings(data=sys.argv[1]), Silent())
print(done.ranked / (time.perf_counter() - started), done.ranked, peak / 1024)
"""


def _graphs(folder: Path) -> list[tuple[str, Data]]:
    """Real graphs by short name: one with dense lists, one with a heavy tail, one with many mutual follows."""
    found = []
    slice_, acted = (
        DATA_SETS / "higgs" / "follows-slice.edgelist.gz",
        DATA_SETS / "higgs" / "interaction-follows.txt.gz",
    )
    if slice_.exists():
        found.append(("higgs", Data(slice_, "Higgs follows (SNAP), complete lists of 5,395 users, 355,060 edges")))
    if acted.exists():
        found.append(("higgs-acted", Data(acted, "Higgs, who once acted on whom (SNAP), 461,192 edges")))
    return [*found, ("whole", real_graph(folder))]


def _worst_case(folder: Path) -> Data:
    """Users who follow exactly 500, each of whom follows exactly 500 of a million, with random 63-bit ids."""
    chosen = np.random.default_rng(11)
    pool = chosen.integers(1 << 40, 1 << 62, 1_000_000)
    weights = np.cumsum(np.arange(1, len(pool) + 1) ** -0.5)  # some users have far more followers than others
    file = folder / "worst.tsv"
    with EdgeFileWriter(file) as writer:
        for user in range(1, _WORST_USERS + 1):
            followees = chosen.integers(1 << 62, (1 << 63) - 1, _DEGREE)
            writer.write(_edges(np.full(_DEGREE, user), followees))
            for followee in followees.tolist():
                drawn = np.unique(np.searchsorted(weights, chosen.random(2 * _DEGREE) * weights[-1]))
                writer.write(_edges(np.full(_DEGREE, followee), pool[chosen.permutation(drawn)[:_DEGREE]]))
    return Data(file, f"generated, {_WORST_USERS} users with exactly 500 x 500, random 63-bit ids")


def _edges(sources: Pairs, destinations: Pairs) -> Pairs:
    return np.column_stack([sources, destinations, np.arange(len(sources))]).astype(np.int64)


def _heaviest(data: Data) -> tuple[list[int], int]:
    """The users whose walks visit most entries, and the mean number of visits."""
    edges = np.unique(np.concatenate([chunk.edges[:, :2] for chunk in read(data.file)]), axis=0)
    edges = edges[edges[:, 0] != edges[:, 1]]
    sources, degrees = np.unique(edges[:, 0], return_counts=True)
    at = np.minimum(np.searchsorted(sources, edges[:, 1]), len(sources) - 1)
    seen = np.where(sources[at] == edges[:, 1], np.minimum(degrees[at], _DEGREE), 0)
    starts = np.flatnonzero(np.r_[True, edges[1:, 0] != edges[:-1, 0]])
    # a walk takes the 500 newest follows of a user who has more; which these are hardly matters to the sum
    visits = np.add.reduceat(seen, starts) * np.minimum(1, _DEGREE / degrees)
    heavy = np.argsort(visits)[::-1][:_HEAVY_USERS]
    return sources[heavy].tolist(), int(visits[heavy].mean())


def _rankings(settings: Settings, users: list[int]) -> tuple[list[float], list[float]]:
    """Seconds of each ranking, and of a page of 20 of the stored ranking."""

    async def work(suggestions: Suggestions) -> tuple[list[float], list[float]]:
        ranked = [
            await _timed(suggestions.followees(NodeId(user)), lambda known, u=user: suggestions.rank(NodeId(u), known))
            for user in users
        ]
        pages = []
        for user in users:
            await suggestions.page(NodeId(user), Window(20))
            started = time.perf_counter()
            found = await suggestions.page(NodeId(user), Window(20))
            pages.append(time.perf_counter() - started)
            assert found.items
        return ranked, pages

    async def run() -> tuple[list[float], list[float]]:
        async with wiring.open_stores(settings, "bench") as stores:
            return await work(wiring.suggestions(settings, stores))

    return asyncio.run(run())


async def _timed(first: Awaitable[object], then: Callable[..., Awaitable[object]]) -> float:
    started = time.perf_counter()
    await then(await first)
    return time.perf_counter() - started


def _sqlite_ms(folder: Path, data: Data, users: list[int]) -> float:
    """The median of the same walk as one SQLite query, over a table that is its own index."""
    base = sqlite3.connect(folder / "suggest.sqlite")
    base.execute("CREATE TABLE follows (s INTEGER, d INTEGER, PRIMARY KEY (s, d)) WITHOUT ROWID")
    for chunk in read(data.file):
        base.executemany("INSERT OR IGNORE INTO follows VALUES (?, ?)", chunk.edges[:, :2].tolist())
    base.commit()
    took = []
    for user in users:
        started = time.perf_counter()
        found = base.execute(_PEER_SQL, (user,)).fetchall()
        took.append(time.perf_counter() - started)
        assert len(found) == 1_000
    base.close()
    return float(np.median(took)) * 1000


def _of(took: list[float], name: str, budget: str, says: str) -> Figure:
    return Figure(name, _percentile(took, 99), "ms p99", budget, data=says)


def _percentile(took: list[float], percent: int) -> float:
    return float(np.percentile(took, percent)) * 1000
