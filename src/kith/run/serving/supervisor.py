"""The process of `kith serve` itself: starts, watches and replaces the API processes (by granian) and the workers.

`server` and `worker` are the other side: what runs inside those. One data folder has one worker for each registered
consumer.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import resource
import signal
import socket
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NoReturn, TypeAlias

import msgspec
import structlog
from granian.constants import HTTPModes, Interfaces, Loops, RuntimeModes
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.server.mp import MPServer

from kith.core.errors import KithError, Unavailable
from kith.run.backups import schedule
from kith.run.backups.making import SECRET
from kith.run.config import Settings
from kith.run.consumers import processes_of_workers
from kith.run.machines import peers
from kith.run.opening import folders, keys, wiring
from kith.run.serving import heartbeats, processes, server, worker

_RESPAWN_S, _RESPAWN_S_MAX = 0.5, 10.0
"""Pause before a worker is started again. It doubles while workers exit by themselves, as where another one runs."""
_TERMINATED_S, _KILLED_S = 0.2, 5.0
"""How long a worker's end is waited for after SIGTERM, which is repeated, and after SIGKILL."""
_DEATHS_MAX, _DEATHS_S = 10, 60.0
"""Give up when this many API processes died within this many seconds."""
_REQUESTS_MAX = 4_096
"""Requests that an API process has under way at once, beside its streams; others wait."""
_DESCRIPTORS = 512
"""File descriptors of an API process beside those of connections."""
Command: TypeAlias = tuple[str, ...]
"""What `kith` is called with."""
_FOLLOWER: Command = ("follow",)
_log = structlog.get_logger("kith")


def prepare(settings: Settings, *, standby: bool = False) -> None:
    """Check the folder, and the place of backups, before any process starts.

    StoreMismatch where the folder takes no writes, unless as a standby's. On distributed engines make what is missing.
    """
    if settings.engine == "cluster":
        wiring.cluster_of(settings).prepare(settings)
        return
    if settings.backup_to:
        schedule.check_place(settings, settings.backup_to)
    with folders.open_environment(settings) as environment:
        folders.refuse_unfinished_import(environment)
        if not standby:
            peers.ask(settings, environment)
            folders.refuse_closed(environment)
            environment.secret(SECRET)  # so that its standbys know it, and can be backed up


def _first_key(settings: Settings) -> str | None:
    """Make a server key where there is none, and return it, this once.

    Not on distributed engines, where several machines start at once: there `kith token --server` makes it.
    """
    if settings.engine == "cluster":
        return None

    async def first() -> str | None:
        async with wiring.credentials(settings) as store:
            return None if await keys.server_keys(store, settings) else await keys.made(store)

    return asyncio.run(first())


def run(
    settings: Settings,
    listening: Callable[[str | None], None] = lambda _: None,
    *,
    sources: Mapping[str, str] = MappingProxyType({}),
    standby: bool = False,
    alone: bool = False,
) -> int | None:
    """Serve until SIGINT or SIGTERM; then every process drains its commit queue and stops.

    `alone`: without workers, which run elsewhere.

    `listening` is called when the folder and the port are ours, with the server key if the first start made one.
    `sources`: where each setting came from, for the console. A standby also ends when its follower says why (see
    `following`), which is answered.
    """
    os.environ[processes.SOURCES_VARIABLE] = msgspec.json.encode(dict(sources)).decode()
    raise_descriptors(settings)
    os.register_at_fork(before=_hold_sigterm, after_in_parent=_let_sigterm_come, after_in_child=_end_by_sigterm)
    with (
        folders.serving(settings),
        heartbeats.heard() as reading,
        workers(settings, standby=standby, alone=alone) as ended,
        heartbeats.watched(reading, settings.hang_timeout_s),
    ):
        running = _Server(
            f"{server.__name__}:{server.serve_process.__name__}",  # imported here, so that forks have it
            address=settings.host,
            port=settings.port,
            interface=Interfaces.RSGI,
            http=HTTPModes.http1,  # where it looks for HTTP/2 first, it waits for a silent client for ever
            http1_settings=HTTP1Settings(header_read_timeout=round(settings.connection_idle_s * 1_000)),
            workers=settings.api_processes,
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
        )
        running.on_startup(lambda: listening(None if standby else _first_key(settings)))
        running.serve()
        return ended[0] if ended else None


