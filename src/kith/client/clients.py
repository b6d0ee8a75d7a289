"""The two clients: `Kith` (blocking) and `AsyncKith` (asyncio). Only the I/O is here; `routes` has the methods.

One client has one pool of connections; `as_user` makes views that share it. Threads may share a `Kith`. They then
share its token too, so each sees the others' writes.
"""

from __future__ import annotations

import asyncio
import copy
import random as _random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx

from kith.client.answers import Id, Page
from kith.client.connections import LIMITS, AsyncConnections, Connections
from kith.client.reconnecting import Lines, check_kind
from kith.client.routes import Awaiting, Blocking, Routes
from kith.client.streams import FeedEvent, FeedStream, Stream
from kith.client.watching import Change, WatchStream
from kith.client.wire import SYSTEM, Acting, Call, CallPlan, Outcome, Request, Retry, Session, Step, Wait, next_call
from kith.core.ids import parse_id
from kith.core.trust import tls_verify

TIMEOUT_S = 5.0
UPLOAD_ANSWER_S = 130.0
"""Time to wait for the answer to an upload. The service decodes the file first and gives up after 120 s."""
_RETRY = Retry()

T = TypeVar("T")


class _Client(Routes):
    """The common part of both clients: the acting user, the token, and views."""

    _session: Session
    _is_view = False

    @property
    def token(self) -> str | None:
        """The newest read-your-writes token that the service returned. It is sent with every call.

        Set it to continue from a token of another client or process.
        """
        return self._session.token

    @token.setter
    def token(self, token: str | None) -> None:
        self._session.token = None if token is None else _header_value(token, "token")

    def as_user(self, user: Id, *, token: str | None = None) -> Self:
        """A view of this client that acts for `user`. It shares the connections and has a token of its own.

        `token`: the token to start with; by default the client's current one. A view costs nothing to make. Closing it
        closes nothing.
        """
        return self._view(parse_id(user, "user"), token)

    def as_system(self, *, token: str | None = None) -> Self:
        """A view of this client that acts for the app's back office, which sees everything. `token` as in `as_user`.

        A server key without `as_user` or `as_system` sees only what a visitor may see.
        """
        return self._view(SYSTEM, token)

    def __repr__(self) -> str:
        user = "" if self._session.user is None else f", user={self._session.user}"
        return f"{type(self).__name__}({self._session.url!r}{user})"

    def _view(self, acting: Acting, token: str | None) -> Self:
        view = copy.copy(self)
        view._session = self._session.as_user(acting, None)
        view._is_view = True
        if token is not None:
            view.token = token
        return view

    def _open(self, url: str, user: Id | None, token: str | None, retry: Retry, random: Callable[[], float]) -> None:
        acting = None if user is None else parse_id(user, "user")
        self._session = Session(_checked_url(url), acting, None, retry, random)
        self.token = token


