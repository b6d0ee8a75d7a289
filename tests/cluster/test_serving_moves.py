"""`kith move` moves a data folder into Cassandra, Kafka and Redis, and back, while users write to it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest
from calls import code, ok, upload
from commands import CLEAN, done, kith_in
from commands import refused as refused_by
from forking import Forked, launcher
from pictures import photo
from servers import API, DEFAULT_SETTINGS, Server, eventually, keyspace_of, on_cluster, refused, serving
from webhook_receiver import Endpoint, endpoint
from workload import Workload

from kith.core.events import NOWHERE
from kith.run.moves import progress
from kith.run.moves.progress import MoveProgress

LIMIT_S = 400
SETTINGS = DEFAULT_SETTINGS | {"KITH_OUTBOUND_NETWORKS": "127.0.0.0/8"}
ALICE, BOB, CAROL = (2**41 + at for at in range(3))


class Kept(NamedTuple):
    """Values that Alice got from the server of the folder."""

    token: str
    watching: str
    cursor: str
    post: str
    picture: str


class Moving:
    """`kith move` of a folder into a keyspace, as an operator runs it."""

    def __init__(self, folder: Path, data: Path) -> None:
        self._folder, self._data = folder, data
        self.cluster = on_cluster(keyspace_of(folder))
        self._kith = kith_in(folder, LIMIT_S)

    def killed(self, *options: str, when: Callable[[MoveProgress], bool], later_s: float = 0) -> None:
        """Run the command, and kill -9 it `later_s` after its noted progress fulfils `when`."""
        with (self._folder / "move.log").open("ab") as log:
            process: Forked = launcher().start(
                "move", self._data, *options, stdout=log, stderr=log, env={**CLEAN, **self.cluster}, cwd=self._folder
            )
        eventually(lambda: (noted := progress.read(self._data)) is not None and when(noted), 120)
        time.sleep(later_s)
        process.kill()
        process.wait(60)

    def done(self, *options: str) -> str:
        return done(self._kith("move", str(self._data), *options, **self.cluster))

    def refused(self, *options: str) -> str:
        return refused_by(self._kith("move", str(self._data), *options, **self.cluster))


@pytest.fixture
def hook() -> Iterator[Endpoint]:
    with endpoint() as running:
        yield running


def post(http: httpx.Client, text: str, key: str) -> str:
    """The id of the post with this idempotency key."""
    answer = http.post(f"{API}/posts", json={"content": {"text": text}}, headers={"Idempotency-Key": key})
    return str(ok(answer, 201)["id"])


def life_before(old_server: Server, hook: Endpoint) -> Kept:
    """Let Alice, Bob and Carol use the folder. Return what Alice keeps."""
    with old_server.client() as app, old_server.client(acting=ALICE) as alice, old_server.client(acting=CAROL) as carol:
        ok(app.post(f"{API}/webhooks", json={"url": hook.url, "kinds": ["post", "edge"]}), 201)
        for follower in range(BOB, BOB + 8):
            token = alice.post(f"{API}/users/{follower}/follow").headers["Kith-Token"]
        cursor = ok(alice.get(f"{API}/users/{ALICE}/following?limit=3"))["pagination"]["nextCursor"]
        ok(app.post(f"{API}/users/{BOB + 3}/deactivate"), 202)
        picture = upload(alice, photo())["id"]
        first_post = post(alice, "before", "key")
        ok(carol.post(f"{API}/posts/{first_post}/like"))
        eventually(lambda: any(change["kind"] == "post" for change in hook.taken))
    return Kept(token, hook.taken[-1]["token"], cursor, first_post, picture)


def check_what_alice_has(new_server: Server, expected: Kept, *, is_same_log: bool) -> None:
    """Check that what Alice had is there once. Her tokens are valid only if the log is the same."""
    with new_server.client(acting=ALICE) as alice:
        assert post(alice, "before", "key") == expected.post, "the key still names the same post"
        assert len(ok(alice.get(f"{API}/users/{ALICE}/posts"))["items"]) == 1
        assert ok(alice.get(f"{API}/posts/{expected.post}"))["engagement"]["likeCount"] == 1
        page = ok(alice.get(f"{API}/users/{ALICE}/following?limit=10&cursor={expected.cursor}"))["items"]
        assert [int(item["id"]) for item in page] == [BOB + offset for offset in (4, 2, 1, 0)], (
            "one of them is deactivated"
        )
        notifications = eventually(lambda: ok(alice.get(f"{API}/notifications"))["items"])
        assert [item["type"] for item in notifications] == ["like"]
        assert ok(alice.get(f"{API}/media/{expected.picture}"))["id"] == expected.picture
        with_token = alice.get(f"{API}/users/{ALICE}/following", headers={"Kith-Token": expected.token})
        assert with_token.status_code == (200 if is_same_log else 409), with_token.text
    with new_server.client() as app, app.stream("GET", f"{API}/watch?after={expected.watching}") as watched:
        assert watched.status_code == (200 if is_same_log else 400)


def test_a_move_there_and_back_while_users_write_loses_and_doubles_nothing(tmp_path: Path, hook: Endpoint) -> None:
    chosen = random.Random(7)
    with serving(tmp_path / "old", settings=SETTINGS) as old_server:
        moving = Moving(tmp_path, old_server.data)
        expected = life_before(old_server, hook)
        play = Workload([old_server], rest_s=0.5)
        moving.killed(when=lambda noted: noted.at != NOWHERE)
        for _ in range(3):
            moving.killed(when=lambda _: True, later_s=chosen.uniform(8.0, 16.0))
        assert "is being moved into this cluster" in refused(tmp_path / "early", **(SETTINGS | moving.cluster))
        assert "is a moment behind" in moving.done()
        moving.killed(
            "--switch", "--no-audit", when=lambda noted: noted.stage == "switching", later_s=chosen.uniform(0, 0.3)
        )
        output = moving.done("--switch", "--no-audit")
        assert "takes writes" in output
        with old_server.client(acting=ALICE) as alice:
            answer = alice.post(f"{API}/users/{CAROL}/follow")
            assert code(answer, 503) == "STORE_MOVED"
            assert answer.json()["error"]["details"]["to"].startswith("keyspace t")
            assert ok(alice.get(f"{API}/graph/follows/{ALICE}/{BOB}"))["exists"], "the old server still reads"
        with serving(tmp_path / "new", settings=SETTINGS | moving.cluster) as new_server:
            play.switch_to(new_server)
            play.recovered()
            check_what_alice_has(new_server, expected, is_same_log=False)
            with new_server.client(acting=ALICE) as alice:
                token = alice.post(f"{API}/users/{BOB + 20}/follow").headers["Kith-Token"]
                later = post(alice, "on the cluster", "another")
            assert "a server uses" in moving.refused("--back")
            old_server.terminate()
            assert "was moved to keyspace" in refused(tmp_path / "old", **SETTINGS)
            moving.killed("--back", when=lambda noted: noted.stage == "returning")
            moving.done("--back")
            with new_server.client(acting=ALICE) as alice:
                assert code(alice.post(f"{API}/users/{BOB}/follow"), 503) == "STORE_MOVED"
            with serving(tmp_path / "old", settings=SETTINGS) as server_again:
                play.switch_to(server_again)
                play.recovered()
                play.check()
                with server_again.client(acting=ALICE) as alice:
                    assert post(alice, "on the cluster", "another") == later
                    assert ok(alice.get(f"{API}/graph/follows/{ALICE}/{BOB + 20}"))["exists"]
                    assert (
                        code(alice.get(f"{API}/users/{ALICE}/following", headers={"Kith-Token": token}), 409)
                        == "CONFLICT"
                    )
                    assert alice.delete(f"{API}/posts/{later}").status_code == 204
                    ok(alice.delete(f"{API}/users/{BOB + 20}/follow"))
                check_what_alice_has(server_again, expected, is_same_log=True)
                posts_written = {str(post) for actor in play.actors for post in actor.posts}
                eventually(lambda: posts_written <= {change.get("id") for change in hook.taken}, 120)
    done(kith_in(tmp_path)("audit", "--data", str(old_server.data)))
