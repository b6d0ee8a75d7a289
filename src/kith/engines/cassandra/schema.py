"""The tables of edges and records in Cassandra, and how they are created. README.md says what each is for.

A table has key columns (the partition key first) and value columns. Every row outside `metadata` and `journals` is
written with a timestamp: the offset, plus 1, of the last command that touched the row, in the partition of the command
log that owns it. So writing a row again, or late, changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kith.engines.cassandra.connecting import Session


class Table(NamedTuple):
    """A table. Columns are written as `name type`."""

    name: str
    place: tuple[str, ...]  # the partition key
    order: tuple[str, ...] = ()  # the clustering columns, which order rows; `name type DESC`: greatest first
    values: tuple[str, ...] = ()
    options: str = ""

    @property
    def key(self) -> tuple[str, ...]:
        """The names of the key columns."""
        return _names(self.place + self.order)

    @property
    def created(self) -> str:
        """The statement that creates the table."""
        columns = ", ".join([*(" ".join(column.split()[:2]) for column in self.place + self.order), *self.values])
        keys = ", ".join([f"({', '.join(_names(self.place))})", *_names(self.order)])
        ordered = ", ".join(
            f"{name} {'DESC' if descends else 'ASC'}" for name, _, *descends in map(str.split, self.order)
        )
        options = [f"CLUSTERING ORDER BY ({ordered})"] if ordered else []
        options += [self.options] if self.options else []
        ending = f" WITH {' AND '.join(options)}" if options else ""
        return f"CREATE TABLE IF NOT EXISTS {self.name} ({columns}, PRIMARY KEY ({keys})){ending}"


QUEUE_GRACE_S, NOTES_GRACE_S = 3 * 3_600, 86_400
"""How long Cassandra keeps tombstones (gc_grace_seconds) of tables where many rows come and go in one partition: reads
pass over them. A replica that was down for longer may bring a deleted row back. A queue's row is then processed again,
or deleted again if there is nothing to do.
"""


def short_lived(grace_s: int) -> str:
    """The options of a table whose rows come and go: its tombstones leave memory and files soon after `grace_s`."""
    compaction = {
        "class": "SizeTieredCompactionStrategy",
        "tombstone_compaction_interval": "3600",
        "unchecked_tombstone_compaction": "true",
    }
    flushed_ms = 3_600_000
    return f"gc_grace_seconds = {grace_s} AND memtable_flush_period_in_ms = {flushed_ms} AND compaction = {compaction}"


LIST = ("graph smallint", "node bigint", "direction tinyint", "state tinyint")

EDGES = Table(
    "edges",
    ("source bigint",),
    ("graph smallint", "destination bigint"),
    ("state tinyint", "position bigint", "updated_at bigint", "expires_ms bigint"),
)
ENTRIES = Table(
    "list_entries", (*LIST, "part bigint"), ("position bigint DESC", "other bigint DESC"), ("expires_ms bigint",)
)
COUNTS = Table(
    "counts",
    ("node bigint",),
    ("graph smallint", "direction tinyint", "state tinyint", "partition smallint"),
    ("length bigint", "expiring bigint"),
)
CELLS = COUNTS._replace(order=COUNTS.order[:-1], values=(COUNTS.order[-1], *COUNTS.values))
"""A view of `counts` for reads: all partitions' counts of a list."""
DIVISIONS = Table(
    "divisions", ("node bigint",), ("graph smallint", "direction tinyint", "state tinyint"), ("parts blob",)
)
LONG_LISTS = Table("long_lists", ("partition smallint",), LIST)
"""Notes of long lists, without parts, written by owners of an older version."""
LONG_PARTS = Table("long_parts", ("partition smallint",), (*LIST, "part bigint"))
ENDING = Table("ending", LIST, ("expires_ms bigint", "other bigint"))
"""The entries of a list that expire, by time: so a length can leave out expired ones."""
EXPIRING = Table(
    "expiring",
    ("partition smallint",),
    ("expires_ms bigint", "graph smallint", "source bigint", "destination bigint"),
    options=short_lived(QUEUE_GRACE_S),
)
"""The edges of a partition that expire, by time: so its owner finds those to remove."""
NODES = Table("nodes", ("node bigint",), (), ("state tinyint", "private boolean", "labels smallint"))
NOTES = Table("notes", ("shelf tinyint",), ("name text",), ("note blob",), short_lived(NOTES_GRACE_S))
SHELF = 0
"""The Cassandra partition of all notes: they are few, and are listed by prefix."""
RECORDS = Table("records", ("kind smallint", "id bigint"), (), ("updated_at bigint", "data blob"))
RECORD_IDS = Table(
    "record_ids",
    ("kind smallint", "partition smallint", "period smallint"),
    ("id bigint",),
    options=short_lived(QUEUE_GRACE_S),
)
RECORD_PERIODS = Table("record_periods", ("kind smallint",), ("period smallint", "partition smallint"))
CLAIMS = Table("claims", ("claim blob",), (), ("until_ms bigint", "value blob"))
CLOSED = Table("closed", ("partition smallint",), (), ("permit bigint", "moved_to text"))
OWNED = (
    EDGES, ENTRIES, DIVISIONS, LONG_LISTS, LONG_PARTS, COUNTS, ENDING, EXPIRING,
    NODES, NOTES, RECORDS, RECORD_IDS, RECORD_PERIODS, CLAIMS, CLOSED,
)  # fmt: skip
"""Tables whose rows only owners write."""
METADATA = Table("metadata", ("name text",), (), ("value blob",))
JOURNALS = Table("journals", ("partition smallint",), ("number smallint",), ("epoch bigint STATIC", "written blob"))
TABLES = (*OWNED, METADATA, JOURNALS)
TABLES_BY_NAME = {table.name: table for table in OWNED} | {"cells": CELLS}


def _names(columns: Iterable[str]) -> tuple[str, ...]:
    return tuple(column.split()[0] for column in columns)


async def create(session: Session, keyspace: str, tables: Iterable[Table]) -> None:
    """Create the tables that are missing, and wait until all nodes know them."""
    existing = await session.rows(
        "SELECT table_name FROM system_schema.tables WHERE keyspace_name = ?", keyspace.lower()
    )
    missing = [table for table in tables if (table.name,) not in existing]
    for table in missing:
        await session.define(table.created)
    if missing:
        await session.await_schema_agreement()
