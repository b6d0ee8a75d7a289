"""Runs the demo: loads and serves a community, lets people post, asks the questions, and keeps the community active."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import FrameType
from typing import Any

import httpx
import msgspec
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress

from kith.api.resources.console import CONSOLE_PATH
from kith.api.resources.web import APP_PATH
from kith.commands.communities import Community, stream
from kith.commands.demo.activity import live
from kith.commands.demo.demo_client import DemoClient, Timing, http_client
from kith.commands.demo.filler import Filler
from kith.commands.demo.people import Cast, choose
from kith.commands.demo.presence import make_present
from kith.commands.demo.questions import LATEST, Scene, TimedAnswer, ask_all
from kith.commands.demo.script import write
from kith.commands.demo.words import Person
from kith.commands.edges import import_edges, summary
from kith.commands.transfer.formats import EdgeFileWriter
from kith.core.errors import BadRequest, KithError
from kith.core.ids import NodeId
from kith.core.trust import tls_verify
from kith.run.config import Settings
from kith.run.opening import keys, wiring
from kith.run.opening.folders import open_environment
from kith.run.serving import processes, supervisor

SEED = 1
"""Seed of what people say and do before the questions."""
_USERS, _EDGES, _DANA = 50_000, 500_000, 20_000
_CLUSTER_SHARE = 50
"""Factor by which the community is smaller on a cluster, where every follow of the file goes through the log."""
_CELEBRITY_FOLLOWERS = 20
"""Followers from which on mentions go through tiers; low, so that a small community shows tiers too."""
_READY_S = 120.0
_TOKEN_S = 24 * 3600
_NEWCOMERS = 1 << 62
"""A newcomer's id is this plus the time in ms; it hardly collides with ids of an app."""


class _OneBar:
    """Shows an import as one progress bar."""

    def __init__(self, bars: Progress) -> None:
        self._bars, self._task = bars, bars.add_task("loading", total=1.0)

    def reading(self, bytes_read: int, rows: int) -> None:
        self._bars.update(self._task, description=f"reading, {rows:,} edges", total=None)

    def writing(self, rows_done: int, rows: int) -> None:
        self._bars.update(self._task, description=f"writing, {rows_done:,} edges", completed=rows_done, total=rows)


def run(settings: Settings, file: Path | None, console: Console, *, stay: bool) -> None:
    """Load, serve, fill, ask; with `stay`, keep the community active until the demo is stopped (Ctrl-C)."""
    supervisor.check_port(settings)
    key = keys.new_key()
    level = "error" if settings.log_level == "info" else settings.log_level  # else log lines would mix with ours
    settings = msgspec.structs.replace(settings, api_keys=(key, *settings.api_keys), log_level=level)
    settings = msgspec.structs.replace(settings, celebrity_followers_min=_CELEBRITY_FOLLOWERS)
    if settings.engine == "cluster":
        supervisor.prepare(settings)
        community = None  # loaded once the server runs, because its worker decides writes
    else:
        community = _load_community(settings, file, console)
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(settings, os.getpid()))
    before = signal.signal(signal.SIGTERM, _as_if_interrupted)  # the server must not outlive us on SIGTERM either
    process.start()
    try:
        url = supervisor.base_url(settings)
        _wait(url, process.is_alive)
        star, mention_followers = community or _load_community(settings, file, console)
        asyncio.run(_show(console, settings, key, star, mention_followers, stay=stay))
    except (KeyboardInterrupt, asyncio.CancelledError):
        console.print("stopping")
    finally:
        if process.is_alive() and process.pid is not None:
            process.terminate()
        process.join()
        signal.signal(signal.SIGTERM, before)


def _load_community(settings: Settings, file: Path | None, console: Console) -> tuple[int, frozenset[int]]:
    """Load a community; returns the star, and the followers who want notifications of mentions."""
    star = _load(settings, file, console)
    return star, asyncio.run(make_present(settings, NodeId(star)))


async def _show(
    console: Console, settings: Settings, key: str, star: int, mention_followers: frozenset[int], *, stay: bool
) -> None:
    """Do everything that the demo does over HTTP."""
    url, seed, task = supervisor.base_url(settings), time.time_ns(), asyncio.current_task()
    assert task is not None  # noqa: S101 - we are in it
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)  # needed where SIGINT is ignored
    async with http_client(url, key) as http:
        client = DemoClient(http)
        cast = await choose(client, star)
        await _fill(console, client, cast)
        newcomer = _NEWCOMERS + time.time_ns() // 1_000_000
        async for number, answer in _numbered(ask_all(client, Scene(client, cast, newcomer, seed, mention_followers))):
            _print(console, number, answer)
        console.print(f"\nServer key for this run: [bold]{key}[/bold]")
        if stay:
            token = await _token(settings, cast.reader) if settings.web_app == "on" else None
            _invite(console, url, cast.reader, await client.ask("GET", LATEST, user=cast.reader.id), token)
            await live(client, cast, url, key, seed + 1, lambda line: _tell(console, line))


async def _fill(console: Console, client: DemoClient, cast: Cast) -> None:
    """Play the script for people who have not posted yet."""
    if not cast.new:
        console.print(f"The {len(cast.all)} people around {cast.star.name} have posted already.\n", markup=False)
        return
    started = time.perf_counter()
    fill = await Filler(client).fill(cast, write(cast, SEED), SEED)
    seconds = time.perf_counter() - started
    console.print(
        f"{fill.people} people around {cast.star.name} (user {cast.star.id}) made profiles, {len(fill.posts)} posts "
        f"({fill.pictures} with pictures), {fill.comments} comments, {fill.likes} likes and {fill.stories} stories "
        f"over the API in {seconds:.1f} s.\n",
        markup=False,
    )


