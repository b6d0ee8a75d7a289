"""Processes that accept from one socket share its connections. Here each process is a listener on the same loop."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
from collections.abc import AsyncIterator, Iterator

import pytest
from http_world import echo, play, until

from kith.api import errors
from kith.http import listener
from kith.http.listener import Listener

GET = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"


@contextlib.asynccontextmanager
async def sharing(listening: socket.socket, processes: int) -> AsyncIterator[list[Listener]]:
    """One listener per process, all on one socket."""
    made = [Listener(echo, errors.respond, idle_s=30, connections_max=1_000) for _ in range(processes)]
    for one in made:
        await one.serve(listening.dup())
    try:
        yield made
    finally:
        await asyncio.gather(*(one.close(5) for one in made))


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0), backlog=256) as made:
        yield made


@contextlib.contextmanager
def opened(listening: socket.socket, count: int) -> Iterator[list[socket.socket]]:
    """A pool of connections, opened before anybody accepts."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(socket.create_connection(listening.getsockname())) for _ in range(count)]


@pytest.mark.parametrize(("processes", "count"), [(2, 16), (4, 16), (2, 200)])
def test_a_pool_of_connections_opened_at_once_is_shared_evenly(
    listening: socket.socket, processes: int, count: int
) -> None:
    async def scene() -> None:
        with opened(listening, count):
            async with sharing(listening, processes) as made:
                await until(lambda: sum(map(len, made)) == count)
                assert max(map(len, made)) <= 1.25 * count / processes

    play(scene())


def test_one_process_accepts_all_where_the_others_accept_nothing(listening: socket.socket) -> None:
    async def scene() -> None:
        with opened(listening, 100) as clients:
            async with sharing(listening, 1) as (one,):
                await until(lambda: len(one) == 100)
                clients[-1].sendall(GET)
                answer = await asyncio.to_thread(clients[-1].recv, 1_000)
                assert answer.startswith(b"HTTP/1.1 200")

    play(scene())


def test_a_connection_that_replaces_an_ended_one_is_accepted_at_once(
    listening: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "_REPLACEMENT_S", 1_000.0)

    async def scene() -> None:
        async with sharing(listening, 1) as (one,):
            with opened(listening, 5):
                await until(lambda: len(one) == 5)
            await until(lambda: len(one) == 0)
            monkeypatch.setattr(listener, "_PAUSE_S_MAX", 1_000.0)
            monkeypatch.setattr(listener, "_PAUSE_PER_CONNECTION_S", 1_000.0)
            with opened(listening, 5):
                await until(lambda: len(one) == 5)

    play(scene())


class Full(socket.socket):
    """A socket whose first accept fails because the process has no descriptor left."""

    refusals = 1

    def accept(self) -> tuple[socket.socket, object]:
        if self.refusals:
            self.refusals -= 1
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return super().accept()


def test_accept_is_retried_after_the_process_ran_out_of_descriptors(listening: socket.socket) -> None:
    async def scene() -> None:
        one, full = (
            Listener(echo, errors.respond, idle_s=30, connections_max=100),
            Full(fileno=listening.dup().detach()),
        )
        await one.serve(full)
        with opened(listening, 1):
            await until(lambda: len(one) == 1)
        assert not full.refusals
        await one.close(5)

    play(scene())


def test_a_listener_closed_during_its_pause_accepts_no_more(
    listening: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "_PAUSE_S_MAX", 0.05)
    monkeypatch.setattr(listener, "_PAUSE_PER_CONNECTION_S", 0.05)

    async def scene() -> None:
        faults: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
        with opened(listening, 2):
            async with sharing(listening, 1) as (one,):
                await until(lambda: len(one) == 1)
            await asyncio.sleep(0.1)  # past the end of the pause
            assert (len(one), faults) == (0, [])

    play(scene())
