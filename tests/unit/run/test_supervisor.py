"""The supervisor of the background worker, with a worker that only sleeps."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from servers import eventually

from kith.run.config import Settings
from kith.run.serving import supervisor


def test_a_worker_that_the_system_does_not_let_start_is_started_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[int] = []
    refusals: list[BlockingIOError] = []

    def spawn(name: str) -> int:
        if refusals:
            raise refusals.pop()
        started.append(os.posix_spawn("/bin/sleep", ["sleep", "1000"], os.environ))
        return started[-1]

    monkeypatch.setattr(supervisor, "processes_of_workers", lambda _: [("fanout",)])
    for name in ("_start_worker", "_spawn_worker"):
        monkeypatch.setattr(supervisor, name, spawn)
    monkeypatch.setattr(supervisor, "_RESPAWN_S_MAX", 0.1)
    for name in (supervisor.processes.SUPERVISOR_VARIABLE, supervisor.processes.SETTINGS_VARIABLE):
        monkeypatch.setenv(name, "")  # so that it is put back
    with supervisor.workers(Settings(data=str(tmp_path))):
        refusals += [BlockingIOError(11, "Resource temporarily unavailable")] * 2
        os.kill(started[0], signal.SIGKILL)
        eventually(lambda: len(started) == 2)
    for pid in started:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


class Starting:
    """An API process that misses the first SIGTERM, as one may that sets its handlers just then."""

    def __init__(self) -> None:
        self.terms, self.killed = 0, False

    def terminate(self) -> None:
        self.terms += 1

    def is_alive(self) -> bool:
        return self.terms < 2 and not self.killed

    def join(self, timeout: float | None = None) -> None: ...

    def kill(self) -> None:
        self.killed = True


def test_an_api_process_that_missed_sigterm_is_told_again() -> None:
    server = supervisor._Server("kith.run.serving.server:serve_process", workers_kill_timeout=20)
    process = Starting()
    server.wrks.append(process)
    server._stop_workers()
    assert not process.killed
    assert not server.wrks


def returned(work: Any) -> bool:
    """Whether this comes to its end, in a thread that is left alone if not."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(20)
    return not thread.is_alive()


def test_a_signal_while_the_loop_looks_at_what_happened_is_not_lost() -> None:
    server = supervisor._Server("kith.run.serving.server:serve_process")

    def loop() -> None:
        server.main_loop_interrupt.set()  # an API process died
        server.main_loop_interrupt.wait()
        server.signal_handler_interrupt()  # after the loop has seen that there was no signal
        server.main_loop_interrupt.clear()
        server.main_loop_interrupt.wait()

    assert returned(loop)
    assert server.interrupt_signal


def test_a_signal_may_come_while_its_thread_is_anywhere_in_the_wait() -> None:
    server = supervisor._Server("kith.run.serving.server:serve_process")
    signals: list[int] = []

    def signalled(frame: FrameType, event: str, _: object) -> Any:
        if event == "line" and len(signals) < 100 and frame.f_code.co_name in ("set", "wait", "clear"):
            signals.append(frame.f_lineno)
            server.signal_handler_interrupt()
        return signalled

    def loop() -> None:
        sys.settrace(signalled)
        for _ in range(3):
            server.main_loop_interrupt.set()
            server.main_loop_interrupt.wait()
            server.main_loop_interrupt.clear()

    assert returned(loop)
    assert signals
