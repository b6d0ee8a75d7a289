"""Server keys of a running service: made at its first start or by `kith token`, and revoked."""

from __future__ import annotations

import re
from pathlib import Path

from calls import code, ok
from commands import done, kith_in
from coroutines import run_coroutine
from servers import API, WITHOUT_KEYS, eventually, refused, serving

from kith.engines.embedded.credential_store import EmbeddedCredentials
from kith.engines.embedded.environment import Environment
from kith.run.config import Settings
from kith.run.opening import keys


def test_the_first_start_prints_a_server_key_once_and_the_key_works_after_a_restart(tmp_path: Path) -> None:
    with serving(tmp_path, settings=WITHOUT_KEYS) as server:
        key = server.key
        assert len(re.findall(re.escape(key), server.output())) == 1
        with server.client() as http:
            ok(http.get(f"{API}/users/1"))
        with server.client(key[:-1]) as http:
            assert code(http.get(f"{API}/users/1"), 401) == "UNAUTHORIZED"
    with serving(tmp_path, settings=WITHOUT_KEYS) as server:
        assert "kith_" not in server.output()
        with server.client(key) as http:
            ok(http.get(f"{API}/users/1"))
    assert key.encode() not in (tmp_path / "data" / "store.mdb").read_bytes(), "only the hash of the key is stored"


def test_a_refused_start_leaves_no_server_key(tmp_path: Path) -> None:
    with serving(tmp_path) as server:  # this server's keys are in its settings
        output = refused(tmp_path, **{**WITHOUT_KEYS, "KITH_DURABILITY": "full"})
        assert "kith_" not in output
        assert server.ready()
    with Environment(tmp_path / "data", durability="relaxed", create=False) as environment:
        assert run_coroutine(keys.server_keys(EmbeddedCredentials(environment), Settings())) == []


def test_running_servers_refuse_a_revoked_key_and_end_what_runs_under_it(tmp_path: Path) -> None:
    with serving(tmp_path, "--workers", "2") as pair:
        kith = kith_in(pair.data.parent)
        key = done(kith("token", "--server", "--data", str(pair.data))).strip()

        def statuses() -> set[int]:
            """The answers on some new connections, which both processes take."""
            found = set[int]()
            for _ in range(10):
                with pair.client(key) as http:
                    found.add(http.get(f"{API}/graph/follows/1/2").status_code)
            return found

        eventually(lambda: statuses() == {200})
        with pair.client(key) as http, http.stream("GET", f"{API}/watch", timeout=30) as changes:
            lines = changes.iter_lines()
            next(lines)
            assert "1 server key revoked" in done(kith("token", "--revoke", key, "--data", str(pair.data)))
            assert not [line for line in lines if line.startswith("data")], "the stream ended"
        eventually(lambda: statuses() == {401})
        with pair.client() as http:
            ok(http.get(f"{API}/graph/follows/1/2"))
