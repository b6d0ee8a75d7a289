"""Answers of one turn of the loop are sent together at its end. None is lost, and none waits longer."""

from __future__ import annotations

import asyncio
import time
from typing import cast
from unittest.mock import patch

from http_world import GET, POST, Door, scene, world

from kith.api import errors
from kith.http import serving_state
from kith.http.connection import Connection
from kith.http.exchange import Exchange
from kith.http.serving_state import HOLD_MAX_S, ServingState

HELD_BYTES_MAX = 1 << 16


class Sent:
    """A transport that records what is written to it."""

    def __init__(self, happened: list[str]) -> None:
        self.happened, self.raw = happened, b""

    def write(self, raw: bytes) -> None:
        self.happened.append("sent")
        self.raw += raw

    def write_eof(self) -> None: ...

    def is_closing(self) -> bool:
        return False

    def get_extra_info(self, _: str) -> None:
        return None

    def get_write_buffer_size(self) -> int:
        return 0


def connected(shared: ServingState, happened: list[str]) -> tuple[Connection, Sent]:
    connection, sent = Connection(shared), Sent(happened)
    connection.connection_made(cast(asyncio.Transport, sent))
    return connection, sent


async def send_three_requests(door: Door, happened: list[str]) -> None:
    shared = ServingState(door, errors.respond, 10)
    clients = [connected(shared, happened) for _ in range(3)]
    for connection, _ in clients:
        connection.data_received(GET)
    for _ in range(5):
        await asyncio.sleep(0)


@scene
async def test_answers_of_one_turn_are_all_made_before_any_is_sent() -> None:
    happened: list[str] = []

    async def door(exchange: Exchange) -> None:
        exchange.respond(200, [], b"")
        happened.append("answered")

    with patch.object(serving_state, "HOLD_MAX_S", 60):  # however slow the machine is
        await send_three_requests(door, happened)
    assert happened == ["answered"] * 3 + ["sent"] * 3


@scene
async def test_no_answer_waits_for_many_slow_ones() -> None:
    happened: list[str] = []

    async def door(exchange: Exchange) -> None:
        time.sleep(2 * HOLD_MAX_S)  # noqa: ASYNC251 - a slow computation
        exchange.respond(200, [], b"")
        happened.append("answered")

    await send_three_requests(door, happened)
    assert happened.index("sent") < happened.index("answered", 2)
    assert happened.count("sent") == 3


@scene
async def test_each_pipelined_request_is_answered_before_the_next_is_handled() -> None:
    happened: list[str] = []

    async def door(exchange: Exchange) -> None:
        happened.append("answered")
        exchange.respond(200, [], b"")

    connection, _ = connected(ServingState(door, errors.respond, 10), happened)
    connection.data_received(GET * 2)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert happened == ["answered", "sent", "answered", "sent"]


@scene
async def test_a_stream_holds_back_a_bounded_number_of_bytes() -> None:
    happened: list[str] = []

    async def door(exchange: Exchange) -> None:
        outgoing = exchange.stream(200, [])
        for _ in range(9):
            outgoing.send(bytes(HELD_BYTES_MAX // 2))
        happened.append("written")
        assert 0 < connection.unsent() <= HELD_BYTES_MAX
        outgoing.send(b"the last")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert connection.unsent() == 0

    connection, sent = connected(ServingState(door, errors.respond, 10), happened)
    connection.data_received(GET)
    await asyncio.sleep(0.01)
    assert happened.index("written") == happened.count("sent") - 1
    assert sent.raw.endswith(b"the last\r\n")


@scene
async def test_a_client_that_half_closes_with_its_request_is_answered() -> None:
    async with world() as here:
        for asked in (GET, POST):
            client = await here.client()
            client.writer.write(asked)
            client.writer.write_eof()
            assert (await client.answer(asked.split()[0].decode())).status == 200
            assert await client.rest() == b""
