"""Files of pictures and videos over HTTP: safe headers, ranges, addresses that cannot be guessed, buckets."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from calls import code, upload
from cast import People
from pictures import decoded, mp4, photo
from servers import API, ON_CLUSTER, PLAIN, Server, serving
from small_s3 import small_s3

# --- files ---------------------------------------------------------------------------------------------------

Acting = Callable[[int], httpx.Client]
SAFE = {
    "x-content-type-options": "nosniff",
    "content-security-policy": "sandbox; default-src 'none'",
    "cache-control": "public, max-age=31536000, immutable",
    "accept-ranges": "bytes",
}


def test_files_are_served_with_safe_headers(acting: Acting, visitor: httpx.Client, people: People) -> None:
    made = upload(acting(people.alice), photo())
    for url, content_type, ending in ((made["url"], "image/jpeg", "jpg"), (made["thumbnailUrl"], "image/webp", "webp")):
        shown = visitor.get(url)
        assert {name: shown.headers[name] for name in SAFE} == SAFE
        assert shown.headers["content-type"] == content_type
        assert shown.headers["content-disposition"].startswith(f'inline; filename="{made["id"]}.')
        assert shown.headers["content-disposition"].endswith(f'{ending}"')
        again = visitor.get(url, headers={"If-None-Match": shown.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        for known in ("*", f'"another", W/{shown.headers["etag"]}'):
            assert visitor.get(url, headers={"If-None-Match": known}).status_code == 304
        head = visitor.head(url)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-length"] == str(len(shown.content))


@pytest.mark.parametrize(
    ("asked", "status", "first", "last"),
    [
        ("bytes=0-0", 206, 0, 0),
        ("bytes=10-19", 206, 10, 19),
        ("bytes=700-", 206, 700, None),
        ("bytes=-5", 206, -5, None),
        ("bytes=0-999999999", 206, 0, None),
        (f"bytes=-{len(mp4())}", 206, 0, None),
        ("bytes=-999999999", 206, 0, None),
        ("bytes=5-4", 200, 0, None),
        ("bytes=a-b", 200, 0, None),
        ("bytes=-", 200, 0, None),
        ("bytes=0-1,5-6", 200, 0, None),
        ("rows=0-1", 200, 0, None),
        ("bytes=999999-", 416, 0, None),
        ("bytes=-0", 416, 0, None),
    ],
)
def test_a_range_request_gets_its_part_of_a_video(
    acting: Acting, visitor: httpx.Client, people: People, asked: str, status: int, first: int, last: int | None
) -> None:
    made = upload(acting(people.alice), mp4())
    whole = visitor.get(made["url"]).content
    assert len(whole) == len(mp4())
    answer = visitor.get(made["url"], headers={"Range": asked})
    assert answer.status_code == status
    if status == 416:
        assert code(answer, 416) == "RANGE_NOT_SATISFIABLE"
        assert answer.headers["content-range"] == f"bytes */{len(whole)}"
        return
    expected = whole[first:] if last is None else whole[first : last + 1]
    assert answer.content == expected
    start = first % len(whole)
    if status == 206:
        assert answer.headers["content-range"] == f"bytes {start}-{start + len(expected) - 1}/{len(whole)}"
    else:
        assert "content-range" not in answer.headers
    stale = visitor.get(made["url"], headers={"Range": asked, "If-Range": '"another file"'})
    assert (stale.status_code, stale.content) == (200, whole)


def test_addresses_cannot_be_guessed_or_bent(acting: Acting, visitor: httpx.Client, people: People) -> None:
    made = upload(acting(people.alice), photo())
    folder, file = made["url"].removeprefix("/media/").split("/")
    digit = "0" if file[-5] != "0" else "1"
    for path in (
        f"/media/{folder}/{file[:-5]}{digit}.jpg",
        f"/media/{folder}/{file.replace('.jpg', '.png')}",
        f"/media/{folder}/{file}%00",
        f"/media/{folder}/..%2f..%2fstore.mdb",
        f"/media/..%2f{folder}/{file}",
        f"/media/{folder}/{file}%231",
        f"/media/{folder}/{file.upper()}",
        f"/media/{folder}/",
        f"/media/{made['id']}/jpg",
    ):
        assert code(visitor.get(path), 404) in ("MEDIA_NOT_FOUND", "NOT_FOUND"), path


@pytest.mark.skipif(ON_CLUSTER, reason="reads the data folder")
@pytest.mark.parametrize("path", ["../store.mdb", "./../store.mdb", "..//store.mdb", "../media/x", "%2e%2e/store.mdb"])
def test_no_other_file_of_the_machine_is_served(server: Server, path: str) -> None:
    """The path is sent over a socket as it is, because HTTP clients normalize such paths."""
    assert (server.data / "media" / "../store.mdb").exists()
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as client:
        client.sendall(f"GET /media/{path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        assert client.recv(12) == b"HTTP/1.1 404"


def test_a_file_for_a_stalled_reader_is_not_held_in_memory(server: Server, acting: Acting, people: People) -> None:
    made = upload(acting(people.alice), mp4() + b"\0\0\0\0mdat" + bytes(60 << 20))
    pids = [int(file.stem.removeprefix("api-")) for file in (server.data / "metrics").glob("api-*.json")]

    def memory_mb() -> float:
        lines = [line for pid in pids for line in Path(f"/proc/{pid}/status").read_text().splitlines()]
        return sum(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1_000

    before, readers = memory_mb(), []
    for _ in range(4):
        reader = socket.create_connection(("127.0.0.1", server.port), timeout=20)
        reader.sendall(f"GET {made['url']} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        assert reader.recv(16).startswith(b"HTTP/1.1 200")
        readers.append(reader)
    assert server.get(made["url"]).status_code == 200
    assert memory_mb() - before < 60
    for reader in readers:
        reader.close()


def test_files_in_a_bucket_are_served_by_the_bucket(tmp_path: Path, people: People) -> None:
    with small_s3() as bucket, serving(tmp_path, KITH_MEDIA_URL="s3://bucket/kith", **bucket.environment) as server:
        with server.client(acting=people.alice) as http:
            made = upload(http, photo())
            sent = server.get(made["url"])
            assert sent.status_code == 307
            shown = httpx.get(sent.headers["location"], **PLAIN)
            assert decoded(shown.content).size == (120, 80)
            assert shown.headers["content-type"] == "image/jpeg"
            assert len(bucket.files) == 2
            assert http.delete(f"{API}/media/{made['id']}").status_code == 204
        assert bucket.files == {}
        assert not [one for one in (server.data / "media").rglob("*") if one.is_file()]
