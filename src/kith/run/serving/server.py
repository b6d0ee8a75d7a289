"""An API process, as granian runs it. `supervisor` starts, watches and replaces it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal

from kith.api.exchange import Exchange, Scope
from kith.run import logs
from kith.run.api import Api, serving
from kith.run.config import Settings
from kith.run.serving import processes


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
        self._watch = loop.create_task(processes.stay_with_supervisor())
        self._running = serving(self._settings, on_fatal=processes.replace_process)
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


def serve_process() -> Server:
    """The factory named to granian."""
    processes.name_process("api")
    return Server(processes.settings_of_process())
