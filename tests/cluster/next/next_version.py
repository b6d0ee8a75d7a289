"""Simulates a next version of Kith: a process that loads this module adds to everything that it stores and sends.

It adds a field each to events, the journal of owners, commands and posts, a column to edges, and kinds of events and
records that today's Kith does not know. Load it after Kith is imported and before it runs (`forking.Launcher`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from kith.core.clock import Hlc
from kith.core.events import RECORD_CHANGED, Event
from kith.engines.cassandra import owner, rows
from kith.engines.kafka import commands, commits, log_store, owner_runner
from kith.log.commands import DecidedCommand
from kith.posts import post

MORE = "of the next version"
NEW_EVENT, NEW_RECORD = 200, 99


class NextRow(commits.LoggedRow, frozen=True, array_like=True, gc=False):
    """An event with one more field."""

    more: str = MORE


class NextBatch(owner.JournaledBatch, frozen=True, array_like=True):
    """A batch in the journal with one more field."""

    more: str = MORE


def row_of(event: Event) -> NextRow:
    return NextRow(*msgspec.structs.astuple(_row_of(event)))


def decide(*arguments: Any) -> list[DecidedCommand]:
    """Decide with additional events of new kinds."""
    event = Event(0, None, NEW_EVENT, 1, 2, 3, Hlc(4), data=MORE.encode())
    record = Event(0, None, RECORD_CHANGED, NEW_RECORD, 5, 0, Hlc(6), data=MORE.encode())
    return [
        decided._replace(events=[*decided.events, event, record]) if decided.events else decided
        for decided in _decide(*arguments)
    ]


def statement_with_more(change: rows.RowChange) -> tuple[str, Any]:
    """Write stored edges with one more column."""
    statement, values = _statement(change)
    if change.table != "edges" or change.values is None:
        return statement, values
    end = len(change.key) + len(change.values)
    statement = statement.replace(") VALUES (", ", next) VALUES (?, ", 1)
    return statement, (*values[:end], MORE, *values[end:])


async def ask_many(self: Any, commands_: Sequence[tuple[int, bytes]]) -> Any:
    """Send each command with one more field."""
    encoded = [
        (
            partition,
            msgspec.msgpack.encode(msgspec.msgpack.decode(command, type=dict[str, msgspec.Raw]) | {"more": MORE}),
        )
        for partition, command in commands_
    ]
    return await _ask_many(self, encoded)


def encode(value: Any) -> bytes:
    """Encode posts with one more field."""
    if not isinstance(value, post.Post):
        return _encode(value)
    return _encode([*msgspec.structs.astuple(value), MORE])


_row_of, _decide, _statement, _encode = commits.row_of, owner._decide, rows._statement, post._encode
_ask_many = commands.KafkaCommands.ask_many
for _module in (commits, owner_runner, log_store):
    _module.row_of = row_of  # type: ignore[attr-defined]
owner._decide, owner.JournaledBatch, rows._statement = decide, NextBatch, statement_with_more  # type: ignore[misc]
post._encode = encode  # type: ignore[assignment]
commands.KafkaCommands.ask_many = ask_many  # type: ignore[method-assign]