class Kith(_Client, Blocking):
    """A client of one Kith service.

    with Kith("http://127.0.0.1:8000", key="...") as kith:
        kith.as_user(1).follow(2)

    `key`: a server key or a user's token. `user`: the user that a server key acts for; without one it sees only what a
    visitor may see (but see `as_system`). `timeout_s` bounds each connect, read, write and wait for a free connection,
    in every try. `transport`, `sleep` and `random` are for tests and special networks.

    Errors: ApiError and Unreachable from calls (see `errors`); ValueError for bad arguments here.
    """

    def __init__(
        self,
        url: str,
        key: str,
        *,
        user: Id | None = None,
        token: str | None = None,
        timeout_s: float = TIMEOUT_S,
        retry: Retry = _RETRY,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
        random: Callable[[], float] = _random.random,
    ) -> None:
        self._open(url, user, token, retry, random)
        self._sleep, self._timeout_s = sleep, timeout_s
        self._connections = Connections(timeout_s)
        self._http = httpx.Client(
            base_url=self._session.url, headers=_bearer(key), timeout=timeout_s, transport=transport, limits=LIMITS,
            trust_env=_may_need_proxy(self._session.url), verify=tls_verify(self._session.url),
        )  # fmt: skip

    def close(self) -> None:
        """Close the connections. On a view this does nothing."""
        if not self._is_view:
            self._connections.shut_down()
            self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self, plan: CallPlan[T]) -> T:
        steps = self._session.steps(plan)
        outcome: Outcome = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as stop:
                answer: T = stop.value
                return answer
            outcome = self._perform(step)

    def _perform(self, step: Step) -> Outcome:
        if isinstance(step, Wait):
            self._sleep(step.seconds)
            return None
        try:
            with self._connections.one(), _body(step, self._timeout_s) as body:
                return self._http.request(step.method, step.path, params=step.params, headers=step.headers, **body)
        except httpx.RequestError as error:
            return error

    def _walk(self, call: Call[Page[T]]) -> Iterator[T]:
        following: Call[Page[T]] | None = call
        while following is not None:  # terminates: `next_call` raises if a page does not advance the cursor
            page = self._run(following)
            yield from page.items
            following = next_call(following, page)

    def feed_stream(self, *, posts: Iterable[Id] | None = None, after: str | None = None) -> Iterator[FeedEvent]:
        """Iterate over changes of the acting user's feed as they happen, until the client is closed.

        After a lost connection the stream reconnects and resumes. `posts`: the posts on the screen; the stream reports
        their new numbers and their removal. `after`: the `event_id` of an earlier event, to resume after it. Errors:
        ApiError, Unreachable.
        """
        stream: Stream[FeedEvent] = FeedStream(self._session, posts, after)
        yield from self._follow(stream)

    def watch(
        self,
        *,
        kinds: Iterable[str] | None = None,
        graphs: Iterable[str] | None = None,
        nodes: Iterable[Id] | None = None,
        after: str | None = None,
    ) -> Iterator[Change]:
        """Iterate over every change, in order, each once, until the client is closed.

        With a user token: the user's own edges, and what the users in `nodes` make, as far as the user may see it.
        `kinds`, `graphs`, `nodes`: only changes of these; `graphs` without `kinds`: only edges. `after`: the `token` of
        an earlier change, to resume after it; store the last one. Errors: ApiError (TOKEN_TOO_OLD: the log no longer
        reaches back so far; export, then watch from the token of the export), Unreachable.
        """
        yield from self._follow(WatchStream(self._session, kinds, graphs, nodes, after))

    def _follow(self, stream: Stream[T]) -> Iterator[T]:
        while True:
            outcome: httpx.Response | httpx.RequestError | None = None
            method, path, params, headers, *_ = stream.request()
            timeout = stream.timeout(self._timeout_s)
            try:
                with (
                    self._connections.one(),
                    self._http.stream(method, path, params=params, headers=headers, timeout=timeout) as response,
                ):
                    if response.is_success:
                        check_kind(response, stream.kind)
                        lines = Lines()
                        with self._connections.ended_by_close(response):
                            for chunk in response.iter_bytes():
                                yield from filter(None, map(stream.read, lines.read(chunk)))
                    else:
                        response.read()
                        outcome = response
            except httpx.RequestError as error:
                outcome = error
            except RuntimeError:  # of httpx, if the client was closed while the stream waited for a connection
                if not self._connections.is_closed:
                    raise
            if not self._connections.is_closed:
                self._sleep(stream.pause_or_raise(outcome))
            if self._connections.is_closed:
                return


