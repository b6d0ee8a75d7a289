"""Opens the stores of one side of a move (source or target), for each engine. `engines` registers them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from reference_contents import ReferenceContents
from reference_credentials import ReferenceCredentials
from reference_edges import ReferenceEdges
from reference_inbox import ReferenceInboxes
from reference_logs import HostileLog, Partitions, ReferenceLog
from reference_records import ReferenceRecords, RowRecords
from scrambled_edges import ScrambledEdges
from store_wrappers import RemoteStore

from kith.engines.embedded.commits import CommitQueue
from kith.engines.embedded.contents import EmbeddedContents
from kith.engines.embedded.edge_store import EmbeddedEdges
from kith.engines.embedded.environment import Environment
from kith.engines.embedded.inbox_store import EmbeddedInboxes
from kith.engines.embedded.log_store import EmbeddedLog
from kith.engines.embedded.record_store import EmbeddedRecords
from kith.moving.store_writer import StoreSide


@contextmanager
def reference_side(folder: Path) -> Iterator[StoreSide]:
    """A side in memory."""
    edges, inboxes, credentials = ReferenceEdges(), ReferenceInboxes(), ReferenceCredentials()
    records = ReferenceRecords(edges)
    contents = ReferenceContents(edges, records, inboxes, credentials)
    yield StoreSide(edges, records, ReferenceLog(edges), inboxes, contents)


@contextmanager
def hostile_side(folder: Path) -> Iterator[StoreSide]:
    """A side in memory: calls suspend, lists lag, record conditions cover single rows, the log is partitioned."""
    chance = random.Random(f"{folder.name}")
    edges = ScrambledEdges(seed=chance.randrange(2**32), late_max=40, events=Partitions(3, chance))
    inboxes, credentials, records = ReferenceInboxes(), ReferenceCredentials(), RowRecords(edges)
    contents = ReferenceContents(edges, records, inboxes, credentials)
    away: Any = [RemoteStore(store, chance) for store in (edges, records, inboxes, contents)]
    yield StoreSide(away[0], away[1], HostileLog(edges, chance), away[2], away[3])


@contextmanager
def embedded_side(folder: Path) -> Iterator[StoreSide]:
    """A side of the embedded engine, in a folder."""
    inboxes = EmbeddedInboxes(folder / "inboxes", bytes_max=1 << 30)
    with Environment(folder, durability="relaxed") as environment:
        commits = CommitQueue(environment)
        try:
            edges, records = EmbeddedEdges(environment, commits), EmbeddedRecords(environment, commits)
            contents = EmbeddedContents(environment, inboxes)
            yield StoreSide(edges, records, EmbeddedLog(environment, commits), inboxes, contents)
        finally:
            commits.close()
            inboxes.close()
