"""A copy of the store, as a standby or a backup starts with, blocks no writer."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from coroutines import Run
from embedded_engine import open_embedded

from kith.core.errors import StoreUnavailable
from kith.engines.embedded.environment import Environment
from kith.engines.embedded.shipping import Shipping
from kith.engines.embedded.store_copy import copy_of
from kith.engines.embedded.transaction import Transaction

WITHIN_S = 10.0
NOTE_BYTES, NOTES = 1 << 20, 8
"""More than a pipe and LMDB's buffers hold, so that a copy that nobody reads does not end."""


def _fill(environment: Environment) -> None:
    for number in range(NOTES):
        environment.put_note(f"large/{number}", bytes(NOTE_BYTES))


def _fails(batch: Transaction) -> None:
    batch.put_note("undone", b"1")
    raise ValueError("a job that fails")


def test_a_job_that_fails_beside_a_snapshot_blocks_no_writer(tmp_path: Path, run: Run) -> None:
    run(_fail_beside_a_snapshot(tmp_path))


async def _fail_beside_a_snapshot(folder: Path) -> None:
    with open_embedded(folder) as (environment, edges):
        _fill(environment)
        shipping = Shipping(environment)
        snapshot = shipping.snapshot()
        first = await anext(snapshot)
        with pytest.raises(ValueError, match="a job that fails"):
            await asyncio.wait_for(edges._commits.run(_fails), WITHIN_S)
        await asyncio.wait_for(edges._commits.run(lambda batch: batch.put_note("done", b"1")), WITHIN_S)
        assert len(first) + sum([len(chunk) async for chunk in snapshot]) > NOTES * NOTE_BYTES
        await shipping.close()


def test_a_copy_that_is_not_read_to_its_end_is_an_error(tmp_path: Path) -> None:
    with open_embedded(tmp_path) as (environment, _):
        _fill(environment)
        with pytest.raises(StoreUnavailable, match="could not be copied"), copy_of(environment) as reading:
            assert os.read(reading, 1)
