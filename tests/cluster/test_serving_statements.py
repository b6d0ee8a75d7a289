"""The number of Cassandra requests per API request: those of the API process and those of the owner that decides.

Both run in this process, and nothing else does. `api/test_calls_in_a_row.py` counts calls that wait for each other.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import httpx
import msgspec
import pytest
from http_world import until
from in_process import client_of
from servers import API, AUDIENCE, ISSUER, JWT_SECRET, KEY, keyspace_of, on_cluster

from kith.access.quotas import Quotas
from kith.core.events import TIMELINE_REQUESTED, Event
from kith.engines.cassandra.connecting import Session
from kith.home.fanout import consumer as fanout
from kith.run.api import api_over
from kith.run.config import Settings
from kith.run.consumers import CONSUMERS
from kith.run.opening.cluster import prepare
from kith.run.opening.quotas import open_store
from kith.run.services import Services, open_services

ALICE, BOB, CAROL = 1, 2, 3
STRANGERS = (20, 21)
AUTHORS = range(100, 160)
"""Users whom both STRANGERS follow. Each has a post."""
ONE_OF_THEM = 0
"""`Row.user` for a request by a stranger, another one each time."""
PAIRS = [[str(ALICE), str(other)] for other in range(2, 52)]
_BESIDE = {"leases", "system.local", "metadata", "closed"}
"""Tables not counted: queried now and then, or once by the owner of a partition, independent of requests."""
_TABLE = re.compile(r"(?:FROM|INTO|UPDATE) (\S+)")
_QUIET_S, _OWNED_S = 0.3, 60


class Requests:
    """Requests to Cassandra, counted by the tables that are read or written."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()

    @contextlib.contextmanager
    def counted(self) -> Iterator[None]:
        """Count all requests of this process."""
        execute, request = Session._execute, Session._request

        async def executing(session: Session, statement: str, *arguments: Any, **settings: Any) -> Any:
            self._see(statement)
            return await execute(session, statement, *arguments, **settings)

        async def requesting(session: Session, statements: Sequence[tuple[str, Any]]) -> None:
            if len(statements) > 1:  # a single statement goes through `_execute`
                self._see(*(statement for statement, _ in statements))
            await request(session, statements)

        with patch.object(Session, "_execute", executing), patch.object(Session, "_request", requesting):
            yield

    def _see(self, *statements_sent: str) -> None:
        tables = {_TABLE.search(statement)[1] for statement in statements_sent}
        if not tables <= _BESIDE:
            reads = statements_sent[0].startswith("SELECT")
            self.seen[f"{'read' if reads else 'write'} {'+'.join(sorted(tables))}"] += 1


class Row(NamedTuple):
    """A request by a user, and the most Cassandra requests that it may cause in the API and the owner together.

    `{}` in the path stands for another user each time.
    """

    at_most: int
    user: int | None
    method: str
    path: str
    body: dict[str, Any] | None = None


ROWS = {
    "home, first page": Row(12, ONE_OF_THEM, "GET", "/feed"),
    "home, the same again": Row(1, STRANGERS[0], "GET", "/feed"),
    "home, without a timeline": Row(11, ONE_OF_THEM, "GET", "/feed?refresh=true"),
    "check": Row(1, None, "GET", f"/graph/follows/{ALICE}/{BOB}"),
    "check of 50": Row(1, None, "POST", "/graph/follows/check", {"pairs": PAIRS}),
    "count": Row(1, None, "GET", f"/graph/follows/{BOB}/in/count"),
    "page of followers": Row(2, CAROL, "GET", f"/users/{BOB}/followers"),
    "follow": Row(8, CAROL, "POST", "/users/{}/follow"),
    "unfollow": Row(10, CAROL, "DELETE", "/users/{}/follow"),
    "post": Row(12, BOB, "POST", "/posts", {"content": {"text": "new"}}),
}


async def _measured(settings: Settings) -> dict[str, Counter[str]]:
    statements_by_row = {}
    requests = Requests()
    with requests.counted():
        async with _api(settings) as http:
            for name, row in ROWS.items():
                for stranger in STRANGERS:  # the first request of a kind prepares statements and fills caches
                    await asyncio.sleep(_QUIET_S)
                    requests.seen.clear()
                    await _ask(http, row, stranger)
                    await asyncio.sleep(_QUIET_S)
                    statements_by_row[name] = Counter(requests.seen)
    return statements_by_row


@contextlib.asynccontextmanager
async def _api(settings: Settings) -> AsyncIterator[httpx.AsyncClient]:
    async with open_services(settings) as services, open_store(settings) as counts:
        deciding = services.stores.write_decisions
        assert deciding is not None
        async with deciding.own() as is_ready:
            async with asyncio.timeout(_OWNED_S):
                await until(is_ready)
            api = api_over(settings, services, Quotas(counts, {}), None)
            door = client_of(api.door, authorization=f"Bearer {KEY}")
            async with door as http, CONSUMERS[fanout.NAME].open(settings, services.stores) as worker:
                await _fill(http)
                await _make_timelines(services, worker.follower)
                yield http


async def _fill(http: httpx.AsyncClient) -> None:
    for user in (ALICE, CAROL):
        await _ask(http, Row(0, user, "POST", f"/users/{BOB}/follow"))
    await _ask(http, Row(0, BOB, "POST", "/posts", {"content": {"text": "first"}}))
    posts = (Row(0, author, "POST", "/posts", {"content": {"text": "news"}}) for author in AUTHORS)
    follows = (Row(0, user, "POST", f"/users/{author}/follow") for user in STRANGERS for author in AUTHORS)
    await asyncio.gather(*(_ask(http, row) for row in (*posts, *follows)))


async def _make_timelines(services: Services, worker: Any) -> None:
    """Let fan-out make the strangers' timelines and save its position. It does nothing afterwards."""
    log, clock = services.stores.log, services.stores.graph.clock
    for user in STRANGERS:
        await log.announce(Event(0, None, TIMELINE_REQUESTED, user, 0, 0, clock.next()))
    while await worker.step():
        pass
    await log.save(fanout.NAME, await log.end(), {})


async def _ask(http: httpx.AsyncClient, row: Row, stranger: int = 0) -> None:
    user = stranger if row.user == ONE_OF_THEM else row.user
    headers = {"X-Kith-User": str(user)} if user is not None else {}
    answer = await http.request(row.method, API + row.path.format(stranger), headers=headers, json=row.body)
    assert answer.status_code < 300, answer.text


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Counter[str]]:
    folder = tmp_path_factory.mktemp("statements")
    settings = _settings(folder)
    prepare(settings)
    return asyncio.run(_measured(settings))


def _settings(folder: Path) -> Settings:
    values = {name.removeprefix("KITH_").lower(): value for name, value in on_cluster(keyspace_of(folder)).items()}
    return msgspec.convert(
        {
            **values, "data": str(folder), "api_keys": (KEY,), "jwt_secret": JWT_SECRET, "jwt_issuer": ISSUER,
            "jwt_audience": AUDIENCE, "workers": 1,
        },
        Settings,
        strict=False,
    )  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_a_request_stays_within_its_number_of_cassandra_requests(measured: dict[str, Counter[str]], name: str) -> None:
    assert measured[name].total() <= ROWS[name].at_most, measured[name]
