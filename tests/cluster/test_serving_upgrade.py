"""A rolling upgrade to a next version and back, machine by machine, while users write: two versions share one store."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import pytest
import servers
from calls import make, ok
from commands import done, kith_in
from coroutines import Run
from forking import Launcher
from servers import API, DEFAULT_SETTINGS, Server, eventually, keyspace_of, named, on_cluster, serving
from webhook_receiver import Endpoint, endpoint
from workload import Workload

from kith.engines.cassandra.connecting import connect
from kith.records.store import RecordKind

SETTINGS = DEFAULT_SETTINGS | {"KITH_OUTBOUND_NETWORKS": "127.0.0.0/8"}
ALICE, BOB = 2**41, 2**41 + 1
MORE = "of the next version"
NEXT = Path(__file__).parent / "next"


@pytest.fixture
def hook() -> Iterator[Endpoint]:
    with endpoint() as running:
        yield running


@pytest.fixture
def next_version() -> Iterator[Launcher]:
    starting = Launcher(f"import sys; sys.path.insert(0, {str(NEXT)!r}); import next_version")
    yield starting
    starting.close()


class Machines:
    """Two machines, each with today's version or the next."""

    def __init__(self, folder: Path, upgraded: Launcher) -> None:
        self._folder, self._upgraded = folder, upgraded
        self._settings = SETTINGS | on_cluster(keyspace_of(folder))
        self._all = ExitStack()
        self.running: list[Server] = []

    def __enter__(self) -> Machines:
        return self

    def __exit__(self, *failed: object) -> None:
        self._all.close()

    def start(self, *, upgraded: bool) -> None:
        """Start one more machine."""
        folder = self._folder / f"machine-{len(list(self._folder.iterdir()))}"
        with patch.object(servers, "launcher", lambda: self._upgraded) if upgraded else ExitStack():
            self.running.append(self._all.enter_context(serving(folder, settings=self._settings)))

    def replace(self, play: Workload, *, upgraded: bool) -> None:
        """Replace the oldest machine. Its owner is killed first, so that other owners finish its batches."""
        self.start(upgraded=upgraded)
        for pid in named("apply", self.running[0].process.pid):
            os.kill(pid, signal.SIGKILL)
        play.recovered()
        play.switch_to(*self.running[1:])
        play.recovered()
        self.running.pop(0).terminate()
        play.recovered()


async def query(keyspace: str, *statements: str) -> list[list[Any]]:
    """The rows that Cassandra answers to each statement."""
    session = await connect(os.environ["KITH_TEST_CASSANDRA"], keyspace, replicas=1)
    try:
        return [await session.rows(statement) for statement in statements]
    finally:
        await session.close()


def last_field(run: Run, keyspace: str, kind: RecordKind, id_: int) -> Any:
    """The last field of a record as it is stored."""
    ((row,),) = run(query(keyspace, f"SELECT data FROM records WHERE kind = {int(kind)} AND id = {id_}"))
    return msgspec.msgpack.decode(row[0])[-1]


def test_a_rolling_upgrade_and_downgrade_loses_and_doubles_nothing(
    tmp_path: Path, hook: Endpoint, next_version: Launcher, run: Run
) -> None:
    keyspace = keyspace_of(tmp_path)
    with Machines(tmp_path, next_version) as machines:
        machines.start(upgraded=False)
        machines.start(upgraded=False)
        with machines.running[0].client() as app:
            ok(app.post(f"{API}/webhooks", json={"url": hook.url, "kinds": ["post", "edge"]}), 201)
        run(query(keyspace, "ALTER TABLE edges ADD next text"))  # the next version does this before it starts
        play = Workload(machines.running[:], rest_s=0.2)
        machines.replace(play, upgraded=True)
        machines.replace(play, upgraded=True)
        with machines.running[0].client(acting=ALICE) as alice:
            ok(alice.post(f"{API}/users/{BOB}/follow"))
            post_id = int(make(alice, "by the next version"))
        assert last_field(run, keyspace, RecordKind.POST, post_id) == MORE
        machines.replace(play, upgraded=False)
        machines.replace(play, upgraded=False)
        with machines.running[0].client(acting=ALICE) as alice:
            ok(alice.patch(f"{API}/posts/{post_id}", json={"content": {"text": "by today's"}}))
        play.check()
        posts_written = {str(post) for actor in play.actors for post in actor.posts}
        eventually(lambda: posts_written <= {change.get("id") for change in hook.taken}, 120)
    assert last_field(run, keyspace, RecordKind.POST, post_id) == MORE, (
        "the unknown field survives an edit by today's version"
    )
    (edges,) = run(query(keyspace, "SELECT source, destination, next FROM edges"))
    assert (ALICE, BOB, MORE) in edges
    assert {next_ for *_, next_ in edges} == {None, MORE}
    done(kith_in(tmp_path)("audit", **on_cluster(keyspace)))
