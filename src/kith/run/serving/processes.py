"""What the processes that `kith serve` starts have in common: the API processes (`server`) and the workers (`worker`).

`supervisor` is the other side: the process that starts, watches and replaces these.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import sys
import threading
import time
from pathlib import Path

import msgspec
import structlog

from kith.run.config import Settings, load
from kith.run.serving import heartbeats

SETTINGS_VARIABLE = "KITH_SERVE_SETTINGS"
"""How `kith serve` hands its settings to the processes it starts."""
SOURCES_VARIABLE = "KITH_SERVE_SOURCES"
"""How it tells them where each of these settings came from."""
SUPERVISOR_VARIABLE = "KITH_SERVE_SUPERVISOR"
"""The supervisor's process id, for the processes that must not outlive it."""
SOCKET_VARIABLE = "KITH_SERVE_SOCKET"
"""The descriptor of the socket from which an API process that it starts accepts connections."""
PROMOTED, START_OVER = 3, 4
"""How the follower of a standby ends: this is none any more; the primary's log does not reach back to its store."""
_LAST_ANSWERS_S = 0.3
_PARENT_CHECK_S = 1.0
_COLLECTED_AFTER = (500, 4, 25_000)
"""Python's garbage collector begins after so many new objects (it takes some ms at most); after so many of these
collections it looks at those that survived too; after so many of those, at all. Python's own: 700, 10, 10."""
_COMM_MAX = 15
"""Characters of the name of a process."""
_log = structlog.get_logger("kith")


async def stay_with_supervisor() -> None:
    """Beat to the supervisor while this loop runs, and stop this process when the supervisor has died.

    So nobody serves a folder unsupervised.
    """
    supervisor = os.environ.get(SUPERVISOR_VARIABLE)
    while supervisor is not None:
        if os.getppid() == int(supervisor):
            heartbeats.beat()
        else:
            os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(heartbeats.EVERY_S)


def end_with_parent(parent: int) -> None:
    """Send SIGTERM to this process soon after its parent has died, as a thread sees that looks each second."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_PARENT_CHECK_S)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


def command_line(*words: str) -> list[str]:
    """This program once more, with these words. What lies in the current folder is never imported (`-P`)."""
    return [sys.executable, "-P", "-m", "kith", *words]


def name_process(kind: str) -> None:
    """Have Linux list this process by what it does (`ps -o comm`), as forks have one command line."""
    with contextlib.suppress(OSError):
        Path("/proc/self/comm").write_text(f"kith-{kind}"[:_COMM_MAX])


def spare_collections() -> None:
    """Have Python collect garbage in short steps, and never look at what this process was built of.

    Nothing is answered during a collection, and each object that it looks at takes up to 1 us (decision 43). So the
    young are collected often, a few hundred at a time, and all objects very rarely: requests leave no garbage in
    cycles. Call it once all is open.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECTED_AFTER)


def replace_process() -> None:
    """End this process once its answers are out; its supervisor starts another, which opens the store afresh."""
    _log.error("this process cannot go on with its store, and is replaced")
    threading.Timer(_LAST_ANSWERS_S, os._exit, (os.EX_IOERR,)).start()


def settings_of_process(data: str | None = None) -> Settings:
    """The settings that `kith serve` handed down, or else those of this folder."""
    raw = os.environ.get(SETTINGS_VARIABLE)
    return msgspec.json.decode(raw, type=Settings) if raw else load({"data": data})


def sources_of_process() -> dict[str, str]:
    """Where the settings came from that `kith serve` handed down; nothing for those left at their defaults."""
    raw = os.environ.get(SOURCES_VARIABLE)
    return msgspec.json.decode(raw, type=dict[str, str]) if raw else {}
