"""The ports of a command log: requested writes, durable before they are decided.

An engine without transactions across rows decides the writes of a key in one place. A command is appended to the
partition of its key, and the **owner** of that partition processes its commands in order. The owner is the only writer
of the rows that these commands change, so its decisions are exact. Each command gets one answer, and its events are
logged once, however often the owner is killed.

A batch of commands takes these steps. The process may stop between any two of them:

1. The owner decides all commands of the batch, and writes down the result: the new rows, events and outcomes. This one
   row is the batch's journal.
2. It writes the rows: absolute values, with versions from the offsets of the commands. So repeating the step changes
   nothing, and a former owner that wakes up loses.
3. The log appends the events and moves the owner's offset past the batch, in one transaction, and only for the current
   owner.
4. The waiting caller gets the outcome.

A new owner reads the journal. A batch that is written down but not yet passed by that offset is repeated from step 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from kith.core.events import Event, LogPosition


class Command(NamedTuple):
    """A command in its partition. `at_ms`: when it was appended, but not after the owner's own time. It is decided as
    of then.
    """

    offset: int  # greater than the offsets before it in the partition, not always by one
    at_ms: int
    data: bytes


class DecidedCommand(NamedTuple):
    """The result of a command: its answer, and its events in order."""

    offset: int
    outcome: bytes
    events: Sequence[Event]


class Reply(NamedTuple):
    """The answer to a command. A log position that covers `log_position` has all events of the command."""

    outcome: bytes
    log_position: LogPosition


class PendingCommands(NamedTuple):
    """Commands that are appended and not done. `oldest_ms`: when the oldest was appended; None if there are none."""

    commands: int
    oldest_ms: int | None


class Owner(Protocol):
    """Decides the commands of partitions: steps 1 and 2 of a batch. For each partition, one task at a time calls it.

    Errors: StoreUnavailable; the caller then starts again with `take`, if the partition is still its own. Fenced (see
    `log.store`) if another owner has taken over.
    """

    async def take(self, partition: int, next_write: int) -> Sequence[DecidedCommand]:
        """Become the owner of a partition. All commands with offsets below `next_write` are done. Clears in-memory
        state.

        Returns what a former owner wrote down from this offset on; its rows are written now.
        """
        ...

    async def decide(self, partition: int, commands: Sequence[Command]) -> Sequence[DecidedCommand]:
        """Decide commands in order and write their rows. One answer per command, in the same order.

        Called again only after its previous answers were sent.
        """
        ...


class Commands(Protocol):
    """Appends commands and waits for their outcome.

    Errors: `NotConfirmed` if no answer came in time (retrying is safe: commands are idempotent); `StoreUnavailable` if
    the command could not be appended.
    """

    partitions: int  # never changes: the owner of a row follows from it

    async def ask(self, partition: int, data: bytes) -> Reply:
        """Append a command, and wait until its owner has done it."""
        ...

    async def ask_many(self, commands: Sequence[tuple[int, bytes]]) -> list[Reply]:
        """As `ask`, for several (partition, data) at once. Commands of one partition keep their order."""
        ...
