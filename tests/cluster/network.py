"""A machine in its own network namespace, whose links to engines a test can cut. Needs root, and Linux with `ip`.

Inside, a forwarder listens at the address that each engine has outside, and carries bytes there. A cut link stands
still: connections stay open and bytes wait, as when a switch drops all packets.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast

from forking import Forked
from servers import DEFAULT_SETTINGS, KEY, Server, free_port, wait_ready

Address = tuple[str, int]
_NEW_NETWORK = 0x40000000
_BYTES = 1 << 16
_libc = ctypes.CDLL(None, use_errno=True)


class Way:
    """A forwarder from a socket that listens in one network to an address in another."""

    def __init__(self, listening: socket.socket, connect: Callable[[], socket.socket]) -> None:
        self._listening, self._connect = listening, connect
        self._open = threading.Event()
        self._open.set()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Carry no bytes until `mend`."""
        self._open.clear()

    def mend(self) -> None:
        self._open.set()

    def close(self) -> None:
        self._listening.close()
        self.mend()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                threading.Thread(target=self._begin, args=(near,), daemon=True).start()

    def _begin(self, near: socket.socket) -> None:
        self._open.wait()
        try:
            far = self._connect()
        except OSError:
            near.close()
            return
        for end in (near, far):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=self._carry, args=(far, near), daemon=True).start()
        self._carry(near, far)

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(_BYTES):
                self._open.wait()
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            for end in (source, sink):
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)


class Network:
    """A network namespace that reaches nothing but itself and the ways made for it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._ways: list[Way] = []

    def way_out(self, address: Address) -> Way:
        """Forward connections to this address from inside to outside."""
        way = Way(self._inside(lambda: socket.create_server(address)), lambda: socket.create_connection(address))
        self._ways.append(way)
        return way

    def way_in(self, address: Address) -> None:
        """Forward connections to this address from outside to inside."""

        def connect() -> socket.socket:
            return self._inside(lambda: socket.create_connection(address))

        self._ways.append(Way(socket.create_server(address), connect))

    def _inside(self, make: Callable[[], socket.socket]) -> socket.socket:
        """A socket made in the namespace. It stays there, whichever thread uses it."""

        def enter_and_make() -> socket.socket:
            with open(f"/run/netns/{self.name}") as network:
                if _libc.setns(network.fileno(), _NEW_NETWORK):
                    raise OSError(ctypes.get_errno(), "setns")
            return make()

        with ThreadPoolExecutor(1) as thread:  # the thread ends, so no other code runs in the namespace
            return thread.submit(enter_and_make).result()

    def close(self) -> None:
        for way in self._ways:
            way.close()


def can_be_cut() -> bool:
    """Whether this process may create network namespaces."""
    return os.geteuid() == 0 and shutil.which("ip") is not None


@contextlib.contextmanager
def network(addresses: Iterable[Address]) -> Iterator[tuple[Network, dict[Address, Way]]]:
    """A network from which these addresses can be reached, and the way to each."""
    created = Network(f"kith-tests-{os.getpid()}")
    subprocess.run(["ip", "netns", "add", created.name], check=True)
    try:
        subprocess.run(["ip", "-n", created.name, "link", "set", "lo", "up"], check=True)
        yield created, {address: created.way_out(address) for address in addresses}
    finally:
        created.close()
        subprocess.run(["ip", "netns", "del", created.name], check=True)


@contextlib.contextmanager
def serving_inside(network_inside: Network, folder: Path, **settings: str) -> Iterator[Server]:
    """A ready server in a network, whose API is reachable from outside."""
    port, output = free_port(), folder / "server.log"
    folder.mkdir(parents=True)
    clean = {name: value for name, value in os.environ.items() if not name.startswith("KITH_")}
    command = ["ip", "netns", "exec", network_inside.name, sys.executable, "-m", "kith", "serve"]
    with output.open("ab") as sink:
        process = subprocess.Popen(
            [*command, "--data", folder / "data", "--port", str(port)],
            cwd=folder, env={**clean, **DEFAULT_SETTINGS, **settings}, stdout=sink, stderr=sink,
        )  # fmt: skip
    server = Server(cast(Forked, process), port, folder / "data", output, KEY)
    network_inside.way_in(("127.0.0.1", port))
    try:
        wait_ready(server)
        yield server
    except BaseException:
        print(f"--- output of the server in its network ---\n{server.output()[-8_000:]}")
        raise
    finally:
        server.terminate()
