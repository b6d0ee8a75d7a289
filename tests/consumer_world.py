"""A store, its log, and a consumer that records the events it handles; for tests of runners."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from cast import FakeClock
from coroutines import Run
from edges import edge_of, writes_of

from kith.core.errors import StoreUnavailable
from kith.core.events import NOWHERE, Event
from kith.graph.store import EdgeStore
from kith.log.runner import Pace, Runner
from kith.log.store import Failure, LogStore, Progress

PACE = Pace(batch_max=10, tries_max=3, backoff_s=1.0, save_s=0.0)
SOURCES = 5
"""Number of sources of the events, so that a partitioned log has them in several partitions."""


class RecordingConsumer:
    """A consumer that records the events it handles. Events are numbered as they were written, from 1 on.

    `broken`: events that fail. `outage`: every event fails. `left`: slices of its backlog. `meanwhile`: called once,
    while it handles the next batch.
    """

    name = "remembering"

    def __init__(self) -> None:
        self.handled: list[int] = []
        self.broken: set[int] = set()
        self.outage = False
        self.left_error: Exception | None = None
        self.lost_count = self.left = 0
        self.meanwhile: Callable[[], Awaitable[object]] | None = None

    @property
    def seen(self) -> list[int]:
        """The numbers of the handled events, ascending."""
        return sorted(self.handled)

    async def handle(self, events: Sequence[Event]) -> None:
        if self.outage:
            raise StoreUnavailable("not now")
        if self.meanwhile is not None:
            act, self.meanwhile = self.meanwhile, None
            await act()
        for event in events:
            if event.destination in self.broken:
                raise ValueError(f"event {event.destination} is broken")
            self.handled.append(event.destination)

    async def work_backlog(self) -> bool:
        if self.left_error is not None:
            raise self.left_error
        self.left -= self.left > 0
        return self.left > 0

    async def rebuild(self) -> None:
        self.lost_count += 1


class ConsumerWorld:
    """A store, its log, a consumer and a clock. A test starts runners over them, one after another."""

    def __init__(self, run: Run, edges: EdgeStore, log: LogStore, clock: FakeClock) -> None:
        self._run, self._edges, self.log = run, edges, log
        self.clock, self.consumer, self.written = clock, RecordingConsumer(), 0
        self.mark = NOWHERE
        self._runner: Runner | None = None

    def write(self, count: int, version: int = 0) -> None:
        """Write `count` events, and check that they can be read."""
        numbers = range(self.written + 1, self.written + 1 + count)
        self.written += count
        edges = [edge_of(1 + number % SOURCES, number, version=version) for number in numbers]
        self.mark = self._run(self._edges.apply(writes_of(*edges)))[-1].log_position
        assert self._run(self.log.reached(self.mark))

    def runner(self, pace: Pace = PACE) -> Runner:
        """A new runner, as of a new process. The subscription of the previous runner is closed."""
        if self._runner is not None and self._runner._share is not None:
            self._run(self._runner._share.close())
        self._runner = Runner(self.consumer, self.log, pace, lambda: self.clock.ms)
        return self._runner

    def drain(self, runner: Runner) -> None:
        """Step until no work is left."""
        while self._run(runner.step()):
            pass

    def failures(self) -> Sequence[Failure]:
        return self._run(self.log.failures("remembering"))

    def progress(self) -> Progress | None:
        return self._run(self.log.progress("remembering"))
