"""Requests to two servers on one Cassandra, Kafka and Redis, as on two machines: each has its own folder."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import pytest
from calls import home, make, ok
from cast import People, people_of
from servers import API, Server, eventually, keyspace_of, named, on_cluster, serving

FOLLOWERS = 60


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Server]]:
    """Two machines that serve one community."""
    folder = tmp_path_factory.mktemp("machines")
    settings = on_cluster(keyspace_of(folder))
    with ExitStack() as both:
        first, second = (both.enter_context(serving(folder / name, **settings)) for name in ("one", "two"))
        yield first, second


@pytest.fixture
def people(request: pytest.FixtureRequest) -> People:
    return people_of(sum(request.node.name.encode()))


def test_a_write_on_one_machine_is_read_on_the_other(machines: tuple[Server, Server], people: People) -> None:
    one, two = machines
    with one.client(acting=people.alice) as alice, two.client(acting=people.bob) as bob:
        written = alice.post(f"{API}/users/{people.bob}/follow")
        assert ok(written)["changed"]
        alice_there = two.client(acting=people.alice, headers={"Kith-Token": written.headers["Kith-Token"]})
        with alice_there:
            following = ok(alice_there.get(f"{API}/users/{people.alice}/following"))
            assert [one["id"] for one in following["items"]] == [str(people.bob)]
        post = int(make(bob, "hello"))
        eventually(lambda: home(alice) == [post])
        ok(alice.post(f"{API}/posts/{post}/like"))
        eventually(lambda: [one["type"] for one in ok(bob.get(f"{API}/notifications"))["items"]] == ["like", "follow"])
        ok(bob.post(f"{API}/users/{people.alice}/block"))
        assert alice.post(f"{API}/users/{people.bob}/follow").status_code == 403
        eventually(lambda: home(alice) == [])


def test_the_lag_of_undecided_commands_is_in_the_metrics(machines: tuple[Server, Server], people: People) -> None:
    one, _ = machines
    with one.client(acting=people.alice) as alice:
        ok(alice.post(f"{API}/users/{people.bob}/follow"))
    told = [line for line in one.get("/metrics").text.splitlines() if line.startswith("kith_apply_lag_")]
    assert {line.split()[0] for line in told} == {"kith_apply_lag_events", "kith_apply_lag_oldest_seconds"}


def test_no_follow_is_lost_or_doubled_while_owners_are_killed(machines: tuple[Server, Server], people: People) -> None:
    """Writes wait until another process has taken over. Answered writes are stored, and counts are exact."""
    one, two = machines
    followers = [people.dana - 1 - number for number in range(FOLLOWERS)]
    answered = []
    for number, follower in enumerate(followers):
        if number % 20 == 10:
            (pid,) = named("apply", (one, two)[number // 20 % 2].process.pid)
            os.kill(pid, signal.SIGKILL)
        with (one, two)[number % 2].client(acting=follower) as client:

            def followed(client: httpx.Client = client) -> bool:
                answer = client.post(f"{API}/users/{people.carol}/follow")
                assert answer.status_code in (200, 503), answer.text
                return answer.status_code == 200

            eventually(followed, 60)
            answered.append(follower)
    with one.client() as client:
        assert ok(client.get(f"{API}/graph/follows/{people.carol}/in/count")) == {"count": FOLLOWERS}
        listed = ok(client.get(f"{API}/graph/follows/{people.carol}/in?limit=100"))["items"]
    assert sorted(int(one["id"]) for one in listed) == sorted(answered)
