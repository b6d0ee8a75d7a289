"""Runs an API process. `supervisor` starts, watches and replaces it."""

from __future__ import annotations

import asyncio
import signal
import socket
from pathlib import Path

import uvloop

from kith.api import errors
from kith.core.errors import StoreUnavailable
from kith.core.stopping import stop
from kith.engines.embedded.committer import Committer
from kith.engines.embedded.store_file import STORE_FILE, lost_message
from kith.http.listener import Listener
from kith.run import api, logs
from kith.run.config import Settings
from kith.run.serving import committing, processes

REQUESTS_MAX = 4_096
"""Connections of an API process besides those of its streams."""
_DRAIN_SHARE = 0.8
"""Share of `drain_timeout_s` in which requests in flight must finish; the rest is for draining the store."""


def run(settings: Settings, listening: socket.socket) -> None:
    """Answer requests on a listening socket until SIGTERM; then finish requests in flight."""
    processes.name_process("api")
    store = Path(settings.data) / STORE_FILE
    if settings.engine != "cluster" and not store.exists():  # deleted since: the supervisor had made it
        raise StoreUnavailable(lost_message(str(store)))
    committer = None if settings.engine == "cluster" else committing.start(settings, listening)
    uvloop.run(_serve(settings, listening, committer))


async def _serve(settings: Settings, listening: socket.socket, committer: Committer | None) -> None:
    logs.configure(settings.log_level)
    stopping = asyncio.Event()
    async with api.open_api(settings, on_fatal=processes.replace_process, committer=committer) as served:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
        watch = asyncio.create_task(processes.stay_with_supervisor())
        listener = Listener(
            served.door,
            errors.respond,
            idle_s=settings.connection_idle_s,
            connections_max=settings.streams_max + REQUESTS_MAX,
        )
        processes.spare_collections()
        await listener.serve(listening, alone=settings.api_processes == 1)
        await stopping.wait()
        served.end_streams()
        await listener.close(_DRAIN_SHARE * settings.drain_timeout_s)
        await stop(watch)
