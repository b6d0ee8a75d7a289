"""A fake service with preset answers, for tests of the Python client. Helpers call sync and async clients alike."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable
from typing import Any

import httpx

from kith.client import AsyncKith, Kith

Client = Kith | AsyncKith
Connect = Callable[..., Client]
"""Makes a client of a Service."""
ContractRow = tuple[str, tuple[Any, ...], str, str, Any, Any, Any]
"""Method and arguments; verb, path and body of the request that it must send; an answer, and the result for it."""


class Service:
    """Answers requests with `answers` in order (None: 204), and records the requests."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        answer = self.answers.pop(0)
        if answer is None:
            return httpx.Response(204)
        return answer if isinstance(answer, httpx.Response) else httpx.Response(200, json=answer)

    def bodies(self) -> list[Any]:
        return [json.loads(request.content) for request in self.asked]

    def headers(self, name: str) -> list[str | None]:
        return [request.headers.get(name) for request in self.asked]


def ask(client: Client, method: str, *args: Any, **kwargs: Any) -> Any:
    """The result of a method. If it iterates: the list of its items."""

    async def collected(items: Any) -> list[Any]:
        return [item async for item in items]

    result = getattr(client, method)(*args, **kwargs)
    if inspect.isawaitable(result):
        return asyncio.run(result)
    if inspect.isasyncgen(result):
        return asyncio.run(collected(result))
    return list(result) if inspect.isgenerator(result) else result


def name_of(row: ContractRow) -> str:
    """The name of a row in the names of tests."""
    return row[0]


def check_row(connect: Connect, row: ContractRow) -> None:
    """Check that a method sends the request of the row, and returns its result for the answer."""
    method, args, verb, path, body, answer, result = row
    service = Service(answer)
    assert ask(connect(service), method, *args) == result
    (asked,) = service.asked
    assert (asked.method, asked.url.raw_path.decode()) == (verb, f"/api/v1{path}")
    assert (json.loads(asked.content) if asked.content else None) == body
    assert asked.headers["Authorization"] == "Bearer a-key"


def page(*ids: int, next_cursor: str | None = None) -> dict[str, Any]:
    """A page of a list as the service answers it. Each position is ten times the id."""
    items = [{"id": str(id_), "position": str(10 * id_)} for id_ in ids]
    pagination = {"nextCursor": next_cursor, "prevCursor": None, "hasMore": next_cursor is not None}
    return {"items": items, "pagination": pagination}
