"""What one machine has promised another survives a power cut, also with relaxed durability.

These promises are: that it was fenced, the epoch with which it takes over, and how much of the log it has durably.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import msgspec
from coroutines import run_coroutine
from drive import Drive, read_trace
from edges import edge_of, writes_of
from embedded_engine import open_embedded
from processes import HERE, FaultyDisk

from kith.api.resources.standby import Fencing
from kith.engines.embedded import segments, store_role
from kith.engines.embedded.environment import Environment

_CUTS = 20
_ENDED_S = 60
Answer = Callable[[str, bytes], bytes | None]
"""The answer of the other machine, by requested path and body. None: kill the calling process at once."""


def stores_after_a_cut(
    folder: Path, disk: FaultyDisk, seed: int, action: str, answer: Answer = lambda *_: None
) -> Iterator[Environment]:
    """Run `role_changer.py` until it is killed; then open its store as each of several power cuts leaves it."""
    script, trace, drive, chosen = HERE / "role_changer.py", folder / "trace", Drive(), random.Random(seed)
    variables = {**os.environ, **disk.environment, "KITH_FAULT_TRACE": str(trace)}
    processes: list[subprocess.Popen[bytes]] = []

    class Machine(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            reply = answer(self.path, self.rfile.read(int(self.headers["content-length"] or 0)))
            if reply is None:
                processes[0].kill()
                return
            self.send_response(200)
            self.send_header("content-length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        do_POST = do_GET

        def log_message(self, *_: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Machine) as machine:
        threading.Thread(target=machine.serve_forever).start()
        command = [sys.executable, str(script), str(folder / "data"), action, f"http://127.0.0.1:{machine.server_port}"]
        try:
            with subprocess.Popen(command, env=variables) as process:
                processes.append(process)
                assert process.wait(_ENDED_S) == -signal.SIGKILL
        finally:
            machine.shutdown()
    for step in read_trace(trace.read_bytes()):
        drive.take(step)
    for number in range(_CUTS):
        folder_after = folder / f"cut-{number}"
        folder_after.mkdir()
        for name, content in drive.cut(chosen).items():
            (folder_after / name).write_bytes(content)
        with Environment(folder_after, create=False) as store:
            yield store


def test_a_fenced_primary_stays_fenced(tmp_path: Path, disk: FaultyDisk, seed: int) -> None:
    """The machine that fenced it does not repeat the call."""
    for store in stores_after_a_cut(tmp_path, disk, seed, "fence"):
        closed = store_role.read_closed_note(store)
        assert closed is not None
        assert closed.why == "fenced"


def test_an_interrupted_promotion_resumes_with_its_epoch(tmp_path: Path, disk: FaultyDisk, seed: int) -> None:
    """With another epoch, the old primary, fenced with this one, would refuse the promotion as another machine's."""
    fencings: list[Fencing] = []

    def fenced(_: str, body: bytes) -> None:
        fencings.append(msgspec.json.decode(body, type=Fencing))

    for store in stores_after_a_cut(tmp_path, disk, seed, "promote", fenced):
        assert store_role.epoch_of(store) == fencings[0].epoch


def test_a_standby_keeps_the_events_that_it_confirmed(tmp_path: Path, disk: FaultyDisk, seed: int) -> None:
    """In mode `one` the primary has acknowledged these writes."""
    confirmed: list[int] = []
    with open_embedded(tmp_path / "primary") as (primary, edges):
        run_coroutine(edges.declare(["follows"]))
        for followed in (2, 3, 4):
            run_coroutine(edges.apply(writes_of(edge_of(1, followed))))

        def log(path: str, _: bytes) -> bytes | None:
            query = parse_qs(urlsplit(path).query)
            confirmed.extend(map(int, query.get("has", ())))
            return None if confirmed else segments.pack(segments.next_segment(primary, int(query["after"][0]), 1 << 20))

        for store in stores_after_a_cut(tmp_path, disk, seed, "follow", log):
            assert segments.last_event(store) == confirmed[0] == 3
