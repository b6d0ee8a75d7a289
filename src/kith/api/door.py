"""The door: handles every request, from `kith.http` to a resource's method and back.

The order: find the operation, admit the caller, read the parameters, call the handler, encode the answer, count it.
docs/decisions/0002-one-door.md compares it with frameworks.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

import msgspec

from kith.access.guard import Caller, Guard
from kith.access.policy import check_server
from kith.access.quotas import Quotas
from kith.api.answers import FileAnswer, RawAnswer
from kith.api.call import Call, ClientTokens
from kith.api.consistency import TOKEN_HEADER
from kith.api.errors import respond, unexpected
from kith.api.operations import Operation
from kith.api.routing import Routes
from kith.core.deadline import Deadline
from kith.core.errors import KithError, TimedOut
from kith.core.tokens import NO_MARK
from kith.http.exchange import JSON, Exchange

Observe = Callable[[str, float, int], None]
"""Called for each answer with the operation's name, `time.perf_counter()` at its start, and the status."""
_NOBODY = Caller(False, None, "")
_encode = msgspec.json.Encoder().encode


class RequestLimits(msgspec.Struct, frozen=True):
    """The limits of one request."""

    body_bytes_max: int
    timeout_s: float
    upload_bytes_max: int
    upload_timeout_s: float


class Door:
    """Answers requests by the table of operations."""

    def __init__(
        self,
        operations: Iterable[Operation],
        guard: Guard,
        quotas: Quotas,
        client_tokens: ClientTokens,
        bounds: RequestLimits,
        observe: Observe,
        refusal: Callable[[], KithError] | None = None,
    ) -> None:
        """`refusal` makes the error that refuses every write, if this process serves a store that accepts none."""
        self._routes = Routes(operations)
        self._guard, self._quotas, self._client_tokens = guard, quotas, client_tokens
        self._bounds, self._observe, self._refusal = bounds, observe, refusal
        self._deadline, self._upload_deadline = Deadline(bounds.timeout_s), Deadline(bounds.upload_timeout_s)

    async def __call__(self, exchange: Exchange) -> None:
        """Answer one request and count it."""
        started, name = time.perf_counter(), "unmatched"
        call: Call | None = None
        try:
            method = exchange.method
            if method == "OPTIONS":
                status = self._options(exchange)
            else:
                operation, parts = self._routes.find(method, exchange.path)
                name = operation.name
                caller, client_mark = self._admit(exchange, operation), NO_MARK
                if caller is not _NOBODY and (token := exchange.headers.single(TOKEN_HEADER)) is not None:
                    client_mark = await self._deadline.within(self._client_tokens.consistency.catch_up(token))
                call = Call(exchange, caller, self._client_tokens, client_mark, started, self._bounds.upload_bytes_max)
                positional, keywords = operation.arguments(parts, exchange)
                if operation.plain:
                    answer = await self._deadline.within(operation.handler(call, *positional, **keywords))
                elif operation.spec.streams:
                    await operation.handler(call, *positional, **keywords)
                    return  # the handler counted it when the stream began
                else:
                    answer = await self._run(operation, call, positional, keywords)
                if type(answer) is FileAnswer:
                    status = await _send_file(exchange, answer)
                else:
                    status = self._send(operation, call, answer)
        except KithError as error:
            status = _refuse(exchange, error, call)
        except TimeoutError:
            status = _refuse(exchange, TimedOut("this took longer than `request_timeout_ms`; try again"), call)
        except Exception as error:
            status = _refuse(exchange, unexpected(error, name), call)
        self._observe(name, started if call is None else call.started, status)

    async def _run(self, operation: Operation, call: Call, positional: list[Any], keywords: dict[str, Any]) -> object:
        """Run a handler that has a body or a quota, and return its answer. A request that fails without having written
        anything gets its quota back.
        """
        spec, charge = operation.spec, None
        try:
            if spec.quota is not None and not (spec.write or self._quotas.immediate):
                return await self._read_beside_quota(operation, call, positional, keywords)
            if spec.quota is not None:
                charge = await self._deadline.within(self._quotas.take(call.caller, spec.quota))
            return await self._work(operation, call, positional, keywords)
        except BaseException as error:
            if charge is not None and not call.has_written:
                await self._quotas.refund(charge, error)
            if spec.upload and isinstance(error, TimeoutError):
                raise TimedOut("this took longer than `upload_timeout_ms`; send less, or try again") from None
            raise

    async def _read_beside_quota(
        self, operation: Operation, call: Call, positional: list[Any], keywords: dict[str, Any]
    ) -> object:
        """Run a read while its quota is checked; the read is cancelled if the quota refuses it."""
        assert operation.spec.quota is not None  # noqa: S101 - see `_run`
        reading = asyncio.ensure_future(self._work(operation, call, positional, keywords))
        try:
            charge = await self._deadline.within(self._quotas.take(call.caller, operation.spec.quota))
        except BaseException:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            raise
        try:
            return await reading
        except BaseException as error:
            if charge is not None:
                await self._quotas.refund(charge, error)
            raise

    def _work(
        self, operation: Operation, call: Call, positional: list[Any], keywords: dict[str, Any]
    ) -> Coroutine[Any, Any, object]:
        """The handler's work, limited by its deadline."""
        if operation.decoder is not None:
            return self._deadline.within(self._with_body(operation, call, positional, keywords))
        deadline = self._upload_deadline if operation.spec.upload else self._deadline
        return deadline.within(operation.handler(call, *positional, **keywords))

    async def _with_body(
        self, operation: Operation, call: Call, positional: list[Any], keywords: dict[str, Any]
    ) -> object:
        raw = await call.exchange.body(self._bounds.body_bytes_max)
        return await operation.handler(call, *positional, body=operation.decode(raw), **keywords)

    def _options(self, exchange: Exchange) -> int:
        exchange.respond(204, [("allow", ", ".join(self._routes.methods(exchange.path)))], b"")
        return 204

    def _admit(self, exchange: Exchange, operation: Operation) -> Caller:
        """The caller, counted against the rate limit, if they may call the operation; `_NOBODY` for public
        operations.
        """
        if operation.spec.callers == "anyone":
            return _NOBODY
        headers, spec = exchange.headers, operation.spec
        caller = self._guard.caller(headers.single("authorization"), headers.single("x-kith-user"))
        self._guard.admit(caller, write=spec.write)
        if spec.write and self._refusal is not None:
            raise self._refusal()
        if spec.callers == "acting":
            caller.acting_user()
        elif spec.callers == "server":
            check_server(caller)
        return caller

    def _send(self, operation: Operation, call: Call, answer: object) -> int:
        exchange, status = call.exchange, operation.spec.status
        match answer:
            case None:
                exchange.respond(status, call.headers, b"")
            case bytes():
                exchange.respond(status, [*JSON, *call.headers] if call.headers else JSON, answer)
            case RawAnswer():
                status = answer.status
                exchange.respond(status, [*answer.headers, *call.headers], answer.body)
            case _:
                exchange.respond(status, [*JSON, *call.headers] if call.headers else JSON, _encode(answer))
        return status


async def _send_file(exchange: Exchange, answer: FileAnswer) -> int:
    try:
        await exchange.respond_file(answer.status, answer.headers, answer.path, answer.start, answer.end)
    except FileNotFoundError:  # nothing is sent yet
        raise answer.missing from None
    return answer.status


def _refuse(exchange: Exchange, error: KithError, call: Call | None) -> int:
    """Answer with an error, and with the token of anything written before it. Returns the status."""
    status, headers, body = respond(error)
    exchange.respond(status, headers if call is None else [*headers, *call.headers], body)
    return status
