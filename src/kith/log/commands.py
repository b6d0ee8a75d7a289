"""The ports of a log of commands: what was asked for, durable before it is decided.

An engine without transactions across rows decides writes in one place for each key. A command is appended to the
partition of its key, and the **owner** of that partition takes its commands in order. It is the only writer of what
they change, so what it decides is exact. What it answers, and the events that follow, are told once, however often it
is killed.

A batch of commands goes this way; the process may end between any two steps:

1. the owner decides them all, and writes down what follows: rows as they will be, events, outcomes (one row, the
   batch's journal);
2. it writes the rows, absolute values with versions from the offsets of the commands, so that doing it again changes
   nothing, and a former owner who wakes up loses;
3. the log appends the events and moves the owner's offset behind the batch, both or neither, and only for who is
   still the owner;
4. whoever asked hears the outcome.

An owner that takes over reads the journal: a batch that is written down and not yet behind that offset is done again
from step 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from kith.core.events import Event, LogPosition


class Command(NamedTuple):
    """A command as it stands in its partition. `at_ms`: when it was appended, which is the time for deciding it."""

    offset: int  # greater than those before it in the partition, not always by one
    at_ms: int
    data: bytes


class Decided(NamedTuple):
    """What became of a command: what is answered, and the events that tell it, in their order."""

    offset: int
    outcome: bytes
    events: Sequence[Event]


class Reply(NamedTuple):
    """The answer to a command. `log_position`: a log that covers it has all events of the command."""

    outcome: bytes
    log_position: LogPosition


class Waiting(NamedTuple):
    """Commands that are appended and not done. `oldest_ms`: when the first of them was; None if there is none."""

    commands: int
    oldest_ms: int | None


class Owner(Protocol):
    """Decides the commands of partitions; steps 1 and 2 of a batch. One task at a time calls it for one partition.

    Errors: StoreUnavailable, after which the caller begins again with `take` if the partition is still its own. Fenced
    (see `log.store`), where another has taken over.
    """

    async def take(self, partition: int, next_write: int) -> Sequence[Decided]:
        """Become the owner. `next_write`: all commands with lesser offsets are done. Forgets what it held in memory.

        The answer: what a former owner wrote down at this offset or after it, with its rows written now.
        """
        ...

    async def decide(self, partition: int, commands: Sequence[Command]) -> Sequence[Decided]:
        """Decide commands in order, and write their rows; one answer each, in the same order.

        Called again once what it answered before is told.
        """
        ...


class Commands(Protocol):
    """Appends commands, and waits for their outcome.

    Errors: `NotConfirmed` where no answer came in time (it is safe to ask again: commands are idempotent),
    `StoreUnavailable` where it could not be appended.
    """

    partitions: int  # for good: who owns a row follows from it

    async def ask(self, partition: int, data: bytes) -> Reply:
        """Append a command, and wait until its owner has done it."""
        ...

    async def ask_many(self, asked: Sequence[tuple[int, bytes]]) -> list[Reply]:
        """Like `ask`, for several (partition, data) at once; those of one partition in their order."""
        ...
