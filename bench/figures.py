"""The figures that measures return, the data they run on, and the servers they start."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import httpx
import msgspec
import numpy as np

from kith.commands.communities import Community, stream
from kith.commands.edges import import_edges
from kith.commands.transfer.formats import EdgeFileWriter, read
from kith.run.config import Settings

KEY = "kith_key-of-the-benchmarks"
ROOT = Path(__file__).resolve().parents[1]
SECONDS = float(os.environ.get("KITH_BENCH_SECONDS", "6"))
"""Seconds that a load over HTTP runs, and its peer likewise."""
DATA_SETS = Path(os.environ.get("KITH_DATA_SETS", ROOT.parent / "shared" / "data"))


class Figure(msgspec.Struct):
    """One line of the result. `budget`: the target, as text; `ratio`: Kith's value to the peer's."""

    name: str
    value: float
    unit: str
    budget: str
    peer: str | None = None
    peer_value: float | None = None
    ratio: float | None = None
    data: str = ""
    command: str = ""


class Data(NamedTuple):
    """A file of edges, and its description."""

    file: Path
    says: str


class Silent:
    """Import progress that is not shown."""

    def reading(self, bytes_read: int, rows: int) -> None: ...
    def writing(self, rows_done: int, rows: int) -> None: ...


def with_peer(figure: Figure, peer: str, peer_value: float | None, *, lower_is_better: bool = False) -> Figure:
    """The figure with that of a peer (what a user would use instead), measured in the same run."""
    if peer_value is None:
        return figure
    ratio = peer_value / figure.value if lower_is_better else figure.value / peer_value
    return msgspec.structs.replace(figure, peer=peer, peer_value=peer_value, ratio=round(ratio, 2))


def machine() -> str:
    """This machine, in one line."""
    model = next((line.split(":")[1].strip() for line in _cpuinfo() if line.startswith("model name")), "unknown")
    return f"{os.cpu_count()} cores of {model}, Python {platform.python_version()}, {platform.system()}"


def _cpuinfo() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text().splitlines() if path.exists() else []


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """A temporary folder, deleted afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="kith-bench-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def real_graph(folder: Path) -> Data:
    """The largest real follow graph on this machine, or a generated one of its size."""
    file = DATA_SETS / "slashdot" / "follows.txt.gz"
    if file.exists():
        return Data(file, "Slashdot follow graph (SNAP), 870,161 edges")
    return generated(folder, 80_000, 870_000)


def generated(folder: Path, users: int, edges: int, celebrities: dict[str, int] | None = None) -> Data:
    """Generate a graph into a file."""
    file = folder / f"generated-{edges}.tsv"
    if not file.exists():
        with EdgeFileWriter(file) as writer:
            for chunk in stream(Community(users, edges, 1, celebrities or {})):
                writer.write(chunk)
    return Data(file, f"generated, {users:,} users, {edges:,} edges")


def imported(folder: Path, data: Data) -> Settings:
    """A data folder with the graph in it. Measures share it, so write to a copy only (`copied`)."""
    settings = Settings(data=str(folder / f"store-{data.file.name}"), port=free_port(), api_keys=(KEY,), workers=1)
    if not Path(settings.data).exists():
        import_edges(settings, "follows", data.file, Silent())
    return settings


def copied(store: Settings, name: str, *, workers: int = 1) -> Settings:
    """A copy of a store for a measure that writes, so that other measures of the run find it unchanged."""
    folder = Path(f"{store.data}-{name}")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(store.data, folder)
    return msgspec.structs.replace(store, data=str(folder), port=free_port(), workers=workers)


def pairs_of(data: Data, count: int) -> list[tuple[int, int]]:
    """`count` pairs to check, half of them edges, in random order; the same for every peer."""
    edges = np.concatenate([chunk.edges[:, :2] for chunk in read(data.file)])
    random = np.random.default_rng(7)
    present = edges[random.integers(0, len(edges), count // 2)]
    absent = np.column_stack([random.permutation(present[:, 0]), random.permutation(present[:, 1])])
    pairs = random.permutation(np.concatenate([present, absent]))
    return [(int(source), int(destination)) for source, destination in pairs]


def free_port() -> int:
    """A free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def serving(settings: Settings, command: str = "serve") -> Iterator[subprocess.Popen[bytes]]:
    """Start `kith serve` or `kith api` as a user does; yields at once, before it is ready."""
    started = [sys.executable, "-m", "kith", command, "--data", settings.data, "--port", str(settings.port)]
    started += ["--workers", str(settings.workers), "--api-key", KEY]
    process = subprocess.Popen(started, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


@contextlib.contextmanager
def server(settings: Settings) -> Iterator[Settings]:
    """Run `kith serve`, with one API process unless settings say otherwise; yields once it is ready."""
    with serving(settings):
        wait_for(f"http://127.0.0.1:{settings.port}/readyz")
        yield settings


def wait_for(url: str, within_s: float = 20) -> None:
    """Wait until `url` answers 200."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        with contextlib.suppress(httpx.TransportError):
            if httpx.get(url, timeout=1).status_code == 200:
                return
        time.sleep(0.05)
    raise RuntimeError(f"{url} did not answer")
