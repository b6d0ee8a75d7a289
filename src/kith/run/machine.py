"""What an API process knows of the machines of its store: whether it is the primary, and what it gives standbys."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from kith.api.behind import Behind
from kith.api.exchange import Serve
from kith.core.errors import KithError
from kith.engines.embedded import standing
from kith.engines.embedded.environment import Environment
from kith.engines.embedded.shipping import Shipping
from kith.run.behind import Level
from kith.run.config import Settings
from kith.standby.source import Source


class Machine:
    """This machine. What it was when the process began is what its answers are like; promoted, it has new processes."""

    def __init__(self, environment: Environment, source: Source, level: Level) -> None:
        self._environment, self.source, self._level = environment, source, level
        self._began = standing.why_closed(environment)

    @property
    def refusal(self) -> Callable[[], KithError] | None:
        """The error of every write, where the process began over a store that takes none."""
        return None if self._began is None else self._began.refusal

    def before(self, door: Serve) -> Serve:
        """The door, with what a standby says in every answer."""
        is_standby = self._began is not None and self._began.why == "standby"
        return Behind(door, self._level.behind_ms) if is_standby else door

    def says(self) -> str:
        """What a standby says of itself to probes; empty of a primary."""
        why = standing.why_closed(self._environment)
        if why is None or why.why != "standby":
            return ""
        behind, problem = self._level.behind_ms(), self._level.problem()
        said = "not level with it since the start" if behind is None else f"{behind} ms behind"
        return f"standby of {why.primary}, {said}" + (f"; {problem}" if problem else "")

    def problem(self) -> str:
        """Why this process must not be asked as what it was; empty if it may be."""
        why = standing.why_closed(self._environment)
        if self._began is not None and why is None:
            return "this was made the primary; its processes are replaced"
        if why is None or why.why == "standby":
            return ""
        return f"{why.primary} was made the primary; this takes no writes"


@contextlib.asynccontextmanager
async def machine_of(settings: Settings, environment: Environment) -> AsyncIterator[Machine]:
    """The machine of an open folder."""
    shipping, level = Shipping(environment), Level(Path(settings.data))
    try:
        yield Machine(environment, shipping, level)
    finally:
        await shipping.close()
        level.close()
