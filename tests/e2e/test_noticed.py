"""What a running server notices by itself: that its folder is gone, and a key that was made since it started."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from calls import code, ids, ok, upload
from coroutines import run_all
from pictures import photo
from servers import API, eventually, named, serving

from kith.engines.embedded.credential_store import EmbeddedCredentials
from kith.engines.embedded.environment import Environment
from kith.run.opening import keys


def test_a_server_whose_folder_was_deleted_says_so_and_acknowledges_nothing_more(tmp_path: Path) -> None:
    """What it wrote from then on would go with it."""
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
        assert not (server.data / "store.mdb").exists()  # a process that is replaced makes no empty store
        (tmp_path / "store.mdb").rename(server.data / "store.mdb")
        eventually(server.ready)
        ok(one.post(f"{API}/users/3/follow"))
        assert server.ready()


def test_a_folder_that_was_moved_away_is_put_back_as_it_was(tmp_path: Path) -> None:
    """Nothing makes it anew meanwhile, as then it would be put inside that."""
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


def test_a_server_lets_in_a_key_that_was_made_while_it_runs(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        made = run_all(_key_made(server.data))
        with server.client(made) as client:
            eventually(lambda: client.get(f"{API}/graph/follows/1/2").status_code == 200, 10)


async def _key_made(data: Path) -> str:
    with Environment(data) as environment:
        return await keys.made(EmbeddedCredentials(environment))
