"""Several machines on one host: a primary and its standbys, each a server over its own folder; and writers."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
from commands import CLEAN, LIMIT_S
from forking import Forked, launcher
from servers import API, DEFAULT_SETTINGS, KEY, PLAIN, eventually, free_port

HEADERS = {"Authorization": f"Bearer {KEY}"}
WITHIN_S = 30.0


class Machine:
    """A data folder and the `kith serve` or `kith standby` over it, in its own process group."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.folder, self.data, self.port = folder, folder / "data", free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.environment = {**CLEAN, **DEFAULT_SETTINGS, **settings}
        self.process: Forked | None = None
        folder.mkdir(parents=True)

    def start(self, *, of: Machine | None = None, is_up: Callable[[], bool] | None = None, **environment: str) -> None:
        """Start a server over the folder and wait until it is up: as a standby of the machine `of`, or else as a
        primary.

        `is_up`: says when it is up. The default waits until it leads or follows. Pass `answers` for a machine that may
        learn
        at once that it is no longer the primary.
        """
        command = ["serve"] if of is None else ["standby", "--of", of.url]
        variables = {**self.environment, "KITH_PRIMARY_KEY": KEY, **environment}
        with (self.folder / "log").open("ab") as log:
            self.process = launcher().start(
                *(*command, "--data", self.data, "--port", str(self.port)),
                env=variables, stdout=log, stderr=log, cwd=self.folder, start_new_session=True,
            )  # fmt: skip
        is_up = is_up or (self.leads if of is None else self.follows)
        self.until(lambda: self._ended() or is_up())
        assert not self._ended(), self.said()[-4_000:]

    def _ended(self) -> bool:
        return self.process is not None and self.process.poll() is not None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to all of its processes."""
        assert self.process is not None
        os.killpg(self.process.pid, number)

    def kill(self) -> None:
        """Kill all of its processes at once with SIGKILL."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                self.signal(signal.SIGKILL)
            self.process.wait()

    def stop(self) -> None:
        """Send SIGTERM and wait for the end."""
        assert self.process is not None
        self.process.terminate()
        self.process.wait(WITHIN_S)

    def client(self, acting: int | None = None, timeout_s: float = 10.0) -> httpx.Client:
        """An HTTP client of this machine with the server key."""
        headers = {} if acting is None else {"X-Kith-User": str(acting)}
        return httpx.Client(base_url=self.url, headers={**HEADERS, **headers}, timeout=timeout_s, **PLAIN)

    def readiness(self) -> Any:
        """The answer of /readyz."""
        return httpx.get(f"{self.url}/readyz", timeout=2, **PLAIN).json()

    def answers(self) -> bool:
        """Whether it answers, ready or not."""
        try:
            return bool(self.readiness())
        except httpx.TransportError:
            return False

    def ready(self) -> bool:
        """Whether it is ready."""
        try:
            return bool(self.readiness()["ready"])
        except httpx.TransportError:
            return False

    def follow(self, user: int, followed: int, timeout_s: float = 10.0) -> httpx.Response:
        """Send a follow; returns the answer."""
        with self.client(user, timeout_s) as http:
            return http.post(f"{API}/users/{followed}/follow")

    def follows(self) -> bool:
        """Whether it is ready, as a standby that follows."""
        return self.ready() and "ms behind" in self.readiness().get("standby", "")

    def leads(self) -> bool:
        """Whether it is ready, as a primary."""
        return self.ready() and "standby" not in self.readiness()

    def holding(self, pairs: list[tuple[int, int]]) -> list[bool]:
        """For each pair, whether this follow is stored here."""
        with self.client() as http:
            exists: list[bool] = []
            for start in range(0, len(pairs), 1_000):
                chunk = [[str(source), str(destination)] for source, destination in pairs[start : start + 1_000]]
                exists += http.post(f"{API}/graph/follows/check", json={"pairs": chunk}).json()["exists"]
            return exists

    def promote(self, *options: str, at: bool = True) -> subprocess.CompletedProcess[str]:
        """Run `kith promote` on its folder. `at`: pass its address as --url."""
        command = ["promote", "--data", str(self.data), *(["--url", self.url] if at else []), *options]
        return launcher().run(*command, env=self.environment, timeout=LIMIT_S)

    def doctor(self) -> str:
        """The output of `kith doctor` on its folder, as one line."""
        output = launcher().run("doctor", "--data", str(self.data), env=self.environment, timeout=LIMIT_S).stdout
        return " ".join(output.split())

    def has(self, followed: int, user: int = 1) -> bool:
        """Whether this follow is stored here. False also while the machine does not answer."""
        try:
            return self.holding([(user, followed)]) == [True]
        except httpx.TransportError:
            return False

    def until(self, condition: Any, seconds: float = WITHIN_S) -> None:
        """Wait for a condition; on failure the assertion shows the machine's output."""
        try:
            eventually(condition, seconds)
        except AssertionError:
            raise AssertionError(f"not so within {seconds} s:\n{self.said()[-4_000:]}") from None

    def said(self) -> str:
        """All output of its servers."""
        return (self.folder / "log").read_text(errors="replace")


@contextlib.contextmanager
def machines(folder: Path, *names: str, **settings: str) -> Iterator[list[Machine]]:
    """Machines that are not started yet. They are killed at the end."""
    created = [Machine(folder / name, **settings) for name in names]
    try:
        yield created
    finally:
        for machine in created:
            machine.kill()


class Writers:
    """Users who each follow one account after another until a request fails. `acknowledged`: the count by user."""

    def __init__(self, machine: Machine, users: int, first: int) -> None:
        self.acknowledged: dict[int, list[int]] = {first + number: [] for number in range(users)}
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._write, args=(machine, user)) for user in self.acknowledged]
        for thread in self._threads:
            thread.start()

    def _write(self, machine: Machine, user: int) -> None:
        with machine.client(user) as http:
            for target in range(1_000_000, 2_000_000):
                try:
                    answer = http.post(f"{API}/graph/follows/edges", json=_edge(user, target))
                except httpx.TransportError:
                    return
                if self._stop.is_set() or answer.status_code != 200:
                    return
                self.acknowledged[user].append(target)

    def count(self) -> int:
        """The number of acknowledged writes."""
        return sum(map(len, self.acknowledged.values()))

    def stop(self) -> None:
        """Wait until all writers have stopped."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def lost(self, machine: Machine) -> int:
        """The number of acknowledged writes that a machine lacks. Of each user only the latest may be missing."""
        missing = 0
        for user, followed in self.acknowledged.items():
            exists = machine.holding([(user, target) for target in followed])
            assert exists == sorted(exists, reverse=True), f"a write of {user} is missing before one that is there"
            missing += exists.count(False)
        return missing


def _edge(user: int, followed: int) -> dict[str, Any]:
    return {"edges": [{"op": "add", "source": str(user), "destination": str(followed)}]}
