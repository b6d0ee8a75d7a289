"""The clients over real connections: what closed clients leave behind."""

from __future__ import annotations

import queue
import socket
import threading
from pathlib import Path

from servers import eventually

from kith.client import Kith

KEY = "sk-very-secret"
STREAM = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
    b'id: 1-1\nevent: unread\ndata: {"count":0,"partial":false}\n\n'
)
JOIN_S = 5.0


def test_a_stream_that_waits_in_another_thread_ends_once_its_client_is_closed() -> None:
    found = queue.SimpleQueue[object]()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        kith = Kith(f"http://127.0.0.1:{listening.getsockname()[1]}", KEY)

        def follow() -> None:
            for event in kith.feed_stream():
                found.put(event)

        following = threading.Thread(target=follow, daemon=True)
        following.start()
        with listening.accept()[0] as connection:
            connection.sendall(STREAM)
            found.get(timeout=JOIN_S)
            eventually(lambda: waits(following), JOIN_S)
            kith.close()
            following.join(JOIN_S)
            assert not following.is_alive()


def waits(thread: threading.Thread) -> bool:
    """Whether the thread waits for the network."""
    return Path(f"/proc/self/task/{thread.native_id}/stat").read_text().rpartition(")")[2].split()[0] == "S"
