"""`kith replay`: plays a file of real activity against a running server, and reports how the server kept up.

A line is `actor target unix_seconds kind`, in time order, as in the SNAP Higgs data. Kinds: MT (the actor mentions the
target in a post), RT (shares the target's newest post), RE (comments on it). A target without a post makes one first.
For some posts, the time until a follower's home shows them is measured. At most IN_FLIGHT_MAX requests are in flight.
If the server or this machine is too slow for the speed, the report says how far the replay fell behind.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator
from pathlib import Path
from typing import Annotated, NamedTuple

import httpx
import msgspec
import numpy as np
import typer
from rich.table import Table

from kith.commands import console
from kith.commands.console import out, say
from kith.commands.transfer.formats import lines
from kith.core.errors import BadRequest, Unauthorized, Unavailable
from kith.core.ids import ID_MAX
from kith.core.stopping import stop

commands = typer.Typer()
KINDS = ("MT", "RT", "RE")
IN_FLIGHT_MAX = 256
WATCHED_MAX = 16
"""Posts whose way to a home is measured at a time; each costs a read every POLL_S."""
POLL_S, GIVEN_UP_S = 0.02, 10.0
_WORDS = "did you see this they found it at last what a day nobody knew and now everyone talks of it".split()  # noqa: SIM905


@commands.command("replay")
def run_replay(
    file: Annotated[Path, typer.Argument(help="Lines `actor target unix_seconds MT|RT|RE`, plain, .gz or .zst.")],
    key: Annotated[str, typer.Option("--key", envvar="KITH_REPLAY_KEY", help="A server key of the server.")],
    url: Annotated[str, typer.Option(help="URL of the server.")] = "http://127.0.0.1:7400",
    speed: Annotated[float, typer.Option(min=0.001, help="Seconds of the file played per second.")] = 60.0,
    count: Annotated[int | None, typer.Option(min=1, help="Actions to play; default: all.")] = None,
    watch: Annotated[
        float, typer.Option(min=0, max=1, help="Share of posts for which the time to a follower's home is measured.")
    ] = 0.05,
) -> None:
    """Play real activity (who mentioned, shared, answered whom, and when) against a running server."""
    with console.counting("actions played") as progress:
        report = asyncio.run(
            replay(
                file, url, key, speed=speed, watch_share=watch, count=count, progress=lambda played, _: progress(played)
            )
        )
    table = Table("what", "a second", "p50 ms", "p99 ms", "longest ms")
    for row in rows(report):
        table.add_row(*row)
    out.print(table)
    say(f"{report.actions:,} actions in {report.seconds:,.1f} s; {report.behind_s:,.1f} s behind at most")
    for error, times in report.errors.items():
        say(f"{times:,} x {error}")
    if report.errors:
        raise typer.Exit(1)


class Action(NamedTuple):
    """One line of the file."""

    actor: int
    target: int
    at_s: int
    kind: str


class ReplayReport(msgspec.Struct):
    """Results. `latency_ms`: by operation. `visible_ms`: from a post's answer until a follower's home showed it."""

    seconds: float = 0.0
    actions: int = 0
    behind_s: float = 0.0
    latency_ms: dict[str, list[float]] = {}
    visible_ms: list[float] = []
    errors: dict[str, int] = {}


def actions(file: Path) -> Iterator[Action]:
    """The actions of a file. Errors: BadRequest names the first malformed line."""
    for number, line in enumerate(lines(file), 1):
        parts = line.split()
        if not parts or parts[0].startswith(b"#"):
            continue
        kind = parts[-1].decode("ascii", "replace")
        ids_fit = len(parts) == 4 and all(part.isdigit() and int(part) <= ID_MAX for part in parts[:3])
        if not ids_fit or kind not in KINDS:
            raise BadRequest(f"{file.name}, line {number}: a line is `actor target unix_seconds MT|RT|RE`", line=number)
        yield Action(int(parts[0]), int(parts[1]), int(parts[2]), kind)


class Player:
    """Plays actions over HTTP. `progress` gets the number of started actions, and the file's time of the last one."""

    def __init__(
        self, http: httpx.AsyncClient, *, speed: float, watch_share: float, progress: Callable[[int, int], None]
    ) -> None:
        self._http, self._speed, self._watch_share, self._progress = http, speed, watch_share, progress
        self._newest: dict[int, str] = {}  # author -> id of their newest post
        self._making: dict[int, asyncio.Task[str | None]] = {}
        self._random = random.Random(1)
        self._watches: set[asyncio.Task[None]] = set()
        self.report = ReplayReport()

    async def play(self, recorded: Iterable[Action]) -> ReplayReport:
        """Play actions at the requested speed: each at its time, or as soon after it as possible."""
        report, started, first = self.report, time.perf_counter(), None
        tasks: set[asyncio.Task[None]] = set()
        try:
            for action in recorded:
                first = action.at_s if first is None else first
                due = started + (action.at_s - first) / self._speed
                if (wait := due - time.perf_counter()) > 0:
                    await asyncio.sleep(wait)
                report.behind_s = max(report.behind_s, -wait)
                while len(tasks) >= IN_FLIGHT_MAX:
                    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                self._start(self._act(action), tasks)
                report.actions += 1
                self._progress(report.actions, action.at_s)
            if tasks:
                await asyncio.wait(tasks)
            report.seconds = time.perf_counter() - started
            if self._watches:
                await asyncio.wait(self._watches)
        finally:
            report.seconds = report.seconds or time.perf_counter() - started
            await stop(*tasks, *self._watches)
        return report

    def _start(self, work: Coroutine[None, None, None], tasks: set[asyncio.Task[None]]) -> None:
        """Run it as a task that is kept in `tasks` until it ends."""
        task = asyncio.create_task(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failed(f"an answer that is not Kith's ({type(error).__name__})")

    async def _act(self, action: Action) -> None:
        if action.kind == "MT":
            await self._post(action.actor, [action.target])
            return
        post = self._newest.get(action.target) or await self._first_post(action.target)
        if post is not None and action.kind == "RT":
            await self._ask("share", action.actor, f"/posts/{post}/share")
        elif post is not None:
            await self._ask("comment", action.actor, f"/posts/{post}/comments", {"text": self._text()})

    async def _first_post(self, author: int) -> str | None:
        """The author's first post; concurrent calls share one request."""
        if author not in self._making:
            self._making[author] = asyncio.create_task(self._post(author, []))
        post = await self._making[author]
        self._making.pop(author, None)
        return post

    async def _post(self, author: int, mentions: list[int]) -> str | None:
        body = {"content": {"text": self._text()}, "mentions": list(map(str, mentions))}
        answer = await self._ask("post", author, "/posts", body)
        if answer is None:
            return None
        self._newest[author] = post = str(answer.json()["id"])
        if len(self._watches) < WATCHED_MAX and self._random.random() < self._watch_share:
            self._start(self._watch(author, post, time.perf_counter()), self._watches)
        return post

    async def _watch(self, author: int, post: str, since: float) -> None:
        """Poll the home of a follower until it shows the post, and record the time that took."""
        answer = await self._ask("followers", author, f"/users/{author}/followers?limit=1", method="GET")
        if answer is None or not answer.json()["items"]:
            return
        reader = int(answer.json()["items"][0]["id"])
        while time.perf_counter() - since < GIVEN_UP_S:
            home = await self._ask("feed", reader, "/feed?type=latest", method="GET")
            if home is not None and any(shown["id"] == post for shown in home.json()["posts"]):
                self.report.visible_ms.append((time.perf_counter() - since) * 1000)
                return
            await asyncio.sleep(POLL_S)
        self._failed(f"not in a follower's home after {GIVEN_UP_S:.0f} s")

    async def _ask(
        self, name: str, user: int | None, path: str, body: object = None, method: str = "POST"
    ) -> httpx.Response | None:
        """Send one request and record its latency; None where it failed, which the report counts."""
        headers = {} if user is None else {"x-kith-user": str(user)}
        started = time.perf_counter()
        try:
            answer = await self._http.request(method, path, json=body, headers=headers)
        except httpx.HTTPError as error:
            self._failed(type(error).__name__)
            return None
        if answer.is_error:
            self._failed(f"{answer.status_code} {_code(answer)}")
            return None
        self.report.latency_ms.setdefault(name, []).append((time.perf_counter() - started) * 1000)
        return answer

    def _failed(self, error: str) -> None:
        self.report.errors[error] = self.report.errors.get(error, 0) + 1

    def _text(self) -> str:
        return " ".join(self._random.choices(_WORDS, k=self._random.randrange(3, 20)))


def _code(answer: httpx.Response) -> str:
    """The error code of an answer."""
    try:
        return str(answer.json()["error"]["code"])
    except (ValueError, KeyError, TypeError):
        return "not from Kith"  # for example from a proxy


async def replay(
    file: Path, url: str, key: str, *, speed: float, watch_share: float, count: int | None,
    progress: Callable[[int, int], None],
) -> ReplayReport:  # fmt: skip
    """Play a file against the server at `url`. Errors: BadRequest; Unauthorized; Unavailable where nobody answers."""
    url = url.rstrip("/")
    limits = httpx.Limits(max_connections=IN_FLIGHT_MAX, max_keepalive_connections=IN_FLIGHT_MAX)
    headers = {b"authorization": f"Bearer {key}".encode()}  # bytes, because httpx refuses text that is not ASCII
    try:
        client = httpx.AsyncClient(base_url=f"{url}/api/v1", headers=headers, limits=limits, timeout=10)
    except httpx.InvalidURL as error:
        raise BadRequest(f"{url!r} is no address ({error}); one is http://127.0.0.1:7400") from error
    async with client as http:
        try:
            (await http.get(f"{url}/readyz")).raise_for_status()
            response = await http.get("/users/1")
        except httpx.HTTPError as error:
            raise Unavailable(f"nobody is ready at {url} ({error}); start `kith serve` there first") from error
        if response.status_code == 401:
            raise Unauthorized(
                "the server does not know this key; make one with `kith token --server`, run with the settings of that "
                "server (its --data, where it has one)"
            )
        player = Player(http, speed=speed, watch_share=watch_share, progress=progress)
        recorded = actions(file)
        return await player.play(action for action, _ in zip(recorded, _numbers(count), strict=False))


def rows(report: ReplayReport) -> list[list[str]]:
    """Rows of the report: operation, number a second, then p50, p99 and longest in ms."""
    timed = {**report.latency_ms, "visible in a follower's home": report.visible_ms}
    return [
        [name, *(f"{value:,.1f}" for value in (len(ms) / report.seconds, *np.percentile(ms, [50, 99, 100])))]
        for name, ms in timed.items()
        if ms
    ]


def _numbers(count: int | None) -> Iterator[int]:
    number = 0
    while count is None or number < count:
        yield number
        number += 1
