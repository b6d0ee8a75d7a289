"""Streams over real processes: kills lose nothing, a slow reader costs little, and a stop does not wait for streams."""

from __future__ import annotations

import itertools
import os
import signal
import socket
import threading
from pathlib import Path

import httpx
from calls import add_edges
from cast import People
from servers import API, KEY, Server, alive, eventually, serving
from stream_listener import Listener, publish

from kith.client import FeedReset, Kith, NewPost, Retry

READERS, POSTS, KILLS = 10, 120, 3
LAST = "the last"
PATIENT = Retry(tries=60, base_s=0.05, cap_s=0.5)


def api_pids(server: Server) -> set[int]:
    """Ids of the running API processes."""
    found = {int(file.stem.removeprefix("api-")) for file in (server.data / "metrics").glob("api-*.json")}
    return {pid for pid in found if alive(pid)}


def metric(server: Server, name: str) -> float:
    with server.client() as http:
        lines = http.get("/metrics").text.splitlines()
    return sum(float(line.split(" ")[1]) for line in lines if line.startswith(name))


class Reading(threading.Thread):
    """An app's loop over a stream, in a thread. It ends with the post whose text is LAST."""

    def __init__(self, server: Server, user: int) -> None:
        super().__init__(daemon=True)
        self._server, self._user = server, user
        self.posts: list[int] = []
        self.resets = 0
        self.start()

    def run(self) -> None:
        with Kith(self._server.url, KEY, user=self._user, retry=PATIENT) as kith:
            for event in kith.feed_stream():
                self.resets += isinstance(event, FeedReset)
                if isinstance(event, NewPost):
                    self.posts.append(event.post_id)
                    if event.preview == LAST:
                        return


def raw_request(user: int) -> bytes:
    """The raw bytes of a request that opens a stream."""
    lines = [f"GET {API}/feed/stream HTTP/1.1", "host: x", f"authorization: Bearer {KEY}", f"x-kith-user: {user}"]
    return "\r\n".join([*lines, "", ""]).encode()


def post_surely(server: Server, author: int, key: str) -> int:
    """Publish a post, retrying while processes are killed; return its id."""

    def publish_once() -> int | None:
        try:
            with httpx.Client(base_url=server.url, timeout=5, trust_env=False) as http:
                headers = {"Authorization": f"Bearer {KEY}", "X-Kith-User": str(author), "Idempotency-Key": key}
                answer = http.post(f"{API}/posts", json={"content": {"text": key}}, headers=headers)
            return int(answer.json()["id"]) if answer.status_code == 201 else None
        except httpx.TransportError:
            return None

    return int(eventually(publish_once, 30))


def test_readers_of_killed_processes_get_every_post_once_and_in_order(tmp_path: Path, people: People) -> None:
    author, readers = people.alice, people.crowd(READERS)
    with serving(tmp_path, "--workers", "2") as server:
        with server.client() as http:
            add_edges(http, "follows", *[(reader, author) for reader in readers])
        eventually(lambda: len(api_pids(server)) == 2)
        threads = [Reading(server, reader) for reader in readers]
        numbers = itertools.count()
        made: list[int] = []

        def all_listen() -> bool:  # a late reader starts late: once all have a post, all get the next ones
            made.append(post_surely(server, author, f"early {next(numbers)}"))
            return all(thread.posts for thread in threads)

        eventually(all_listen, 30)
        wanted = [post_surely(server, author, "the first")]
        for number in range(POSTS):
            if number % (POSTS // KILLS) == POSTS // KILLS // 2:
                eventually(lambda: len(api_pids(server)) == 2, 30)
                os.kill(sorted(api_pids(server))[number % 2], signal.SIGKILL)
            wanted.append(post_surely(server, author, f"post {number}"))
        wanted.append(post_surely(server, author, LAST))
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
            assert [post for post in thread.posts if post >= wanted[0]] == wanted
            assert thread.resets == 0


def test_a_reader_that_reads_nothing_is_cut_off_and_misses_nothing_when_it_resumes(
    tmp_path: Path, people: People
) -> None:
    alice, bob, carol, _ = people
    with serving(tmp_path, KITH_STREAM_BUFFER_BYTES="16384") as server:
        with server.client() as http:
            add_edges(http, "follows", (bob, alice), (carol, alice))
        slow = socket.socket()
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(("127.0.0.1", server.port))
        slow.sendall(raw_request(bob))
        eventually(lambda: metric(server, "kith_streams ") == 1)
        with server.client(acting=carol) as http, Listener(http) as quick, server.client(acting=alice) as author:
            begin, made = quick.last_id, list[str]()

            def cut() -> bool:
                for _ in range(20):
                    answer = author.post(f"{API}/posts", json={"content": {"text": "\u00e4" * 100}})
                    made.append(answer.json()["id"])
                return metric(server, 'kith_stream_ends_total{cause="slow"}') == 1

            eventually(cut, 60)
            assert len(made) < 200, "the reader was cut off while little was buffered"
            quick.wait("new_post", made[-1])
            assert quick.posts() == made
        with server.client(acting=bob) as http, Listener(http, begin) as again:
            again.wait("new_post", made[-1])
            assert again.posts() == made
        slow.close()


def test_a_stop_does_not_wait_for_streams_and_clients_resume_at_the_next_server(tmp_path: Path, people: People) -> None:
    alice, bob, *_ = people
    with serving(tmp_path, "--workers", "2", KITH_DRAIN_TIMEOUT_S="3600") as server:
        with server.client() as http:
            add_edges(http, "follows", (bob, alice))
        eventually(lambda: len(api_pids(server)) == 2, 30)  # a process that still starts misses the signal
        with server.client(acting=bob) as http:
            streams = [Listener(http) for _ in range(8)]
            assert server.terminate() == 0
            for stream in streams:
                eventually(lambda stream=stream: stream.ended)
    with serving(tmp_path) as server:
        missed = publish(server, alice)
        with server.client(acting=bob) as http, Listener(http, streams[0].last_id) as again:
            again.wait("new_post", missed)
            assert again.names() == ["new_post"]


def test_a_stream_is_sent_as_the_standard_of_eventsource_requires(tmp_path: Path, people: People) -> None:
    """Checks the raw bytes, including heartbeats in time."""
    with (
        serving(tmp_path, KITH_STREAM_HEARTBEAT_S="1") as server,
        socket.create_connection(("127.0.0.1", server.port)) as line,
    ):
        line.settimeout(10)
        request = (
            f"GET {API}/feed/stream HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KEY}\r\nx-kith-user: {people.alice}"
        )
        line.sendall(f"{request}\r\n\r\n".encode())
        got = b""
        while got.count(b":\nid: ") < 3:
            got += line.recv(4096)
        head, _, body = got.partition(b"\r\n\r\n")
        assert b"content-type: text/event-stream" in head
        assert b"cache-control: no-store" in head
        assert b"retry: " in body
