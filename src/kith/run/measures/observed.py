"""Wraps a port to time its calls and count failures. `/metrics` shows both, by port and method.

All calls are timed except reads of an `immediate` port: timing a read of the embedded engine costs about as much as the
read itself, and a request's latency includes it anyway.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from typing import Any, Protocol, TypeVar, cast

from kith.core.errors import KithError

T = TypeVar("T")
_WRITES = frozenset(
    {
        "apply",
        "forget",
        "change_node",
        "put_note",
        "put",
        "put_many",
        "deliver",
        "end_delivery",
        "withhold",
        "reset",
    }
)
"""Methods that wait for the disk even on an `immediate` port."""


class CallObserver(Protocol):
    """Receives the calls of ports, named "port method"."""

    def called(self, call: str, seconds: float) -> None:
        """A call ended, successfully or not."""
        ...

    def call_failed(self, call: str, code: str) -> None:
        """A call failed with the error of this code; `UNEXPECTED` for an error that no port promises."""
        ...


def observed(port: T, name: str, observer: CallObserver) -> T:
    """The port, wrapped so that the observer receives its calls under `name`."""
    return cast(T, _Observed(port, name, observer))


class _Observed:
    """Forwards everything to the port. A looked-up method is cached as an attribute, so untimed calls cost nothing."""

    def __init__(self, port: object, name: str, observer: CallObserver) -> None:
        self._port, self._name, self._observer = port, name, observer
        self._reads_wait = not getattr(port, "immediate", False)

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._port, name)
        if inspect.iscoroutinefunction(attribute) and (self._reads_wait or name in _WRITES):
            attribute = _timed(attribute, f"{self._name} {name}", self._observer)
        self.__dict__[name] = attribute
        return attribute


def _timed(method: Callable[..., Any], call: str, observer: CallObserver) -> Callable[..., Any]:
    async def timed(*arguments: Any, **keywords: Any) -> Any:
        started = time.perf_counter()
        try:
            return await method(*arguments, **keywords)
        except KithError as error:
            observer.call_failed(call, error.code)
            raise
        except Exception:
            observer.call_failed(call, "UNEXPECTED")
            raise
        finally:
            observer.called(call, time.perf_counter() - started)

    return timed
