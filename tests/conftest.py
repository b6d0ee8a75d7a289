"""Fixtures for all tests: the clock, the engines, and an event loop for coroutines. The people are in `cast`."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import msgspec
import pytest
import structlog
from cast import FakeClock
from coroutines import Run
from embedded_engine import open_embedded
from engines import HOSTILE, REFERENCE, SERVICE_ENGINES, Engine, engines_with
from hypothesis import HealthCheck, settings
from services import service_over

from kith.engines.embedded.edge_store import EmbeddedEdges
from kith.engines.embedded.environment import Environment
from kith.graph.graph import Graph
from kith.graph.store import EdgeStore

TESTS = Path(__file__).parent
ID_CHARS_MAX = 50
gc.disable()  # collecting tests makes no garbage; `pytest_collection_finish` enables it again

# Plain tracebacks: Rich would format each error that a test provokes, which takes most of the time of some tests.
_plain = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
structlog.configure(processors=[*structlog.get_config()["processors"][:-1], _plain])


def _interrupted(number: int, frame: FrameType | None) -> None:
    """Python's own SIGINT handler under another name.

    asyncio replaces the default handler for each run of a coroutine. Doing so, it formats the whole task of the
    previous run, for an error that nobody sees. That is a tenth of the time of some tests.
    """
    signal.default_int_handler(number, frame)


signal.signal(signal.SIGINT, _interrupted)

# Processes that tests start cache their compiled modules, as they do for users.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A failing example prints how to repeat it. There is no deadline, because shared machines stall.
settings.register_profile(
    "kith",
    deadline=None,
    print_blob=True,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("kith")


@pytest.fixture
def clock() -> FakeClock:
    """Wall time in ms; a test sets `clock.ms`."""
    return FakeClock()


@pytest.fixture
def run() -> Iterator[Run]:
    """Runs the coroutines of a test in one event loop."""
    with asyncio.Runner() as runner:
        yield runner.run


@pytest.fixture
def embedded(tmp_path: Path, clock: FakeClock) -> Iterator[tuple[Environment, EmbeddedEdges]]:
    """The embedded engine, on the fake clock, and the LMDB environment under it."""
    with open_embedded(tmp_path / "data", now_ms=clock) as opened:
        yield opened


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "short_of(name): does less of what that test does, for runs without it")


@pytest.hookimpl(trylast=True)  # after `-m` and `-k` have selected tests
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect each test marked `short_of` a test that runs too: it would prove nothing more. Then order the rest."""
    running = {item.name.partition("[")[0] for item in items}
    part = [item for item in items if (of := item.get_closest_marker("short_of")) and of.args[0] in running]
    config.hook.pytest_deselected(items=part)
    left, hands = set(part), int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    items[:] = _ordered([item for item in items if item not in left], hands)


def pytest_collection_finish() -> None:
    """Keep the collected tests out of garbage collections, as they live to the end."""
    gc.freeze()
    gc.enable()


_SLOWEST_FOLDERS = ("fault", "e2e", "property")
"""Folders whose tests take longest. Tests of the first two mostly wait for processes."""


def _ordered(items: list[pytest.Item], hands: int) -> list[pytest.Item]:
    """Order the tests for `hands` processes, each of which starts with an equal part of the list.

    Each part begins with another of the slowest folders, so tests that wait run beside tests that compute. The tests
    at the end are short; idle processes take them over. Files are not split.
    """
    if hands == 1:
        return items
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    given: list[list[pytest.Item]] = [[] for _ in range(hands)]
    for number, folder in enumerate(_SLOWEST_FOLDERS):
        for path in [path for path in files if path.is_relative_to(TESTS / folder)]:
            given[number % hands] += files.pop(path)
    for tests in files.values():
        min(given, key=len).extend(tests)
    return [item for hand in given for item in hand]


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """The name of a case whose value has no short name: its repr. A number gets the name of its argument before it."""
    if type(val) in (int, float, bool, type(None)):
        return f"{argname}-{val}"  # so that -k can select it
    if isinstance(val, set | frozenset):
        val = sorted(val, key=repr)  # the same order in every process
    if not isinstance(val, dict | list | tuple | bytes | BaseException | msgspec.Struct):
        return None
    said = val.decode("ascii", "replace") if isinstance(val, bytes) else repr(val)
    return None if " at 0x" in said else said[:ID_CHARS_MAX].encode("unicode_escape").decode()


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--engine module:name,name`: run the conformance suites for engines that `engines` does not register."""
    parser.addoption("--engine", metavar="MODULE:NAME,...", help="run the conformance suites for these engines only")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test with an argument `engine` for each engine that has the PORT of its module.

    `compared` leaves out the reference and `hostile`; `lasting` leaves out engines that lose their data when closed.
    """
    asked: dict[str, Callable[[Engine], bool]] = {
        "engine": lambda _: True,
        "compared": lambda engine: engine not in (REFERENCE, HOSTILE),  # `hostile` wraps the reference
        "lasting": lambda engine: engine.keeps,
    }
    port = getattr(metafunc.module, "PORT", None)
    for name, fits in asked.items():
        if port and name in metafunc.fixturenames:
            engines = [engine for engine in engines_with(port, metafunc.config.getoption("--engine")) if fits(engine)]
            metafunc.parametrize(name, engines, ids=str)


@pytest.fixture(params=SERVICE_ENGINES, ids=str)
def store(request: pytest.FixtureRequest, run: Run, tmp_path: Path) -> Iterator[EdgeStore]:
    """An empty store of the reference and of the embedded engine, with one graph declared: number 1."""
    with request.param.edges(tmp_path / "data") as opened:
        run(opened.declare(["follows"]))
        yield opened


@pytest.fixture
def make_service(run: Run, clock: FakeClock) -> Callable[..., Graph]:
    """`make_service(store, follows_max=3)`: the service over a store, on the fake clock."""

    def make(store: EdgeStore, **limits: int) -> Graph:
        return run(service_over(store, clock, **limits))

    return make


@pytest.fixture
def service(make_service: Callable[..., Graph], store: EdgeStore) -> Graph:
    """The service over each engine, with default limits."""
    return make_service(store)
