"""/healthz, /readyz, /metrics, /docs, /openapi.json: the state of the process, and the API's own documentation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import msgspec

from kith import __version__
from kith.api.answers import RawAnswer
from kith.api.call import Call
from kith.api.operations import get

_TEXT = ("content-type", "text/plain; charset=utf-8")
_HTML = ("content-type", "text/html; charset=utf-8")
_JSON = ("content-type", "application/json")


class Health(msgspec.Struct, frozen=True):
    """The process is alive."""

    status: str
    version: str


class Readiness(msgspec.Struct, frozen=True, omit_defaults=True):
    """Whether the process can serve, and its problems if it cannot. `standby`: on a standby, which primary it follows
    and how far it lags.

    `rival`: on a primary, which other machine claims to be primary too, and what to do.
    """

    ready: bool
    problems: dict[str, str]
    standby: str = ""
    rival: str = ""


class Pages(msgspec.Struct, frozen=True):
    """The documentation of the API, as OpenAPI JSON and as an HTML page; both are made once."""

    openapi: bytes
    docs: bytes


class ServiceResource:
    """Operations about the process itself. They take no credentials, because probes and scrapers have none.

    `problems`: what is wrong with this process. `metrics`: makes the Prometheus text. `pages`: the documentation.
    `standing`: the machine's role as fields of `Readiness`.
    """

    def __init__(
        self,
        problems: Callable[[], Mapping[str, str]],
        metrics: Callable[[], Awaitable[bytes]],
        pages: Callable[[], Pages],
        standing: Callable[[], Mapping[str, str]],
    ) -> None:
        self._problems, self._metrics, self._pages, self._standing = problems, metrics, pages, standing

    @get("/healthz", "Is the process alive?", absolute=True, callers="anyone", errors=())
    async def healthz(self, call: Call) -> Health:
        """Answers as long as the process can answer requests."""
        return Health("ok", __version__)

    @get("/readyz", "Can the process serve?", absolute=True, callers="anyone", errors=(), answers=Readiness)
    async def readyz(self, call: Call) -> RawAnswer:
        """503 with the list of problems if it cannot."""
        wrong = dict(self._problems())
        readiness = Readiness(not wrong, wrong, **self._standing())
        return RawAnswer(msgspec.json.encode(readiness), [_JSON], 503 if wrong else 200)

    @get(
        "/metrics", "Prometheus metrics", absolute=True, callers="anyone", errors=(), answers=str,
        media_type="text/plain",
    )  # fmt: skip
    async def metrics(self, call: Call) -> RawAnswer:
        """The sum over all processes of this data folder. Frequent requests wait up to a second."""
        return RawAnswer(await self._metrics(), [_TEXT])

    @get("/docs", "This page", absolute=True, callers="anyone", documented=False)
    async def docs(self, call: Call) -> RawAnswer:
        """A self-contained HTML page that loads nothing from other servers."""
        return RawAnswer(self._pages().docs, [_HTML])

    @get("/openapi.json", "The document", absolute=True, callers="anyone", documented=False)
    async def openapi(self, call: Call) -> RawAnswer:
        """OpenAPI 3.1."""
        return RawAnswer(self._pages().openapi, [_JSON])
