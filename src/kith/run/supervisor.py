"""`kith serve`: supervises the API processes (granian) and the background worker of one data folder."""

from __future__ import annotations

import contextlib
import os
import resource
import secrets
import signal
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import Any

import msgspec
import structlog
from granian.constants import Interfaces, Loops, RuntimeModes
from granian.log import LogLevels
from granian.server.mp import MPServer

from kith.core.errors import Unavailable
from kith.home.fanout import consumer
from kith.run import processes, wiring
from kith.run.config import Settings

_RESPAWN_S, _RESPAWN_S_MAX = 0.5, 10.0
"""The pause before a worker is started again; doubled up to the latter while it ends itself (where another has it)."""
_KILLED_S = 5.0
_DEATHS_MAX, _DEATHS_S = 10, 60.0
"""So many API processes that died within so long are enough."""
_REQUESTS_MAX = 4_096
"""Requests that an API process has under way at once, beside its streams; others wait."""
_DESCRIPTORS = 512
"""File descriptors of an API process beside those of connections."""
_log = structlog.get_logger("kith")


def prepare(settings: Settings) -> str | None:
    """Check the folder before any process starts; the first start makes a server key and returns it, once."""
    with wiring.open_environment(settings) as environment:
        wiring.refuse_unfinished_import(environment)
        made = None
        if not wiring.server_keys(environment, settings):
            made = new_key()
            wiring.add_server_key(environment, made)
    return made


def new_key() -> str:
    """A server key: 192 random bits."""
    return "kith_" + secrets.token_urlsafe(24)


def run(settings: Settings) -> None:
    """Serve until SIGINT or SIGTERM; then every process drains its commit queue and stops."""
    raise_descriptors(settings)
    os.register_at_fork(before=_hold_sigterm, after_in_parent=_let_sigterm_come, after_in_child=_end_by_sigterm)
    with wiring.serving(settings), worker(settings):
        _Server(
            "kith.run.processes:serve_process",
            address=settings.host,
            port=settings.port,
            interface=Interfaces.RSGI,
            workers=settings.workers,
            factory=True,
            loop=Loops.uvloop,
            runtime_mode=RuntimeModes.st,
            websockets=False,
            backlog=4096,
            backpressure=settings.streams_max + _REQUESTS_MAX,
            log_level=LogLevels.warning if settings.log_level in ("info", "warning") else LogLevels(settings.log_level),
            respawn_failed_workers=True,
            respawn_interval=_RESPAWN_S,
            workers_kill_timeout=settings.drain_timeout_s,
        ).serve()


class _Server(MPServer):
    """granian, which replaces what dies, and gives up once processes keep dying; by itself it ends all of them when
    one dies again within 5.5 s.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._deaths: deque[float] = deque(maxlen=_DEATHS_MAX)

    def _respawn_workers(self, workers: list[int], *args: Any, **options: Any) -> None:
        super()._respawn_workers(workers, *args, **options)
        now = time.monotonic()
        self._deaths.extend(now for _ in workers)
        if len(self._deaths) < _DEATHS_MAX or now - self._deaths[0] > _DEATHS_S:
            self.respawned_wrks.clear()


def _hold_sigterm() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})


def _let_sigterm_come() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})


def _end_by_sigterm() -> None:
    """An API process begins as a fork with the supervisor's handlers, which would take its signals and do nothing.

    So until granian sets others, SIGTERM ends it; SIGINT, which a terminal sends to all, is the supervisor's to handle.
    """
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _let_sigterm_come()


def raise_descriptors(settings: Settings) -> None:
    """Let every process open as many files as the system allows, and warn if that is too few for its connections."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # some systems name a limit that they do not grant
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    needed = settings.streams_max + _REQUESTS_MAX + _DESCRIPTORS
    if most != resource.RLIM_INFINITY and most < needed:
        _log.warning(
            "fewer file descriptors than connections; raise the limit (ulimit -n, LimitNOFILE), or lower `streams_max`",
            limit=most,
            needed=needed,
        )


@contextlib.contextmanager
def worker(settings: Settings) -> Iterator[None]:
    """Run the background worker in a process of its own beside the API, and another when it dies."""
    os.environ[processes.SUPERVISOR_VARIABLE] = str(os.getpid())
    os.environ[processes.SETTINGS_VARIABLE] = msgspec.json.encode(settings).decode()
    stopping, pid = threading.Event(), _spawn_worker()

    def supervise() -> None:
        nonlocal pid
        pause_s, started = _RESPAWN_S, time.monotonic()
        while True:
            _, status = os.waitpid(pid, 0)
            gave_up = os.WIFEXITED(status) and time.monotonic() - started < _RESPAWN_S_MAX
            pause_s = min(2 * pause_s, _RESPAWN_S_MAX) if gave_up else _RESPAWN_S
            again = _spawn_again(stopping, pause_s)
            if again is None:
                return
            pid, started = again, time.monotonic()

    thread = threading.Thread(target=supervise, name="kith-supervisor", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        deadline = time.monotonic() + settings.drain_timeout_s
        while thread.is_alive() and time.monotonic() < deadline:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
            thread.join(0.2)
        if thread.is_alive():  # it does not react
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            thread.join(_KILLED_S)


def _spawn_again(stopping: threading.Event, pause_s: float) -> int | None:
    """Start another worker after a pause, as soon as the system lets one start; None where all stop."""
    while not stopping.wait(pause_s):
        try:
            return _spawn_worker()
        except OSError as error:  # no memory, or no process id
            _log.warning("the worker cannot be started; it is tried again", error=str(error))
            pause_s = _RESPAWN_S_MAX
    return None


def _spawn_worker() -> int:
    """Start the worker; its process id. Not by `subprocess`, which waits on a pipe that forks of granian keep open."""
    command = [sys.executable, "-m", "kith", "worker", consumer.NAME]
    return os.posix_spawn(sys.executable, command, os.environ)


def check_port(settings: Settings) -> None:
    """Unavailable if another program listens on the port; the API processes share it, so they would not notice."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings.host, settings.port))
        except OSError as error:
            raise Unavailable(
                f"cannot listen on {settings.host}:{settings.port} ({error.strerror}); name another with --port"
            ) from error


def base_url(settings: Settings) -> str:
    """Where a server with these settings is reached from this machine."""
    host = "127.0.0.1" if settings.host in ("0.0.0.0", "::") else settings.host  # noqa: S104
    return f"http://{host}:{settings.port}"
