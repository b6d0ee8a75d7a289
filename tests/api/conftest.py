"""Fixtures for tests of the HTTP API: one real server per session, and new users for each test."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from cast import People, people_of
from coroutines import run_without_loop
from servers import ON_CLUSTER, PLAIN, Server, eventually, serving, sign

from kith.engines.embedded.environment import Environment
from kith.engines.embedded.log_store import EmbeddedLog
from kith.run.consumers import CONSUMERS

_numbers = itertools.count()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that all tests share. A test that needs other settings starts its own."""
    with serving(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture
def people() -> People:
    """Alice, Bob, Carol and Dana, with ids that no other test uses."""
    return people_of(next(_numbers))


@pytest.fixture
def http(server: Server) -> Iterator[httpx.Client]:
    """A client with the server key, acting for no user."""
    with server.client() as client:
        yield client


@pytest.fixture
def system(server: Server) -> Iterator[httpx.Client]:
    """A client with the server key, acting for the back office."""
    with server.client(acting="system") as client:
        yield client


@pytest.fixture
def acting(server: Server) -> Iterator[Callable[[int], httpx.Client]]:
    """`acting(alice)`: a client with the server key, acting for that user."""
    yield from _clients(lambda user: server.client(acting=user))


@pytest.fixture
def visitor(server: Server) -> Iterator[httpx.Client]:
    """A browser that shows an image: a client without credentials."""
    with httpx.Client(base_url=server.url, **PLAIN) as client:
        yield client


@pytest.fixture
def owner(server: Server) -> Iterator[Callable[[int], httpx.Client]]:
    """`owner(alice)`: a client with Alice's own token."""
    yield from _clients(lambda user: server.client(sign(user)))


def _clients(make: Callable[[int], httpx.Client]) -> Iterator[Callable[[int], httpx.Client]]:
    made: dict[int, httpx.Client] = {}

    def get(user: int) -> httpx.Client:
        if user not in made:
            made[user] = make(user)
        return made[user]

    yield get
    for client in made.values():
        client.close()


@pytest.fixture(scope="session")
def log(server: Server) -> Iterator[EmbeddedLog | None]:
    """The log of that server, read from its folder, because /metrics would take 0.3 s. None on a cluster."""
    if ON_CLUSTER:
        yield None
        return
    with Environment(server.data, durability="relaxed", create=False) as environment:
        commits: Any = None  # the log is only read
        yield EmbeddedLog(environment, commits)


@pytest.fixture
def nothing_changes(request: pytest.FixtureRequest, log: EmbeddedLog | None) -> Iterator[None]:
    """Check that the log does not grow in a test, because a refused request writes nothing.

    A test that uses the fixture `prepares` is not checked.
    """
    if log is None:
        yield
        return
    before = _quiet(log)
    yield
    if "prepares" not in request.fixturenames:
        assert _quiet(log) == before


@pytest.fixture
def prepares() -> None:
    """Marks a test that writes something itself, and so checks on its own that nothing else changed."""


def _quiet(log: EmbeddedLog) -> int:
    """The end of the log once every worker has handled all of it. Workers write, too."""

    def end() -> tuple[int, int] | None:
        places = [run_without_loop(log.progress(name)) for name, one in CONSUMERS.items() if one.has_position]
        handled = all(place is not None and not place.behind.events for place in places)
        return log.bounds() if handled else None

    return int(eventually(end, 60)[1])
