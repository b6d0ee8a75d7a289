"""The thread that makes checkpoints."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from kith.engines.embedded import checkpoints
from kith.engines.embedded.batch import Transaction
from kith.engines.embedded.commits import CommitQueue
from kith.engines.embedded.environment import Environment


def test_a_process_that_closes_just_as_a_checkpoint_begins_comes_to_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`close` sets its two events at the worst moment: after the last look at the one, before the other is cleared."""
    monkeypatch.setattr(checkpoints, "INTERVAL_S", 0.0)
    environment = Environment(tmp_path / "data")
    made = environment._checkpoints  # the moment cannot be met from outside
    wakes = _Waking(made)
    monkeypatch.setattr(made, "_uncovered", wakes)
    environment.put_note("a write", b"1")
    assert wakes.cleared.wait(10)
    closing = threading.Thread(target=environment.close, daemon=True)
    closing.start()
    closing.join(10)
    assert not closing.is_alive()


def test_many_changes_do_not_wait_for_the_interval_so_freed_pages_are_used_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "INTERVAL_S", 3_600.0)

    def rewrite(batch: Transaction) -> int:
        for number in range(checkpoints.CHANGES_MAX):
            batch.put_note(f"note {number}", bytes(300))
        return batch.txn.id()

    async def write(environment: Environment, commits: CommitQueue) -> int:
        written = await commits.run(rewrite)
        async with asyncio.timeout(10):
            while _base(environment) < written:  # noqa: ASYNC110
                await asyncio.sleep(0)
        return environment.bytes_used()

    async def rounds(environment: Environment, commits: CommitQueue) -> list[int]:
        return [await write(environment, commits) for _ in range(12)]

    with Environment(tmp_path / "data") as environment:
        commits = CommitQueue(environment)
        used = asyncio.run(rounds(environment, commits))
        commits.close()
    a_round = used[1] - used[0]
    assert used[-1] - used[0] <= 4 * a_round, used  # 11, if nothing were used again


def _base(environment: Environment) -> int:
    base = environment.journal.base()
    assert base is not None
    return base.txn


class _Waking(threading.Event):
    """Is set once more by `close` directly before it is cleared."""

    def __init__(self, made: checkpoints.Checkpoints) -> None:
        super().__init__()
        self._made, self.cleared = made, threading.Event()

    def clear(self) -> None:
        self._made._closing.set()
        super().clear()
        self.cleared.set()
