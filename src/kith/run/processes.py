"""What the processes that `kith serve` starts have in common: the API processes (`server`) and the workers (`worker`).

`supervisor` is the other side: the process that starts, watches and replaces these.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading

import msgspec
import structlog

from kith.run.config import Settings, load

SETTINGS_VARIABLE = "KITH_SERVE_SETTINGS"
"""How `kith serve` hands its settings to the processes it starts."""
SUPERVISOR_VARIABLE = "KITH_SERVE_SUPERVISOR"
"""The supervisor's process id, for the processes that must not outlive it."""
_SUPERVISOR_CHECK_S = 1.0
_LAST_ANSWERS_S = 0.3
_log = structlog.get_logger("kith")


async def end_with_supervisor() -> None:
    """Stop this process when its supervisor has died, so that nobody serves a folder unsupervised."""
    supervisor = os.environ.get(SUPERVISOR_VARIABLE)
    while supervisor is not None:
        await asyncio.sleep(_SUPERVISOR_CHECK_S)
        if os.getppid() != int(supervisor):
            os.kill(os.getpid(), signal.SIGTERM)


def replace_process() -> None:
    """End this process once its answers are out; its supervisor starts another, which opens the store afresh."""
    _log.error("the store refuses everything; this process is replaced")
    threading.Timer(_LAST_ANSWERS_S, os._exit, (os.EX_IOERR,)).start()


def settings_of_process(data: str | None = None) -> Settings:
    """The settings that `kith serve` handed down, or else those of this folder."""
    raw = os.environ.get(SETTINGS_VARIABLE)
    return msgspec.json.decode(raw, type=Settings) if raw else load({"data": data})
