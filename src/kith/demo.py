"""`kith demo`: a community, a running server, ten questions with their answers and times."""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import msgspec
from rich.console import Console
from rich.progress import Progress

from kith import app, chores, generate, serving
from kith.config import Settings
from kith.core.errors import BadRequest, KithError
from kith.transfer.formats import Writer

_USERS, _EDGES, _DANA = 50_000, 500_000, 20_000
_READY_S = 20.0
_ANSWER_CHARS = 160


class Query(NamedTuple):
    """One question to show."""

    says: str
    method: str
    path: str
    body: Any = None
    user: int | None = None


class _Quiet:
    """Shows an import as one bar."""

    def __init__(self, bars: Progress) -> None:
        self._bars, self._task = bars, bars.add_task("loading", total=1.0)

    def reading(self, bytes_read: int, rows: int) -> None:
        self._bars.update(self._task, description=f"reading, {rows:,} edges", total=None)

    def writing(self, rows_done: int, rows: int) -> None:
        self._bars.update(self._task, description=f"writing, {rows_done:,} edges", completed=rows_done, total=rows)


def run(settings: Settings, file: Path | None, console: Console, *, stay: bool) -> None:
    """Load, serve, ask; with `stay` leave the server running until it is stopped."""
    key = serving.new_key()
    settings = msgspec.structs.replace(settings, api_keys=(key,))
    _load(settings, file, console)
    facts = chores.summary(settings, "follows")
    if not facts["edges"]:
        raise BadRequest(f"there is no edge to show in {settings.data}; name a file that has some, or none at all")
    console.print(f"{facts['edges']:,} follows in {settings.data}; the most followed user is {facts['top']}.\n")
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(settings,))
    process.start()
    try:
        url = serving.base_url(settings)
        _wait(url, process.is_alive)
        with httpx.Client(base_url=f"{url}/api/v1", headers={"authorization": f"Bearer {key}"}, timeout=10) as client:
            for query in _queries(client, facts["top"]):
                _show(console, client, query)
        console.print(f"\nServer key for this run: [bold]{key}[/bold]")
        if stay:
            console.print(f"Running at {url} (try {url}/docs); stop with Ctrl-C.")
            process.join()
    except KeyboardInterrupt:
        console.print("stopping")
    finally:
        if process.is_alive() and process.pid is not None:
            process.terminate()
        process.join()


def _load(settings: Settings, file: Path | None, console: Console) -> None:
    folder = Path(settings.data)
    with app.open_environment(settings) as environment:
        numbers = environment.graph_numbers()
        with environment.lmdb.begin(environment.graph_db(numbers["follows"])) as txn:
            loaded = txn.stat()["entries"] > 0
    if loaded and file is None:
        console.print(f"Using the community that is in {folder} already.")
        return
    if file is None:
        console.print(
            f"Making up a community: {_USERS:,} people, {_EDGES:,} follows, one of them (Dana) with {_DANA:,}."
        )
        file = folder / "community.tsv.gz"
        community = generate.Community(_USERS, _EDGES, 1, {"dana": _DANA})
        with Writer(file) as writer:
            for chunk in generate.stream(community):
                writer.write(chunk)
    started = time.perf_counter()
    with Progress(console=console, transient=True) as bars:
        done = chores.import_edges(settings, "follows", file, _Quiet(bars))
    seconds = time.perf_counter() - started
    refused = f", {done.refused:,} lines refused" if done.refused else ""
    console.print(f"Loaded {done.applied:,} follows in {seconds:.1f} s{refused}.")


def _queries(client: httpx.Client, star: int) -> list[Query]:
    """Ten questions about the most followed user, one of their followers, and whom that one follows."""
    fan = int(client.get(f"/users/{star}/followers", params={"limit": 1}).json()["items"][0]["id"])
    listed = client.get(f"/users/{fan}/following", params={"limit": 3}).json()["items"]
    other = int(listed[-1]["id"])
    mine = {"graph": "follows", "node": str(fan), "direction": "out"}
    theirs = {"graph": "follows", "node": str(star), "direction": "in"}
    new = star ^ 1 << 40
    pairs = [[str(fan), str(star)], [str(star), str(fan)], [str(other), str(star)]]
    return [
        Query("Does one follow the star?", "GET", f"/graph/follows/{fan}/{star}"),
        Query("Three checks at once", "POST", "/graph/follows/check", {"pairs": pairs}),
        Query("How many followers has the star?", "GET", f"/graph/follows/{star}/in/count"),
        Query("The newest followers", "GET", f"/users/{star}/followers?limit=3"),
        Query("Whom one follows", "GET", f"/users/{fan}/following?limit=3"),
        Query("Friends: follows both ways", "GET", f"/users/{fan}/friends?limit=3"),
        Query("Followers of the star whom one follows", "POST", "/graph/select",
              {"program": {"intersect": [mine, theirs]}, "limit": 3}),
        Query("A newcomer follows the star", "POST", f"/users/{star}/follow", None, new),
        Query("... and is at the top of the list at once", "GET", f"/users/{star}/followers?limit=1"),
        Query("How the newcomer stands to both", "POST", "/relationships", {"targets": [str(star), str(fan)]}, new),
    ]  # fmt: skip


def _show(console: Console, client: httpx.Client, query: Query) -> None:
    headers = {} if query.user is None else {"x-kith-user": str(query.user)}
    started = time.perf_counter()
    answer = client.request(query.method, query.path, json=query.body, headers=headers)
    took_ms = (time.perf_counter() - started) * 1000
    asked = f"{query.method} {query.path}" + (f" {msgspec.json.encode(query.body).decode()}" if query.body else "")
    text = answer.text if len(answer.text) <= _ANSWER_CHARS else answer.text[:_ANSWER_CHARS] + " ..."
    console.print(f"[bold]{query.says}[/bold]  {took_ms:.1f} ms")
    console.print(f"  {asked}\n  {answer.status_code} {text}", markup=False)


def _serve(settings: Settings) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent stops us, once it has said so
    serving.run(settings)


def _wait(url: str, alive: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _READY_S
    while time.monotonic() < deadline:
        if not alive():
            raise KithError("the server did not start; is the port taken? name another with --port")
        try:
            if httpx.get(f"{url}/readyz", timeout=1).status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.05)
    raise KithError(f"the server at {url} was not ready in {_READY_S:.0f} s")
