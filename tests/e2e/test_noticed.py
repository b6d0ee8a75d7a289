"""A running server notices that its folder is gone, and learns keys made since it started."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from calls import code, ids, ok, upload
from coroutines import run_coroutine
from pictures import photo
from servers import API, eventually, named, serving

from kith.engines.embedded.credential_store import EmbeddedCredentials
from kith.engines.embedded.environment import Environment
from kith.run.opening import keys


def test_a_server_whose_store_was_deleted_reports_it_and_acknowledges_no_more_writes(tmp_path: Path) -> None:
    """Further writes would be lost with the deleted store."""
    with serving(tmp_path) as server, server.client(acting=1) as one:
        ok(one.post(f"{API}/users/2/follow"))
        (server.data / "store.mdb").rename(tmp_path / "store.mdb")
        answer = one.post(f"{API}/users/3/follow")
        assert code(answer, 503) == "STORE_UNAVAILABLE"
        assert "deleted or replaced" in answer.text
        assert "kith restore" in server.get("/readyz").json()["problems"]["store"]
        for pid in named("api", server.process.pid):
            os.kill(pid, signal.SIGKILL)
        eventually(lambda: server.output().count("was deleted or replaced") >= 1)
        assert not (server.data / "store.mdb").exists()  # a replacement process makes no empty store
        (tmp_path / "store.mdb").rename(server.data / "store.mdb")
        eventually(server.ready)
        ok(one.post(f"{API}/users/3/follow"))
        assert server.ready()


def test_a_folder_that_was_moved_away_can_be_moved_back(tmp_path: Path) -> None:
    """Meanwhile no process makes a new folder: moving back would put the old one inside it."""
    away = tmp_path / "away"
    with serving(tmp_path) as server, server.client(acting=1) as one:
        ok(one.post(f"{API}/users/2/follow"))
        upload(one, photo())
        server.data.rename(away)
        assert code(one.post(f"{API}/users/3/follow"), 503) == "STORE_UNAVAILABLE"
        assert code(one.post(f"{API}/media", files={"file": ("x", photo())}), 503) == "STORE_UNAVAILABLE"
        for kind in ("api", "fanout"):
            for pid in named(kind, server.process.pid):
                os.kill(pid, signal.SIGKILL)
        eventually(lambda: "was deleted or replaced" in server.output())
        assert not server.data.exists()
    away.rename(server.data)
    with serving(tmp_path) as server, server.client(acting=1) as one:
        ok(one.post(f"{API}/users/3/follow"))
        assert ids(ok(one.get(f"{API}/users/1/following"))) == [3, 2]


def test_a_server_accepts_a_key_made_while_it_runs(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        made = run_coroutine(_key_made(server.data))
        with server.client(made) as client:
            eventually(lambda: client.get(f"{API}/graph/follows/1/2").status_code == 200, 10)


async def _key_made(data: Path) -> str:
    with Environment(data) as environment:
        return await keys.make_server_key(EmbeddedCredentials(environment))
