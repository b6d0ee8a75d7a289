"""How a standby handles bad answers of its primary: it keeps nothing partial, and the error says what to do."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from kith.core.errors import BadRequest, Conflict, KithError, StoreMismatch, TokenTooOld, Unauthorized, Unavailable
from kith.engines.embedded.shipping import SNAPSHOT_END
from kith.run.machines.primary import Primary

STORE = bytes(range(256)) * 20_000  # more than one chunk
MISSING = b'{"error": {"code": "MEDIA_NOT_FOUND", "message": "no", "details": {}}}'
KEY = "kith_key-of-a-machine"


@contextmanager
def answering(status: int, body: bytes, *, says_bytes: int | None = None) -> Iterator[Primary]:
    """A primary with this answer. `says_bytes`: the content length that it claims, if it hangs up before."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("content-length", str(len(body) if says_bytes is None else says_bytes))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        try:
            with Primary(f"http://127.0.0.1:{server.server_port}", KEY) as primary:
                yield primary
        finally:
            thread.join()


def snapshot_of(store: bytes) -> bytes:
    """A snapshot as it is sent: the store, the end mark, the checksum."""
    return store + SNAPSHOT_END + hashlib.sha256(store).digest()


def test_a_complete_snapshot_becomes_the_store(tmp_path: Path) -> None:
    with answering(200, snapshot_of(STORE)) as primary:
        primary.snapshot(tmp_path / "store.mdb")
    assert (tmp_path / "store.mdb").read_bytes() == STORE


def test_only_its_owner_may_read_a_snapshot_while_it_arrives(tmp_path: Path) -> None:
    """It holds the secrets of the store."""
    body = snapshot_of(STORE)
    with answering(200, body, says_bytes=len(body) + 1) as primary, pytest.raises(Unavailable):
        primary.snapshot(tmp_path / "store.mdb")
    assert [stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()] == [0o600]


@pytest.mark.parametrize(
    ("body", "says_bytes"),
    [
        (STORE, None),
        (snapshot_of(STORE)[:-1], None),
        (snapshot_of(STORE[:-1] + b"x")[: len(STORE)] + snapshot_of(STORE)[len(STORE) :], None),
        (STORE[:70_000], len(snapshot_of(STORE))),
        (b"", None),
    ],
    ids=["no checksum", "half a checksum", "one altered byte", "hung up", "nothing"],
)
def test_a_truncated_or_altered_snapshot_is_refused(tmp_path: Path, body: bytes, says_bytes: int | None) -> None:
    with answering(200, body, says_bytes=says_bytes) as primary, pytest.raises(Unavailable):
        primary.snapshot(tmp_path / "store.mdb")
    assert not (tmp_path / "store.mdb").exists()


@pytest.mark.parametrize(
    ("status", "code", "error"),
    [
        (409, "TOKEN_TOO_OLD", TokenTooOld),
        (409, "CONFLICT", Conflict),
        (401, "UNAUTHORIZED", Unauthorized),
        (503, "STORE_UNAVAILABLE", Unavailable),
        (404, "NOT_FOUND", Unavailable),
    ],
)
def test_an_error_of_the_primary_is_raised_as_the_same_error(status: int, code: str, error: type[KithError]) -> None:
    body = json.dumps({"error": {"code": code, "message": "no", "details": {}}}).encode()
    with answering(status, body) as primary, pytest.raises(error) as raised:
        primary.log(0, None, 0)
    assert type(raised.value) is error
    assert KEY not in raised.value.message


def test_an_answer_of_another_program_is_reported_as_such() -> None:
    with answering(502, b"<html>Bad gateway</html>") as primary, pytest.raises(Unavailable, match="not as a Kith"):
        primary.log(0, None, 0)


def test_an_address_that_does_not_answer_is_unavailable() -> None:
    with Primary("http://127.0.0.1:1", KEY) as primary, pytest.raises(Unavailable, match="does not answer"):
        primary.log(0, None, 0)


def test_an_address_without_http_is_refused() -> None:
    with pytest.raises(BadRequest):
        Primary("10.0.0.1:7400", KEY)


def test_an_address_with_a_password_is_refused_without_showing_it() -> None:
    with pytest.raises(BadRequest, match="no user or password") as refused:
        Primary("https://kith:hunter2@primary.example", KEY)
    assert "hunter2" not in refused.value.message


def test_a_missing_media_file_is_skipped_and_one_in_a_bucket_is_refused(tmp_path: Path) -> None:
    with answering(404, MISSING) as primary:
        assert not primary.media_file("01/a.png", tmp_path)
    assert list((tmp_path / "01").iterdir()) == []
    with answering(307, b"") as primary, pytest.raises(StoreMismatch, match="media_url"):
        primary.media_file("01/a.png", tmp_path)


def test_what_a_program_in_between_does_not_have_is_not_missing_in_the_primary(tmp_path: Path) -> None:
    """Such as a proxy that serves other paths only: no store would be there, and pictures would be skipped."""
    with answering(404, b"<html>Not Found</html>") as primary, pytest.raises(Unavailable, match="not as a Kith does"):
        primary.media_file("01/a.png", tmp_path)
    with answering(404, b"") as primary, pytest.raises(Unavailable, match="not as a Kith does"):
        primary.snapshot(tmp_path / "store.mdb")
    with answering(404, MISSING) as primary, pytest.raises(Unavailable, match="gives no snapshots"):
        primary.snapshot(tmp_path / "store.mdb")
    assert not (tmp_path / "store.mdb").exists()


def test_a_fetched_media_file_is_durable_with_its_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The record that names the file is applied next, and the file is never fetched again."""
    file, synced = tmp_path / "01" / "a.png", set[str]()

    def sync(descriptor: int) -> None:
        if file.exists():
            synced.add(os.readlink(f"/proc/self/fd/{descriptor}"))

    monkeypatch.setattr(os, "fsync", sync)
    with answering(200, STORE) as primary:
        assert primary.media_file("01/a.png", tmp_path)
    assert file.read_bytes() == STORE
    assert synced >= {str(tmp_path / "01"), str(tmp_path)}


@pytest.mark.parametrize("said", [b"<html>somebody is at work</html>", b"", b"{}", b'{"epoch": "seven"}'], ids=str)
def test_the_epoch_is_not_read_from_an_answer_of_another_program(said: bytes) -> None:
    """Such as a proxy in front of a machine that is down."""
    with answering(200, said) as primary, pytest.raises(Unavailable, match="not as a Kith does"):
        primary.epoch()
