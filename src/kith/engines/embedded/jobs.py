"""Write jobs: the work of a commit queue, where its jobs come from and who gets their answers.

A job is a function of a `Transaction`. A `WriteJob` is also a value that can be encoded, so another process can do it
(see `committer`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Any, NamedTuple, Protocol, TypeAlias

import msgspec

from kith.engines.embedded.transaction import Transaction


class WriteJob(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=True):
    """A job that is a value. Calling it with a transaction does the job."""

    def __call__(self, batch: Transaction) -> Any:
        """Do the job, and return its answer."""
        raise NotImplementedError

    def graphs(self) -> Collection[int]:
        """The graphs whose edges the job writes or reads."""
        return ()


class WaitingJob(NamedTuple):
    """A job that is waiting or running. `writes`: how many writes it counts as. `ticket`: the submitter's handle."""

    work: Callable[[Transaction], Any]
    writes: int
    submitter: JobSubmitter
    ticket: Any


JobOutcome: TypeAlias = tuple[WaitingJob, Any, BaseException | None]
"""A job with its answer and its error; the error is None if the job was done."""


class JobSubmitter(Protocol):
    """Submits jobs, and receives their outcomes. Hashable."""

    def answer(self, outcomes: list[JobOutcome]) -> None:
        """Receive the outcomes of some of its jobs, done or failed. Called by any thread."""
        ...


class SubmitterGone(Exception):
    """The process that submitted the jobs was killed, so they must not be done any more."""


class JobSource(Protocol):
    """Where a commit queue gets its jobs: a queue in its own process, or another process."""

    def get(self, block: bool = True, timeout: float | None = None) -> WaitingJob | None:
        """Wait for the next job; None after the last one. Raises `queue.Empty` after `timeout` seconds."""
        ...

    def get_nowait(self) -> WaitingJob | None:
        """The same without waiting."""
        ...

    def put(self, job: WaitingJob | None) -> None:
        """Add a job of this process; None marks the end of the jobs."""
        ...

    def empty(self) -> bool:
        """Whether no job waits."""
        ...


class RemoteJobSource(JobSource, Protocol):
    """Jobs that another process submits."""

    def check(self) -> None:
        """Raise SubmitterGone if that process was killed."""
        ...


class RemoteCommitter(Protocol):
    """A process that does `WriteJob`s for this one."""

    @property
    def waiting(self) -> int:
        """How many submitted writes it has not answered yet, cancelled ones included."""
        ...

    def ask(self, job: WriteJob, writes: int) -> asyncio.Future[Any] | None:
        """Submit a job. The future fails with StoreUnavailable where it is unknown whether the job was done.

        None if the committer cannot do this job; the calling process must do it then.
        """
        ...
