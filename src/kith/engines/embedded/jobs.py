"""Write jobs: what a commit queue is asked to do, by whom, and who else may do it.

A job is a function of a `Transaction`. One that is a `WriteJob` is a value too, so another process can do it (see
`committer`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Any, NamedTuple, Protocol, TypeAlias

import msgspec

from kith.engines.embedded.batch import Transaction


class WriteJob(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=True):
    """A job as a value: called with the transaction, it does it."""

    def __call__(self, batch: Transaction) -> Any:
        """Do it, and return the answer."""
        raise NotImplementedError

    def graphs(self) -> Collection[int]:
        """The graphs whose edges it writes or looks at."""
        return ()


class WaitingJob(NamedTuple):
    """A job that waits, or is being done. `ticket`: by what its asker knows it."""

    work: Callable[[Transaction], Any]
    writes: int
    asker: JobAsker
    ticket: Any


JobOutcome: TypeAlias = tuple[WaitingJob, Any, BaseException | None]
"""A job, and its answer or its error."""


class JobAsker(Protocol):
    """Who asked for jobs, to be told what became of them. Hashable."""

    def answer(self, outcomes: list[JobOutcome]) -> None:
        """Some jobs of this asker are done, or could not be. Called by any thread."""
        ...


class AskerGone(Exception):
    """Who asked for a job was killed meanwhile, so it is not to be done any more."""


class JobSource(Protocol):
    """Where a commit queue has its jobs from: a queue of its process, or a process that asks."""

    def get(self, block: bool = True, timeout: float | None = None) -> WaitingJob | None:
        """The next job, waited for; None when there will be none. `queue.Empty` after `timeout` seconds."""
        ...

    def get_nowait(self) -> WaitingJob | None:
        """The same without waiting."""
        ...

    def put(self, asked: WaitingJob | None) -> None:
        """A job of this process; None behind the last one."""
        ...

    def empty(self) -> bool:
        """Whether no job waits."""
        ...


class RemoteJobSource(JobSource, Protocol):
    """A process that asks."""

    def check(self) -> None:
        """AskerGone where it was killed."""
        ...


class RemoteCommitter(Protocol):
    """A process that does jobs which are values."""

    @property
    def waiting(self) -> int:
        """How many writes it was asked for and has not answered, whoever still waits for them."""
        ...

    def ask(self, job: WriteJob, writes: int) -> asyncio.Future[Any] | None:
        """Have a job done. The error is StoreUnavailable where nobody knows whether it was.

        None where it cannot do this one, which the process then does itself.
        """
        ...
