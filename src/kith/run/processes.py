"""What runs inside a process that `kith serve` starts: an API process over granian, or the worker of a consumer.

`supervisor` is the other side: the process that starts, watches and replaces these.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import Awaitable, Callable

import msgspec
import structlog

from kith.api.exchange import Exchange, Scope
from kith.core.errors import Unavailable
from kith.log.runner import Pace, Runner
from kith.run import logs
from kith.run.api import Api, serving
from kith.run.config import Settings, load
from kith.run.consumers import CONSUMERS
from kith.run.wiring import opened

SETTINGS_VARIABLE = "KITH_SERVE_SETTINGS"
"""How `kith serve` hands its settings to the processes it starts."""
SUPERVISOR_VARIABLE = "KITH_SERVE_SUPERVISOR"
"""The supervisor's process id, for the processes that must not outlive it."""
_SUPERVISOR_CHECK_S = 1.0
_LAST_ANSWERS_S = 0.3
_log = structlog.get_logger("kith")


class Server:
    """What granian runs in each API process."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._running: contextlib.AbstractAsyncContextManager[Api] | None = None
        self._api: Api | None = None
        self._watch: asyncio.Task[None] | None = None

    def __rsgi_init__(self, loop: asyncio.AbstractEventLoop) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # ends a process that starts; a loop at rest would miss it
        logs.configure(self._settings.log_level)
        self._watch = loop.create_task(_end_with_supervisor())
        self._running = serving(self._settings, on_fatal=_replace_process)
        self._api = loop.run_until_complete(self._running.__aenter__())
        loop.call_soon(loop.add_signal_handler, signal.SIGTERM, self._stop)

    def __rsgi_del__(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._watch is not None:
            self._watch.cancel()
        if self._running is not None:
            loop.run_until_complete(self._running.__aexit__(None, None, None))
            self._running = None

    def _stop(self) -> None:
        """Close the streams, then have granian stop: it waits for every answer to end, and streams have no end.

        It is told by SIGINT, which it takes as it takes SIGTERM: SIGTERM, which its supervisor sends, is handled here.
        """
        if self._api is not None:
            self._api.end_streams()
        os.kill(os.getpid(), signal.SIGINT)

    async def __rsgi__(self, scope: Scope, exchange: Exchange) -> None:
        assert self._api is not None  # noqa: S101 - granian calls __rsgi_init__ first
        await self._api.door(scope, exchange)


async def _end_with_supervisor() -> None:
    """Stop this process when its supervisor has died, so that nobody serves a folder unsupervised."""
    supervisor = os.environ.get(SUPERVISOR_VARIABLE)
    while supervisor is not None:
        await asyncio.sleep(_SUPERVISOR_CHECK_S)
        if os.getppid() != int(supervisor):
            os.kill(os.getpid(), signal.SIGTERM)


def _replace_process() -> None:
    """End this process once its answers are out; its supervisor starts another, which opens the store afresh."""
    _log.error("the store refuses everything; this process is replaced")
    threading.Timer(_LAST_ANSWERS_S, os._exit, (os.EX_IOERR,)).start()


def serve_process() -> Server:
    """The factory named to granian."""
    return Server(settings_of_process())


def settings_of_process(data: str | None = None) -> Settings:
    """The settings that `kith serve` handed down, or else those of this folder."""
    raw = os.environ.get(SETTINGS_VARIABLE)
    return msgspec.json.decode(raw, type=Settings) if raw else load({"data": data})


async def work(name: str, settings: Settings) -> None:
    """Run a registered consumer until SIGTERM or SIGINT; then it saves how far it is."""
    logs.configure(settings.log_level)
    async with (
        opened(settings, name, create=False, on_fatal=_replace_process) as parts,
        CONSUMERS[name].open(settings, parts) as worker,
    ):
        runner = Runner(worker.consumer, parts.log, Pace(tries_max=settings.log_tries_max))
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, runner.stop)
        beside = [
            asyncio.create_task(_end_with_supervisor()),
            *(asyncio.create_task(_every(task.every_s, task.name, do)) for task, do in worker.tasks.items()),
        ]
        await runner.run()
        for task in beside:
            task.cancel()


async def _every(seconds: float, what: str, do: Callable[[], Awaitable[None]]) -> None:
    """Do it now, and again after so many seconds. A failure is logged, and waits for the next time."""
    while True:
        try:
            await do()
        except Unavailable as error:
            _log.warning("done later", what=what, error=error.message)
        except Exception:
            _log.exception("failed; tried again later", what=what)
        await asyncio.sleep(seconds)