class _Server(MPServer):
    """granian, replacing API processes that die until too many died lately.

    Left alone, granian ends all of them as soon as one dies again within 5.5 s.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.main_loop_interrupt: Any = Interrupts()
        self._deaths: deque[float] = deque(maxlen=_DEATHS_MAX)

    def _stop_workers(self) -> None:
        """End the API processes. SIGTERM is repeated: one that starts may miss it between two of its handlers."""
        deadline = time.monotonic() + (self.workers_kill_timeout or 0)
        running: list[Any] = list(self.wrks)
        for process in running:
            process.terminate()
        while (left := [process for process in running if process.is_alive()]) and time.monotonic() < deadline:
            left[0].join(_TERMINATED_S)
            for process in left:
                process.terminate()
        for process in left:
            process.kill()
            process.join(_KILLED_S)
        self.wrks.clear()

    def _respawn_workers(self, workers: list[int], *args: Any, **options: Any) -> None:
        super()._respawn_workers(workers, *args, **options)
        now = time.monotonic()
        self._deaths.extend(now for _ in workers)
        if len(self._deaths) < _DEATHS_MAX or now - self._deaths[0] > _DEATHS_S:
            self.respawned_wrks.clear()


class Interrupts:
    """What granian's loop waits on: the end of an API process, or a signal. In place of its `threading.Event`.

    An Event is no place for a signal handler: one that sets it while the same thread is inside of it waits for itself
    for ever. And the loop clears it after it has looked at what happened, so what happens in between would be lost.
    Here each `set` ends one `wait`, now or later, and `put` of a SimpleQueue may interrupt itself.
    """

    def __init__(self) -> None:
        self._set = queue.SimpleQueue[None]()

    def set(self) -> None:
        """Have one `wait` return."""
        self._set.put(None)

    def wait(self) -> None:
        """Wait for a `set` that no other `wait` returned for."""
        self._set.get()

    def clear(self) -> None:
        """Nothing: a `wait` took what it returned for."""


def _hold_sigterm() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})


def _let_sigterm_come() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})


def _end_by_sigterm() -> None:
    """Let SIGTERM end an API process that has just been forked, until granian sets its own handlers.

    The fork has the supervisor's handlers, which would take its signals and do nothing. SIGINT is ignored: a terminal
    sends it to all processes, and the supervisor handles it.
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
def workers(settings: Settings, *, standby: bool = False, alone: bool = False) -> Iterator[list[int]]:
    """Run the registered consumers, and what makes backups, in processes beside the API; of a standby the process that
    follows; of an API that is alone nothing. When one dies, another is started.

    Yields what the follower ended with, once it says that this must not go on as a standby: then all are to end.
    """
    os.environ[processes.SUPERVISOR_VARIABLE] = str(os.getpid())
    os.environ[processes.SETTINGS_VARIABLE] = msgspec.json.encode(settings).decode()
    stopping, running, ended = threading.Event(), list[_Worker](), list[int]()
    try:
        groups = [*processes_of_workers(settings), *([(schedule.NAME,)] if settings.backup_to else [])]
        commands = [_FOLLOWER] if standby else [] if alone else [("worker", *names) for names in groups]
        started = [(command, _start_worker(command)) for command in commands]  # all before the first thread
        running += [_Worker(command, pid, stopping, ended) for command, pid in started]
        yield ended
    finally:
        stopping.set()
        _end(running, settings.drain_timeout_s)


class _Worker:
    """One worker process, and the thread that starts another when it dies."""

    def __init__(self, command: Command, pid: int, stopping: threading.Event, ended: list[int]) -> None:
        self._command, self._pid, self._stopping, self._ended = command, pid, stopping, ended
        self._thread = threading.Thread(target=self._supervise, name="kith-supervisor", daemon=True)
        self._thread.start()

    def alive(self) -> bool:
        """Whether there is a process, or will be another one."""
        return self._thread.is_alive()

    def send(self, number: signal.Signals) -> None:
        """Send the process a signal."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, number)

    def wait(self, seconds: float) -> None:
        """Wait for its end, so long at most."""
        self._thread.join(seconds)

    def _supervise(self) -> None:
        pause_s, started = _RESPAWN_S, time.monotonic()
        while True:
            _, status = os.waitpid(self._pid, 0)
            is_over = os.WIFEXITED(status) and os.WEXITSTATUS(status) in (processes.PROMOTED, processes.START_OVER)
            if self._command == _FOLLOWER and is_over and not self._stopping.is_set():
                self._ended.append(os.WEXITSTATUS(status))
                os.kill(os.getpid(), signal.SIGTERM)
                return
            gave_up = os.WIFEXITED(status) and time.monotonic() - started < _RESPAWN_S_MAX
            pause_s = min(2 * pause_s, _RESPAWN_S_MAX) if gave_up else _RESPAWN_S
            again = self._spawn_again(pause_s)
            if again is None:
                return
            self._pid, started = again, time.monotonic()

    def _spawn_again(self, pause_s: float) -> int | None:
        """Start another process after a pause, as soon as the system lets one start; None where all stop."""
        while not self._stopping.wait(pause_s):
            try:
                return _spawn_worker(self._command)
            except OSError as error:  # no memory, or no process id
                _log.warning(
                    "the worker cannot be started; it is tried again",
                    worker=" ".join(self._command[1:]),
                    error=str(error),
                )
                pause_s = _RESPAWN_S_MAX
        return None


def _end(workers: list[_Worker], within_s: float) -> None:
    """End workers by SIGTERM; those that are still there after `within_s`, by SIGKILL."""
    deadline = time.monotonic() + within_s
    while (left := [one for one in workers if one.alive()]) and time.monotonic() < deadline:
        for one in left:
            one.send(signal.SIGTERM)
        for one in left:
            one.wait(_TERMINATED_S)
    for one in left:
        one.send(signal.SIGKILL)
    for one in left:
        one.wait(_KILLED_S)


def _start_worker(command: Command) -> int:
    """Start a worker while this process has no thread; its process id.

    A fork has imported everything already, which is most of what a new process does at its start.
    """
    if command == _FOLLOWER:
        return _spawn_worker(command)
    sys.stdout.flush()
    sys.stderr.flush()
    return os.fork() or _be_worker(command)


def _be_worker(command: Command) -> NoReturn:
    """What a forked worker does; its exit status is that of the command."""
    status = 1
    try:
        worker.run(command[1:], processes.settings_of_process())
        status = 0
    except KithError as error:
        print(f"kith: {error.message}", file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _spawn_worker(command: Command) -> int:
    """Start a worker beside our threads; its process id.

    Not by `subprocess`, which waits on a pipe that forks of granian keep open.
    """
    return os.posix_spawn(sys.executable, [sys.executable, "-m", "kith", *command], os.environ)


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
