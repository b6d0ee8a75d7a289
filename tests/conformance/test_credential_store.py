"""What every CredentialStore must do, as `access.credentials.CredentialStore` promises."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from coroutines import Run
from engines import Engine

from kith.access.credentials import CredentialStore
from kith.access.guard import hash_key

PORT = "credentials"


@pytest.fixture
def credentials(engine: Engine, tmp_path: Path) -> Iterator[CredentialStore]:
    assert engine.credentials
    with engine.credentials(tmp_path) as opened:
        yield opened


def test_a_server_key_is_stored_once_however_often_it_is_added(run: Run, credentials: CredentialStore) -> None:
    async def play() -> None:
        assert await credentials.server_keys() == []
        for key in ("kith_one", "kith_two", "kith_one"):
            await credentials.add_server_key(hash_key(key))
        assert sorted(await credentials.server_keys()) == sorted(map(hash_key, ("kith_one", "kith_two")))

    run(play())


def test_a_removed_server_key_is_gone_until_it_is_added_again(run: Run, credentials: CredentialStore) -> None:
    async def play() -> None:
        one, two = hash_key("kith_one"), hash_key("kith_two")
        await credentials.remove_server_key(one)
        for key in (one, two):
            await credentials.add_server_key(key)
        for _ in range(2):
            await credentials.remove_server_key(one)
            assert await credentials.server_keys() == [two]
        await credentials.add_server_key(one)
        assert sorted(await credentials.server_keys()) == sorted((one, two))

    run(play())


def test_a_secret_is_generated_once_for_each_name(run: Run, credentials: CredentialStore) -> None:
    async def play() -> None:
        secrets = await asyncio.gather(*(credentials.secret("signing") for _ in range(10)))
        assert len(set(secrets)) == 1
        assert len(secrets[0]) == 32
        assert await credentials.secret("jwt") != secrets[0]
        assert await credentials.secret("signing") == secrets[0]

    run(play())


def test_keys_and_secrets_are_there_after_a_restart(run: Run, lasting: Engine, tmp_path: Path) -> None:
    assert lasting.credentials
    with lasting.credentials(tmp_path) as first:
        run(first.add_server_key(hash_key("kith_one")))
        secret = run(first.secret("signing"))
    with lasting.credentials(tmp_path) as second:
        assert run(second.server_keys()) == [hash_key("kith_one")]
        assert run(second.secret("signing")) == secret
