"""The role of this machine, for an API process over a data folder: whether it is the primary, and its standbys."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from kith.api.lag_header import LagHeader
from kith.core.clock import wall_ms
from kith.core.errors import KithError
from kith.engines.embedded import segments, store_role
from kith.engines.embedded.shipping import Shipping
from kith.http.exchange import Serve
from kith.log.lease_holder import LogLeaseHolder
from kith.log.store import LEASES_MAX
from kith.run.config import Settings
from kith.run.machines.standby_lag import StandbyLag
from kith.run.opening.stores import Folder
from kith.standby.source import Source


class Machine:
    """This machine, in the role that it had when the process started. A promotion starts new processes."""

    def __init__(self, folder: Folder, source: Source, lag: StandbyLag) -> None:
        self._environment, self._log, self.source, self._lag = folder.environment, folder.log, source, lag
        self._closed_at_start = store_role.read_closed_note(folder.environment)
        self._standbys: dict[str, LogLeaseHolder] = {}
        self._renewals = set[asyncio.Task[None]]()

    @property
    def refusal(self) -> Callable[[], KithError] | None:
        """The error of every write, if the store was closed to writes when the process started."""
        return None if self._closed_at_start is None else self._closed_at_start.refusal

    def keep(self, standby: str, after: int | None) -> None:
        """Keep the log for a standby that has it up to `after` (None: the standby is fetching a snapshot).

        The lease is renewed in the background: renewing is a write, which in mode `one` waits for the standby, which
        waits for this answer.
        """
        if self._closed_at_start is not None:
            return
        if standby not in self._standbys and len(self._standbys) >= LEASES_MAX:
            del self._standbys[next(iter(self._standbys))]
        log_lease = self._standbys.setdefault(standby, LogLeaseHolder(self._log, f"standby/{standby}", wall_ms))
        last = segments.last_event(self._environment) if after is None else after
        position = self._environment.positions.of(max(0, last - 1))  # a segment includes the event before it
        if log_lease.is_due(position):
            task = asyncio.create_task(log_lease.keep(position), name="kith-standby-lease")
            self._renewals.add(task)
            task.add_done_callback(self._renewals.discard)

    async def close(self) -> None:
        """Wait for lease renewals under way."""
        await asyncio.gather(*self._renewals)

    def with_lag_header(self, door: Serve) -> Serve:
        """The door; on a standby, wrapped to add the header with its lag to every answer."""
        is_standby = self._closed_at_start is not None and self._closed_at_start.why == "standby"
        return LagHeader(door, self._lag.behind_ms) if is_standby else door

    def status(self) -> dict[str, str]:
        """What probes report: of a standby, its primary, lag and problem; of a primary, its rival."""
        closed, rival = store_role.read_closed_note(self._environment), store_role.rival(self._environment)
        if closed is None or closed.why != "standby":
            return {"rival": store_role.rival_message(rival)} if rival else {}
        behind, problem = self._lag.behind_ms(), self._lag.problem()
        lag = "has not caught up since its start" if behind is None else f"{behind} ms behind"
        return {"standby": f"standby of {closed.primary}, {lag}" + (f"; {problem}" if problem else "")}

    def problem(self) -> str:
        """Why this process is not ready because its machine's role changed; empty if it is ready."""
        closed = store_role.read_closed_note(self._environment)
        if self._closed_at_start is not None and closed is None:
            return "this was made the primary; its processes are replaced"
        if closed is None or closed.why == "standby":
            return ""
        return f"{closed.primary} was made the primary; this takes no writes"


@contextlib.asynccontextmanager
async def machine_of(settings: Settings, folder: Folder | None) -> AsyncIterator[Machine | None]:
    """The machine of an open folder. None on distributed engines, which have no primary machine."""
    if folder is None:
        yield None
        return
    shipping, lag = Shipping(folder.environment), StandbyLag(Path(settings.data))
    machine = Machine(folder, shipping, lag)
    try:
        yield machine
    finally:
        await machine.close()
        await shipping.close()
        lag.close()