class AsyncKith(_Client, Awaiting):
    """`Kith` for asyncio: the same methods, awaited. Iterate over lists with `async for`.

    async with AsyncKith("http://127.0.0.1:8000", key="...") as kith:
        await kith.as_user(1).follow(2)

    The request of a cancelled call is finished in the background, unless it is an upload; its answer is dropped.
    """

    def __init__(
        self,
        url: str,
        key: str,
        *,
        user: Id | None = None,
        token: str | None = None,
        timeout_s: float = TIMEOUT_S,
        retry: Retry = _RETRY,
        transport: httpx.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        random: Callable[[], float] = _random.random,
    ) -> None:
        self._open(url, user, token, retry, random)
        self._sleep, self._timeout_s = sleep, timeout_s
        self._connections = AsyncConnections(timeout_s)
        self._http = httpx.AsyncClient(
            base_url=self._session.url, headers=_bearer(key), timeout=timeout_s, transport=transport, limits=LIMITS,
            trust_env=_may_need_proxy(self._session.url), verify=tls_verify(self._session.url),
        )  # fmt: skip

    async def aclose(self) -> None:
        """Close the connections. On a view this does nothing."""
        if not self._is_view:
            await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _run(self, plan: CallPlan[T]) -> T:
        steps = self._session.steps(plan)
        outcome: Outcome = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as stop:
                answer: T = stop.value
                return answer
            outcome = await self._perform(step)

    async def _perform(self, step: Step) -> Outcome:
        if isinstance(step, Wait):
            await self._sleep(step.seconds)
            return None
        try:
            if step.form is None:
                return await self._connections.finish(partial(self._send, step))
            async with self._connections.one():
                return await self._send(step)
        except httpx.RequestError as error:
            return error

    async def _send(self, step: Request) -> httpx.Response:
        with _body(step, self._timeout_s) as body:
            return await self._http.request(step.method, step.path, params=step.params, headers=step.headers, **body)

    async def _walk(self, call: Call[Page[T]]) -> AsyncGenerator[T, None]:
        following: Call[Page[T]] | None = call
        while following is not None:  # terminates: `next_call` raises if a page does not advance the cursor
            page = await self._run(following)
            for item in page.items:
                yield item
            following = next_call(following, page)

    async def feed_stream(
        self, *, posts: Iterable[Id] | None = None, after: str | None = None
    ) -> AsyncGenerator[FeedEvent, None]:
        """See `Kith.feed_stream`."""
        stream: Stream[FeedEvent] = FeedStream(self._session, posts, after)
        async for event in self._follow(stream):
            yield event

    async def watch(
        self,
        *,
        kinds: Iterable[str] | None = None,
        graphs: Iterable[str] | None = None,
        nodes: Iterable[Id] | None = None,
        after: str | None = None,
    ) -> AsyncGenerator[Change, None]:
        """See `Kith.watch`."""
        async for change in self._follow(WatchStream(self._session, kinds, graphs, nodes, after)):
            yield change

    async def _follow(self, stream: Stream[T]) -> AsyncGenerator[T, None]:
        while True:
            outcome: httpx.Response | httpx.RequestError | None = None
            method, path, params, headers, *_ = stream.request()
            timeout = stream.timeout(self._timeout_s)
            try:
                request = self._http.build_request(method, path, params=params, headers=headers, timeout=timeout)
                async with self._connections.stream(partial(self._http.send, request, stream=True)) as response:
                    if response.is_success:
                        check_kind(response, stream.kind)
                        lines = Lines()
                        async for chunk in response.aiter_bytes():
                            for event in filter(None, map(stream.read, lines.read(chunk))):
                                yield event
                    else:
                        await response.aread()
                        outcome = response
            except httpx.RequestError as error:
                outcome = error
            except RuntimeError:  # of httpx, if the client was closed while the stream waited for a connection
                if not self._http.is_closed:
                    raise
            if not self._http.is_closed:
                await self._sleep(stream.pause_or_raise(outcome))
            if self._http.is_closed:
                return


@contextmanager
def _body(request: Request, timeout_s: float) -> Iterator[dict[str, Any]]:
    """The body of a request, as arguments for httpx. A file is opened anew for each try, so each sends all of it."""
    if request.form is None:
        yield {"content": request.content}
        return
    file, fields = request.form
    timeout = httpx.Timeout(timeout_s, read=max(timeout_s, UPLOAD_ANSWER_S))
    if isinstance(file, bytes):
        yield {"files": {"file": ("file", file)}, "data": fields, "timeout": timeout}
        return
    with open(file, "rb") as opened:
        yield {"files": {"file": ("file", opened)}, "data": fields, "timeout": timeout}


def _checked_url(url: str) -> str:
    # The message does not quote the URL, because a wrong one may hold a password.
    try:
        parsed = httpx.URL(url)
        parsed.host.encode("idna")  # as the name lookup does; it fails for impossible names
    except (httpx.InvalidURL, UnicodeError):
        parsed = httpx.URL("")
    if parsed.scheme not in ("http", "https") or not parsed.host or parsed.userinfo or parsed.query:
        raise ValueError("url must be http(s)://host[:port][/prefix]; credentials go into `key`")
    return url.rstrip("/")


def _header_value(value: str, name: str) -> str:
    """`value` if a header can carry it; otherwise ValueError. An error of the HTTP library would quote the secret."""
    if not value or not value.isascii() or not value.isprintable() or " " in value:
        raise ValueError(f"{name} must be printable ASCII without spaces, and not empty")
    return value


def _may_need_proxy(url: str) -> bool:
    """Whether to use the proxy that the environment names, if any. This machine itself is reached directly."""
    return httpx.URL(url).host not in ("localhost", "127.0.0.1", "::1")


def _bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {_header_value(key, 'key')}"}
