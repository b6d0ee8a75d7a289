"""The process of `kith serve` itself: prepares the folder, listens, and keeps the API processes and workers running.

`server` and `worker` run inside those processes; `children` starts and replaces them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import resource
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

import msgspec
import structlog

from kith.core.errors import KithError, Unavailable
from kith.http.sockets import listen_on
from kith.run import logs
from kith.run.backups import schedule
from kith.run.backups.backup_maker import SECRET
from kith.run.config import Settings
from kith.run.consumers import processes_of_workers
from kith.run.machines import peers
from kith.run.opening import folders, keys, wiring
from kith.run.push_keys import check_push_keys
from kith.run.serving import children, heartbeats, processes
from kith.run.serving.children import Child
from kith.run.serving.server import REQUESTS_MAX

_DEATHS_MAX, _DEATHS_S = 10, 60.0
"""Give up when this many API processes died within this many seconds."""
_WAKE_INTERVAL_S = 0.5
"""Seconds after which a signal is handled at the latest."""
_OTHER_DESCRIPTORS = 512
"""File descriptors that an API process needs besides those of connections."""
_log = structlog.get_logger("kith")


def prepare(settings: Settings, *, sources: Mapping[str, str] = MappingProxyType({}), standby: bool = False) -> None:
    """Check the folder, the place of backups, and the keys for push services, before any process starts.

    On distributed engines, create missing tables and topics instead of checking the folder. `standby`: the folder may
    be a standby's. Errors: StoreMismatch where the folder is unfinished, or takes no writes and is not a standby's.
    """
    check_push_keys(settings, sources)
    if settings.engine == "cluster":
        if not settings.media_url:
            _log.warning("pictures and videos stay on this machine; other machines find them once `media_url` is s3://")
        wiring.cluster_of(settings).prepare(settings)
        return
    if settings.backup_to:
        schedule.check_place(settings, settings.backup_to)
    with folders.open_environment(settings) as environment:
        folders.refuse_unfinished(environment)
        if not standby:
            peers.ask(settings, environment)
            folders.refuse_closed(environment)
            environment.secret(SECRET)  # made now, so standbys get it, and can be backed up


def _first_key(settings: Settings) -> str | None:
    """Make a server key where there is none, and return it: it is shown only this once.

    Not on distributed engines, where several machines may start at once. There `kith token --server` makes it.
    """
    if settings.engine == "cluster":
        return None

    async def first() -> str | None:
        async with wiring.credentials(settings) as store:
            return None if await keys.server_keys(store, settings) else await keys.make_server_key(store)

    return asyncio.run(first())


def run(
    settings: Settings,
    on_listening: Callable[[str | None], None] = lambda _: None,
    *,
    sources: Mapping[str, str] = MappingProxyType({}),
    standby: bool = False,
    alone: bool = False,
) -> int | None:
    """Serve until SIGINT, SIGTERM or SIGHUP; then every process drains its commit queue and stops.

    Returns the exit status of a standby's follower where that ended the standby (see `following`), else None.
    `on_listening` is called when the folder and the port are ours, with the server key if this first start made one.
    `sources`: where each setting came from, for the console. `alone`: without workers, which run elsewhere.
    Errors: Unavailable if API processes keep dying.
    """
    logs.configure(settings.log_level)
    os.environ[processes.SOURCES_VARIABLE] = msgspec.json.encode(dict(sources)).decode()
    os.environ[processes.SUPERVISOR_VARIABLE] = str(os.getpid())
    os.environ[processes.SETTINGS_VARIABLE] = msgspec.json.encode(settings).decode()
    raise_descriptors(settings)
    end = EndCondition()
    with (
        end.by_signals(),
        listen_on(settings.host, settings.port) as accepting,
        folders.serving(settings),
        heartbeats.open_pipe() as reading,
    ):
        new_key = None if standby else _first_key(settings)
        with (
            children.supervised(
                children_of(settings, end, standby=standby, alone=alone), accepting, settings.drain_timeout_s
            ),
            heartbeats.kill_silent(reading, settings.hang_timeout_s),
        ):
            on_listening(new_key)
            return end.wait()


def children_of(settings: Settings, end: EndCondition, *, standby: bool = False, alone: bool = False) -> list[Child]:
    """The processes to run: the API processes, and beside them the workers of registered consumers and of backups.

    A standby runs its follower instead of workers. An API that is `alone` runs nothing beside.
    """
    serving = [Child((children.API,), must_not_restart=end.give_up_if_dying)] * settings.api_processes
    if standby:
        return [*serving, Child(("follow",), forks=False, must_not_restart=end.stop_if_follower_ended)]
    if alone:
        return serving
    groups = [*processes_of_workers(settings), *([(schedule.NAME,)] if settings.backup_to else [])]
    return [*serving, *(Child(("worker", *names)) for names in groups)]


class EndCondition:
    """Decides when the supervisor ends: on a signal, when a standby's follower ends, or if API processes keep dying."""

    def __init__(self) -> None:
        self._why = queue.SimpleQueue[int | KithError | None]()  # a signal handler may interrupt its `put`
        self._deaths = deque[float](maxlen=_DEATHS_MAX)

    @contextlib.contextmanager
    def by_signals(self) -> Iterator[None]:
        """End on SIGTERM, SIGINT and SIGHUP (a closed terminal), unless the signal is ignored, as a shell does for
        background processes.
        """
        before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
        for number, handler in before.items():
            if handler != signal.SIG_IGN:
                signal.signal(number, lambda *_: self._why.put(None))
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def stop_if_follower_ended(self, status: int) -> bool:
        """Whether the follower's exit status ends the standby: it was promoted, or must start over."""
        ends_all = os.WIFEXITED(status) and os.WEXITSTATUS(status) in (processes.PROMOTED, processes.START_OVER)
        if ends_all:
            self._why.put(os.WEXITSTATUS(status))
        return ends_all

    def give_up_if_dying(self, status: int) -> bool:
        """Note that an API process ended; whether too many died lately. Half a service is worse than none."""
        now_s = time.monotonic()
        self._deaths.append(now_s)
        if len(self._deaths) < _DEATHS_MAX or now_s - self._deaths[0] > _DEATHS_S:
            return False
        self._why.put(Unavailable(f"{_DEATHS_MAX} API processes died within {_DEATHS_S:.0f} s; see their output above"))
        return True

    def wait(self) -> int | None:
        """Wait for a reason to end; returns the follower's exit status, if that ended the standby.

        Wakes up every _WAKE_INTERVAL_S. Python runs signal handlers in this thread only, and a signal that reaches
        another thread, or comes just before this one sleeps, does not wake it.
        Errors: Unavailable if API processes keep dying.
        """
        while True:
            with contextlib.suppress(queue.Empty):
                why = self._why.get(timeout=_WAKE_INTERVAL_S)
                break
        if isinstance(why, KithError):
            raise why
        return why


def raise_descriptors(settings: Settings) -> None:
    """Raise the limit of open files as far as the system allows, and warn if it is too low for all connections."""
    _, allowed = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # some systems report a limit that they do not grant
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, allowed))
    needed = settings.streams_max + REQUESTS_MAX + _OTHER_DESCRIPTORS
    if allowed != resource.RLIM_INFINITY and allowed < needed:
        _log.warning(
            "fewer file descriptors than connections; raise the limit (ulimit -n, LimitNOFILE), or lower `streams_max`",
            limit=allowed,
            needed=needed,
        )


def check_port(settings: Settings) -> None:
    """Raise Unavailable if another program listens on the port."""
    listen_on(settings.host, settings.port).close()


def base_url(settings: Settings) -> str:
    """The URL at which this machine reaches a server with these settings."""
    host = "127.0.0.1" if settings.host in ("0.0.0.0", "::") else settings.host  # noqa: S104
    return f"http://[{host}]:{settings.port}" if ":" in host else f"http://{host}:{settings.port}"