def _invite(console: Console, url: str, reader: Person, home: Any, token: str | None) -> None:
    """Print the links to open while the demo runs. `token`: signs the reader in at /app."""
    console.print(f"Running at {url} (try {url}/docs); stop with Ctrl-C.", markup=False)
    media = [shown["url"] for post in home["posts"] for shown in post["content"]["media"]]
    if media:
        console.print(f"A picture from {reader.name}'s home: {httpx.URL(url).join(media[0])}", markup=False)
    console.print(
        f"The operator's console, which asks for the server key:\n{url}{CONSOLE_PATH}", markup=False, soft_wrap=True
    )
    if token is not None:
        console.print(f"The reader, signed in as {reader.name} for a day:", markup=False)
        console.print(f"{url}{APP_PATH}#token={token}", markup=False, soft_wrap=True)  # unbroken: a link
    console.print(f"What {reader.name}'s stream tells (GET /feed/stream as user {reader.id}):\n", markup=False)


async def _token(settings: Settings, reader: Person) -> str:
    """A user token for the reader, as an app would sign it."""
    async with wiring.credentials(settings, create=False) as store:
        return (await keys.user_tokens(store, settings)).issue(NodeId(reader.id), _TOKEN_S)


def _print(console: Console, number: int, timed_answer: TimedAnswer) -> None:
    """Print a question, its requests with their times, and its answer."""
    answer, timings = timed_answer
    took_ms = sum(timing.took_ms for timing in timings)
    console.print(
        f"[bold]{number:>2}. {escape(answer.title)}[/bold]  [dim]{escape(_requests(timings))}{took_ms:.1f} ms[/dim]"
    )
    for line in answer.lines:
        console.print(f"    {line}", markup=False)


def _requests(timings: list[Timing]) -> str:
    """The request, or the number of requests."""
    return f"{timings[0].request} " if len(timings) == 1 else f"{len(timings)} requests "


def _tell(console: Console, line: str) -> None:
    console.print(f"{time.strftime('%H:%M:%S')}  {line}", markup=False)


async def _numbered(answers: AsyncIterator[TimedAnswer]) -> AsyncIterator[tuple[int, TimedAnswer]]:
    number = 0
    async for answer in answers:
        number += 1
        yield number, answer


def _load(settings: Settings, file: Path | None, console: Console) -> int:
    """Load the follows of the file, or generated ones where there are none; returns the most followed user."""
    where = f"keyspace {settings.cassandra_keyspace}" if settings.engine == "cluster" else settings.data
    if file is None and _has_follows(settings):
        console.print(f"Using the community that is in {where} already; to begin anew, {_how_to_restart(settings)}.")
    else:
        _import(settings, file or _generate_community(settings, console), console)
    facts = summary(settings, "follows")
    if not facts["edges"]:
        raise BadRequest(f"there is no edge to show in {where}; name a file that has some, or none at all")
    console.print(f"{facts['edges']:,} follows in {where}; the most followed user is {facts['top']}.", markup=False)
    return facts["top"]


def _how_to_restart(settings: Settings) -> str:
    return "set another `cassandra_keyspace`" if settings.engine == "cluster" else "name another folder with --data"


def _has_follows(settings: Settings) -> bool:
    if settings.engine == "cluster":
        return summary(settings, "follows")["edges"] > 0
    with open_environment(settings) as environment:
        numbers = environment.graph_numbers()
        with environment.lmdb.begin(environment.graph_db(numbers["follows"])) as txn:
            return bool(txn.stat()["entries"] > 0)


def _generate_community(settings: Settings, console: Console) -> Path:
    """Generate a community into a file."""
    share = _CLUSTER_SHARE if settings.engine == "cluster" else 1
    users, edges, dana = _USERS // share, _EDGES // share, _DANA // share
    console.print(f"Making up a community: {users:,} people, {edges:,} follows, one of them (Dana) with {dana:,}.")
    file = Path(settings.data) / "community.tsv.gz"
    with EdgeFileWriter(file) as writer:
        for chunk in stream(Community(users, edges, 1, {"dana": dana})):
            writer.write(chunk)
    return file


def _import(settings: Settings, file: Path, console: Console) -> None:
    started = time.perf_counter()
    with Progress(console=console, transient=True) as bars:
        result = import_edges(settings, "follows", file, _OneBar(bars))
    seconds = time.perf_counter() - started
    refused = f", {result.refused:,} lines refused (why: {Path(settings.data) / 'imports'})" if result.refused else ""
    console.print(f"Loaded {result.applied:,} follows in {seconds:.1f} s{refused}.", markup=False)


def _as_if_interrupted(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _serve(settings: Settings, parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which stops us
    processes.end_with_parent(parent)
    supervisor.run(settings)


def _wait(url: str, alive: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _READY_S
    with httpx.Client(timeout=1, trust_env=False, verify=tls_verify(url)) as http:  # no proxy for this machine
        while time.monotonic() < deadline:
            if not alive():
                raise KithError("the server did not start; is the port taken? name another with --port")
            with contextlib.suppress(httpx.TransportError):
                if http.get(f"{url}/readyz").status_code == 200:
                    return
            time.sleep(0.05)
    raise KithError(f"the server at {url} was not ready in {_READY_S:.0f} s")
