"""Processes for tests to harm: the engine, by commands on its stdin, and `kith serve` with its workers."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from commands import KITH
from forking import Forked, launcher
from servers import PLAIN, free_port, named

HERE = Path(__file__).parent
API_KEY = "kith_only_for_fault_tests"
_START_S, _REFUSED_S = 30.0, 8.0


class FaultyDisk:
    """The shim `faulty_disk.c` and its order file. An order takes effect from the next system call on."""

    def __init__(self, library: Path, order: Path) -> None:
        self._order = order
        self.environment = {"LD_PRELOAD": str(library), "KITH_FAULT_FILE": str(order)}

    def order(self, text: str) -> None:
        """Order a fault. The file is replaced atomically, so the shim never reads half an order."""
        new_file = self._order.with_suffix(".new")
        new_file.write_text(text)
        new_file.replace(self._order)

    def heal(self) -> None:
        """Take the order back: the disk works again."""
        self._order.unlink(missing_ok=True)

    @property
    def pending(self) -> bool:
        """Whether an order is still there. An order with `once` is gone after it took effect."""
        return self._order.exists()


def compile_disk(folder: Path) -> Path:
    """Compile the shim as a library. Skips the test where there is no compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if sys.platform != "linux" or compiler is None:
        pytest.skip("the faulty disk is a C library for Linux: install a C compiler (cc) to run this test")
    library = folder / "faulty_disk.so"
    source = str(HERE / "faulty_disk.c")
    flags = ["-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run([compiler, *flags, "-o", str(library), source], check=True)
    return library


class EngineProcess:
    """An `engine.py` process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def __call__(self, command: str, *arguments: int | str) -> dict[str, Any]:
        """Send one command; returns its answer."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([command, *arguments]) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, f"the engine died with {self.process.wait()}; its traceback is above"
        return dict(json.loads(line))


@contextmanager
def engine_over(folder: Path, *bounds: int, environment: dict[str, str] | None = None) -> Iterator[EngineProcess]:
    """An engine over a data folder. `bounds`: BYTES_MAX and QUEUE_MAX of `engine.py`."""
    command = [sys.executable, str(HERE / "engine.py"), str(folder), *map(str, bounds)]
    variables = {**os.environ, **(environment or {})}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, env=variables, **pipes) as process:
        try:
            yield EngineProcess(process)
        finally:
            assert process.stdin is not None
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                raise


class ServerGroup:
    """A running `kith serve`, the leader of its own process group."""

    def __init__(self, process: Forked | subprocess.Popen[bytes], port: int, log: Path) -> None:
        self.process, self.url, self._log = process, f"http://127.0.0.1:{port}", log
        self.headers = {"authorization": f"Bearer {API_KEY}"}

    def client(self, timeout_s: float = 10.0) -> httpx.Client:
        """A client that opens a new connection for each request, so that requests reach different workers."""
        once = httpx.Limits(max_keepalive_connections=0)
        return httpx.Client(base_url=self.url, headers=self.headers, timeout=timeout_s, limits=once, **PLAIN)

    def log(self) -> str:
        """The output of the server, of stdout and stderr."""
        return self._log.read_text(errors="replace")

    def workers(self) -> list[int]:
        """The pids of the API processes that have the store open."""
        try:
            return [pid for pid in named("api", self.process.pid) if _holds_store(pid)]
        except OSError:  # the supervisor is gone
            return []

    def wait_until(self, description: str, ready: Any, seconds: float = _START_S) -> None:
        """Wait until `ready()` is true; on failure the assertion shows the server's log."""
        deadline = time.monotonic() + seconds
        while not ready():
            assert time.monotonic() < deadline, f"not {description} within {seconds} s:\n{self.log()[-4000:]}"
            time.sleep(0.02)

    def is_ready(self) -> bool:
        """Whether /readyz answers that it is ready."""
        try:
            with self.client(2.0) as client:
                return client.get("/readyz").status_code == 200
        except httpx.TransportError:
            return False

    def kill_group(self) -> None:
        """Kill the supervisor and all workers at once with SIGKILL."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def _holds_store(pid: int) -> bool:
    try:
        return any(os.readlink(link).endswith("store.mdb") for link in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:  # it has just died
        return False


@contextmanager
def serving(folder: Path, *, workers: int = 1, environment: dict[str, str] | None = None) -> Iterator[ServerGroup]:
    """A `kith serve` over a data folder, ready. It is stopped at the end, however the test went."""
    log = folder.parent / "server.log"
    port = free_port()
    command = ["serve", "--data", str(folder), "--port", str(port), "--workers", str(workers)]
    variables = {**os.environ, "KITH_API_KEYS": API_KEY, **(environment or {})}
    process: Forked | subprocess.Popen[bytes]
    with log.open("ab") as log_file:
        if "LD_PRELOAD" in variables:  # the shim loads only into a new program
            process = subprocess.Popen(
                [*KITH, *command], stdout=log_file, stderr=log_file, env=variables, start_new_session=True
            )
        else:
            process = launcher().start(
                *command, stdout=log_file, stderr=log_file, env=variables, start_new_session=True
            )
    server = ServerGroup(process, port, log)
    try:
        server.wait_until(f"{workers} workers ready", lambda: server.is_ready() and len(server.workers()) == workers)
        yield server
        process.terminate()  # no effect if the test has killed it
        process.wait(30)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def serve_refused(folder: Path) -> tuple[int, str]:
    """Start `kith serve` over a folder that it refuses. Returns the exit status and all output."""
    with tempfile.TemporaryFile("w+") as output:
        process = launcher().start(
            *("serve", "--data", folder, "--port", str(free_port())),
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            status = process.wait(_REFUSED_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            status = 0
        output.seek(0)
        return status, output.read()
