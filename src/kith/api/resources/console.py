"""/console: the operator's page, for everyone; its figures, settings and audits, for server keys only.

The shapes of these answers belong to the page and change with it. They are therefore in no client and not in the
OpenAPI document. Routes that show stored data are in `stored`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Protocol

import msgspec
from msgspec import Meta

from kith.access.quotas import Quotas
from kith.api.answers import RawAnswer
from kith.api.call import Call
from kith.api.operations import get, post
from kith.api.resources.web import page_file
from kith.graph.audit import Audit
from kith.web.site import DOCUMENT, Site

CONSOLE_PATH = "/console"


class OperationNumbers(msgspec.Struct, frozen=True, rename="camel"):
    """One operation during the last hour: calls, failed calls (status 500 and above), and latencies."""

    name: str
    count: int
    failed: int
    p50_ms: float
    p99_ms: float


class ProcessNumbers(msgspec.Struct, frozen=True, rename="camel"):
    """A process. `seen`: when it last reported, in ms since the epoch."""

    kind: str
    pid: int
    running: bool
    seen: int


class NumbersAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """Time series by name: a value for each of `times` (ms since the epoch), null where there is none."""

    now: int
    every_ms: int
    times: list[int]
    series: Mapping[str, Sequence[float | None]]
    operations: list[OperationNumbers]
    processes: list[ProcessNumbers]


class SettingAnswer(msgspec.Struct, frozen=True):
    """A setting in force. `source`: where its value comes from."""

    name: str
    value: str
    default: str
    meaning: str
    source: str


class SettingsAnswer(msgspec.Struct, frozen=True):
    """All settings. A secret only says whether it is set."""

    items: list[SettingAnswer]


class AuditAnswer(msgspec.Struct, rename="camel"):
    """The last audit. `state`: none, running, done or failed. Times are in ms since the epoch."""

    state: str = "none"
    began: int = 0
    ended: int = 0
    edges: int = 0  # checked so far
    graphs: list[Audit] = []
    error: str = ""


class QuotaUse(msgspec.Struct, frozen=True, rename="camel"):
    """A user who has used most of a quota: `used` of `limit` in `window_s` seconds."""

    quota: str
    user: str
    used: int
    limit: int
    window_s: int


class QuotasAnswer(msgspec.Struct, frozen=True):
    """Users who have used most of a quota, or all of it: at most 20 per quota, highest use first."""

    items: list[QuotaUse]


class Numbers(Protocol):
    """Reads the collected metrics."""

    async def numbers(self, since_ms: int, operation: str | None) -> NumbersAnswer:
        """Time series from `since_ms` on, for one operation too if named, and the table of all operations over the last
        hour.
        """
        ...


class Audits(Protocol):
    """Runs audits, at most one at a time."""

    async def start(self) -> AuditAnswer:
        """Start an audit in the background. Conflict while one is running."""
        ...

    async def last(self) -> AuditAnswer:
        """The state of the last audit."""
        ...


class ConsoleResource:
    """The console: its page, metrics, settings and audits."""

    def __init__(
        self, page: Site, numbers: Numbers, audits: Audits, quotas: Quotas, settings: Sequence[SettingAnswer]
    ) -> None:
        self._page, self._numbers, self._audits, self._quotas = page, numbers, audits, quotas
        self._settings = SettingsAnswer(list(settings))

    @get(CONSOLE_PATH, "The operator's console", absolute=True, callers="anyone", documented=False)
    async def console(self, call: Call) -> RawAnswer:
        """The page."""
        return page_file(self._page, call, CONSOLE_PATH, DOCUMENT)

    @get(CONSOLE_PATH + "/{file}", "A file of the console", absolute=True, callers="anyone", documented=False)
    async def console_file(self, call: Call, file: str) -> RawAnswer:
        """Its scripts and styles."""
        return page_file(self._page, call, CONSOLE_PATH, file)

    @get(CONSOLE_PATH + "/numbers", "Metrics of the last hour", absolute=True, callers="server", documented=False)
    async def console_numbers(
        self,
        call: Call,
        since: Annotated[int, Meta(ge=0)] = 0,
        operation: str | None = None,
    ) -> NumbersAnswer:
        """The last hour, or only what is newer than `since`."""
        return await self._numbers.numbers(since, operation)

    @get(CONSOLE_PATH + "/quotas", "Quotas near their limit", absolute=True, callers="server", documented=False)
    async def console_quotas(self, call: Call) -> QuotasAnswer:
        """Users with tokens who have used most of a quota at this moment."""
        return QuotasAnswer(
            [
                QuotaUse(usage.name, str(usage.user), usage.used, usage.quota.limit, usage.quota.window_s)
                for usage in await self._quotas.near_limit()
            ]
        )

    @get(CONSOLE_PATH + "/settings", "The settings in force", absolute=True, callers="server", documented=False)
    async def console_settings(self, call: Call) -> SettingsAnswer:
        """The settings of the running processes, and the source of each."""
        return self._settings

    @post(CONSOLE_PATH + "/audit", "Run an audit", absolute=True, callers="server", status=202, documented=False)
    async def start_audit(self, call: Call) -> AuditAnswer:
        """Reads every edge and its entry in both lists, in a process of its own. It repairs nothing."""
        return await self._audits.start()

    @get(CONSOLE_PATH + "/audit", "The last audit", absolute=True, callers="server", documented=False)
    async def get_audit(self, call: Call) -> AuditAnswer:
        """The progress of the last audit, or its result."""
        return await self._audits.last()
