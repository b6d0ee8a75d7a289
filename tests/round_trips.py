"""Counts the sequential store calls that a request waits for: its round trips, if the engine is across a network.

Each call of a port takes one tick of a virtual clock, so concurrent calls take one tick together. A synchronous method
of a port counts as a call too, because on another engine it may wait. Real work, such as a commit in its thread, takes
no tick.
"""

from __future__ import annotations

import asyncio
import inspect
import selectors
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sized
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple, TypeVar
from unittest.mock import patch

T = TypeVar("T")
_TICK_S = 1e-6  # far shorter than the deadline of any request
_UNCOUNTED = {"close", "bell", "covers", "joined"}
"""Methods that call no engine."""


class Call(NamedTuple):
    """A call of a port: its name, and the length of its longest argument (0 if none has a length)."""

    name: str
    size: int


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop with a virtual clock. It moves only while all tasks wait for it and no real call is in progress."""

    def __init__(self) -> None:
        super().__init__(selectors.DefaultSelector())
        self._now_s, self.real_calls = 0.0, 0

    def time(self) -> float:
        return self._now_s

    def _run_once(self) -> None:
        if not self._ready and self._scheduled and not self.real_calls:  # type: ignore[attr-defined]
            self._now_s = max(self._now_s, self._scheduled[0]._when)  # type: ignore[attr-defined]
        super()._run_once()  # type: ignore[misc]


class RoundTripCounter:
    """Counts the calls of the ports that it wraps.

    `transactional`: false makes stores say that they have no transactions, as distributed engines do. Services then
    make more calls.
    """

    def __init__(self, loop: VirtualTimeLoop, *, transactional: bool = True) -> None:
        self._loop, self._plain, self.transactional = loop, 0, transactional
        self.calls: list[Call] = []

    def wrap(self, port: T, name: str) -> T:
        """Wrap a port, so that each of its calls takes a tick."""
        return CountedPort(port, name, self)  # type: ignore[return-value]

    async def measure(self, request: Coroutine[Any, Any, T]) -> tuple[T, int, list[Call]]:
        """The result of a request, how many sequential calls it waited for, and all of its calls."""
        self.calls, self._plain, began_s = [], 0, self._loop.time()
        answer = await request
        return answer, round((self._loop.time() - began_s) / _TICK_S) + self._plain, self.calls

    def record(self, name: str, arguments: tuple[object, ...], *, plain: bool) -> None:
        """Record a call. `plain`: it is synchronous, so no other call can run beside it."""
        self.calls.append(Call(name, max((len(one) for one in arguments if isinstance(one, Sized)), default=0)))
        self._plain += plain

    @contextmanager
    def clock_stopped(self) -> Iterator[None]:
        """Stop the clock while the engine works."""
        self._loop.real_calls += 1
        try:
            yield
        finally:
            self._loop.real_calls -= 1


class CountedPort:
    """A port; each of its calls takes a tick."""

    def __init__(self, port: object, name: str, counter: RoundTripCounter) -> None:
        self._port, self._name, self._counter = port, name, counter

    def __enter__(self) -> CountedPort:
        return self

    def __exit__(self, *_: object) -> None:
        self._port.close()  # type: ignore[attr-defined]

    def __getattr__(self, name: str) -> Any:
        if name == "immediate":
            return False
        if name == "transactional":
            return self._counter.transactional and self._port.transactional  # type: ignore[attr-defined]
        found = getattr(self._port, name)
        if name in _UNCOUNTED or name.startswith("_") or not callable(found):
            return found
        call = f"{self._name}.{name}"
        if inspect.iscoroutinefunction(found):
            return self._slow(found, call)
        return self._chunks(found, call) if inspect.isasyncgenfunction(found) else self._plain(found, call)

    def _slow(self, found: Callable[..., Any], call: str) -> Callable[..., Any]:
        async def slow(*arguments: Any, **named: Any) -> Any:
            self._counter.record(call, (*arguments, *named.values()), plain=False)
            await asyncio.sleep(_TICK_S)
            with self._counter.clock_stopped():
                return await found(*arguments, **named)

        return slow

    def _chunks(self, found: Callable[..., Any], call: str) -> Callable[..., Any]:
        async def chunks(*arguments: Any, **named: Any) -> AsyncIterator[Any]:
            async for chunk in found(*arguments, **named):
                self._counter.record(call, arguments, plain=False)
                await asyncio.sleep(_TICK_S)
                yield chunk

        return chunks

    def _plain(self, found: Callable[..., Any], call: str) -> Callable[..., Any]:
        def plain(*arguments: Any, **named: Any) -> Any:
            self._counter.record(call, (*arguments, *named.values()), plain=True)
            return found(*arguments, **named)

        return plain


PORTS = {
    "kith.run.opening.one_machine.EmbeddedEdges": "edges",
    "kith.run.opening.one_machine.EmbeddedLog": "log",
    "kith.run.opening.one_machine.FileLeases": "leases",
    "kith.run.opening.one_machine.EmbeddedSuggestions": "suggestions",
    "kith.run.opening.one_machine.EmbeddedRecords": "records",
    "kith.run.opening.timelines.RingReader": "timelines",
    "kith.run.opening.timelines.RingTimelines": "timelines",
    "kith.run.opening.one_machine.EmbeddedFanoutState": "fanout",
    "kith.run.opening.quotas.FileQuotas": "quotas",
}
"""The classes that the API opens as ports, by path, and the prefix of their calls' names."""


@contextmanager
def counted_ports(counter: RoundTripCounter) -> Iterator[None]:
    """Wrap each of PORTS that is opened within this context."""
    with ExitStack() as stack:
        for path, name in PORTS.items():
            module, _, attribute = path.rpartition(".")
            original = getattr(__import__(module, fromlist=[attribute]), attribute)

            def opened(*arguments: Any, _of: Any = original, _name: str = name, **named: Any) -> Any:
                return counter.wrap(_of(*arguments, **named), _name)

            stack.enter_context(patch(path, opened))
        yield
