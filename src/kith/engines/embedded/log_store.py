"""The LogStore on LMDB: reads the event log of the graph (`event_log`), and keeps consumers' notes in `meta`.

group/<name>                 how far the consumer is: a decimal sequence number
failure/<group>/<sequence>   a Failure as MessagePack
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager

import lmdb
import msgspec

from kith.core.events import Event
from kith.engines.embedded import bells, event_log
from kith.engines.embedded.commits import Batch, CommitQueue
from kith.engines.embedded.driver_errors import translate
from kith.engines.embedded.environment import Environment
from kith.log.store import Bell, Failure

_GROUP, _FAILURE = "group/", "failure/"


class EmbeddedLog:
    """See `log.store.LogStore`: one partition, in the order of commits."""

    def __init__(self, environment: Environment, commits: CommitQueue) -> None:
        self._environment, self._commits = environment, commits

    def bounds(self) -> tuple[int, int]:
        with self._begin() as txn:
            return event_log.bounds(txn, self._environment.log)

    def read(self, after: int, limit: int) -> Sequence[Event]:
        with self._begin() as txn:
            return list(event_log.read(txn, self._environment.log, after, limit))

    async def progress(self, group: str) -> int | None:
        found = self._environment.get_note(_GROUP + group)
        return None if found is None else int(found)

    async def save(self, group: str, sequence: int | None, failures: Mapping[int, Failure | None]) -> None:
        def note(batch: Batch) -> None:
            if sequence is not None:
                batch.put_note(_GROUP + group, str(sequence).encode())
            for number, failure in failures.items():
                row = None if failure is None else msgspec.msgpack.encode(failure)
                batch.put_note(f"{_FAILURE}{group}/{number:020}", row)

        await self._commits.run(note)

    def failures(self, group: str | None = None, limit: int | None = None) -> Sequence[Failure]:
        prefix = _FAILURE if group is None else f"{_FAILURE}{group}/"
        return [msgspec.msgpack.decode(row, type=Failure) for row in self._environment.notes(prefix, limit).values()]

    def groups(self) -> Mapping[str, int]:
        return {group: int(sequence) for group, sequence in self._environment.notes(_GROUP).items()}

    async def announce(self, event: Event) -> None:
        packed = event_log.pack_announcement(event)
        await self._commits.run(lambda batch: batch.append(packed))

    def bell(self) -> AbstractContextManager[Bell]:
        return bells.bell(self._environment.folder)

    def _begin(self) -> lmdb.Transaction[bytes]:
        try:
            return self._environment.lmdb.begin()
        except lmdb.Error as error:
            raise translate(error, "read") from error
