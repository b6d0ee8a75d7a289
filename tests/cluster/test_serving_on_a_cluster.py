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
    with ExitStack() as stack:
        first, second = (stack.enter_context(serving(folder / name, **settings)) for name in ("one", "two"))
        yield first, second


@pytest.fixture
def people(request: pytest.FixtureRequest) -> People:
    return people_of(sum(request.node.name.encode()))


def test_a_write_on_one_machine_is_read_on_the_other(machines: tuple[Server, Server], people: People) -> None:
    first, second = machines
    with first.client(acting=people.alice) as alice, second.client(acting=people.bob) as bob:
        answer = alice.post(f"{API}/users/{people.bob}/follow")
        assert ok(answer)["changed"]
        alice_there = second.client(acting=people.alice, headers={"Kith-Token": answer.headers["Kith-Token"]})
        with alice_there:
            followed = ok(alice_there.get(f"{API}/users/{people.alice}/following"))
            assert [first["id"] for first in followed["items"]] == [str(people.bob)]
        post = int(make(bob, "hello"))
        eventually(lambda: home(alice) == [post])
        ok(alice.post(f"{API}/posts/{post}/like"))
        eventually(
            lambda: [first["type"] for first in ok(bob.get(f"{API}/notifications"))["items"]] == ["like", "follow"]
        )
        ok(bob.post(f"{API}/users/{people.alice}/block"))
        assert alice.post(f"{API}/users/{people.bob}/follow").status_code == 403
        eventually(lambda: home(alice) == [])


def test_the_lag_of_undecided_commands_is_in_the_metrics(machines: tuple[Server, Server], people: People) -> None:
    first, _ = machines
    with first.client(acting=people.alice) as alice:
        ok(alice.post(f"{API}/users/{people.bob}/follow"))
    lines = [line for line in first.get("/metrics").text.splitlines() if line.startswith("kith_apply_lag_")]
    assert {line.split()[0] for line in lines} == {"kith_apply_lag_events", "kith_apply_lag_oldest_seconds"}


def test_no_follow_is_lost_or_doubled_while_owners_are_killed(machines: tuple[Server, Server], people: People) -> None:
    """Writes wait until another process has taken over. Answered writes are stored, and counts are exact."""
    first_machine, second_machine = machines
    followers = [people.dana - 1 - number for number in range(FOLLOWERS)]
    answered_users = []
    for number, follower in enumerate(followers):
        if number % 20 == 10:
            (pid,) = named("apply", (first_machine, second_machine)[number // 20 % 2].process.pid)
            os.kill(pid, signal.SIGKILL)
        with (first_machine, second_machine)[number % 2].client(acting=follower) as client:

            def followed(client: httpx.Client = client) -> bool:
                answer = client.post(f"{API}/users/{people.carol}/follow")
                assert answer.status_code in (200, 503), answer.text
                return answer.status_code == 200

            eventually(followed, 60)
            answered_users.append(follower)
    with first_machine.client() as client:
        assert ok(client.get(f"{API}/graph/follows/{people.carol}/in/count")) == {"count": FOLLOWERS}
        listed = ok(client.get(f"{API}/graph/follows/{people.carol}/in?limit=100"))["items"]
    assert sorted(int(first_machine["id"]) for first_machine in listed) == sorted(answered_users)
