"""What the processes of `kith serve` share: the API processes (`server`) and the workers (`worker`).

`supervisor` is the other side: the process that starts, watches and replaces them.
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
"""Passes the settings of `kith serve` to the processes it starts, as JSON."""
SOURCES_VARIABLE = "KITH_SERVE_SOURCES"
"""Passes the source of each of these settings, as JSON."""
SUPERVISOR_VARIABLE = "KITH_SERVE_SUPERVISOR"
"""Passes the supervisor's process id to processes that must not outlive it."""
SOCKET_VARIABLE = "KITH_SERVE_SOCKET"
"""Passes the descriptor of the listening socket to an API process."""
PROMOTED, START_OVER = 3, 4
"""Exit statuses of a standby's follower: this machine is no longer a standby; the primary's log no longer reaches back
to the standby's last event.
"""
_LAST_ANSWERS_S = 0.3
_PARENT_CHECK_S = 1.0
_GC_THRESHOLDS = (500, 4, 25_000)
"""Thresholds of Python's garbage collector: new objects before a young collection (which takes some ms at most), young
collections before a middle one, middle ones before a full one. Python's default: 700, 10, 10.
"""
_NAME_CHARS_MAX = 15
"""Characters of the name of a process."""
_log = structlog.get_logger("kith")


async def stay_with_supervisor() -> None:
    """Send heartbeats while this loop runs, and stop this process when the supervisor has died.

    So no process serves a folder unsupervised.
    """
    supervisor = os.environ.get(SUPERVISOR_VARIABLE)
    while supervisor is not None:
        if os.getppid() == int(supervisor):
            heartbeats.beat()
        else:
            os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(heartbeats.EVERY_S)


def end_with_parent(parent: int) -> None:
    """Start a thread that checks each second whether the parent has died, and then sends SIGTERM to this process."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_PARENT_CHECK_S)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


def ignore_terminal() -> None:
    """Ignore the signals that a terminal sends to all processes: Ctrl-C, and SIGHUP where it is closed. The supervisor
    handles them.
    """
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def stop_signals() -> list[signal.Signals]:
    """The signals that stop a process that is not, or not only, run by a supervisor. Not SIGHUP where `nohup` has it
    ignored.
    """
    hangups = [] if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN else [signal.SIGHUP]
    return [signal.SIGTERM, signal.SIGINT, *hangups]


def command_line(*words: str) -> list[str]:
    """The command line of this program with these arguments. `-P`: never import modules from the current folder."""
    return [sys.executable, "-P", "-m", "kith", *words]


def name_process(kind: str) -> None:
    """Set the name of this process for `ps -o comm`, because forks share one command line. Linux only."""
    with contextlib.suppress(OSError):
        Path("/proc/self/comm").write_text(f"kith-{kind}"[:_NAME_CHARS_MAX])


def spare_collections() -> None:
    """Make garbage collections short, and exclude the objects that exist now. Call it once everything is open.

    No request is answered during a collection, and each object in it takes up to 1 us (decision 43). So young objects
    are collected often, a few hundred at a time, and all objects very rarely: requests leave no garbage in cycles.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)


def replace_process() -> None:
    """End this process after a moment for its last answers. The supervisor starts another, which reopens the store."""
    _log.error("this process cannot go on with its store, and is replaced")
    threading.Timer(_LAST_ANSWERS_S, os._exit, (os.EX_IOERR,)).start()


def settings_of_process(data: str | None = None) -> Settings:
    """The settings that `kith serve` passed on, or else those of the current folder."""
    raw = os.environ.get(SETTINGS_VARIABLE)
    return msgspec.json.decode(raw, type=Settings) if raw else load({"data": data})


def sources_of_process() -> dict[str, str]:
    """Sources of the settings that `kith serve` passed on, by name; settings at their defaults are missing."""
    raw = os.environ.get(SOURCES_VARIABLE)
    return msgspec.json.decode(raw, type=dict[str, str]) if raw else {}
