"""Measurements of the calls of a port."""

from __future__ import annotations

import pytest
from coroutines import Run

from kith.core.errors import StoreUnavailable
from kith.run.measures.observed import observed


class Heard:
    """An observer that records its notifications."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.errors: list[str] = []

    def called(self, call: str, seconds: float) -> None:
        assert seconds >= 0
        self.calls.append(call)

    def call_failed(self, call: str, code: str) -> None:
        self.errors.append(f"{call} {code}")


class Port:
    """A store of one value."""

    def __init__(self, *, immediate: bool) -> None:
        self.immediate, self.value, self.closed = immediate, 0, False

    async def get(self) -> int:
        return self.value

    async def put(self, value: int, *, fails: Exception | None = None) -> None:
        if fails is not None:
            raise fails
        self.value = value

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize(("immediate", "told"), [(True, ["box put"]), (False, ["box put", "box get"])])
def test_calls_that_wait_are_measured_and_answer_as_before(run: Run, immediate: bool, told: list[str]) -> None:
    port, heard = Port(immediate=immediate), Heard()
    box = observed(port, "box", heard)
    run(box.put(3))
    assert run(box.get()) == 3
    box.close()
    assert port.closed
    assert (box.immediate, heard.calls, heard.errors) == (immediate, told, [])


def test_an_immediate_read_is_the_ports_own_method() -> None:
    port = Port(immediate=True)
    box = observed(port, "box", Heard())
    assert box.get == port.get
    assert "get" in vars(box), "the next call finds it without `__getattr__`"


def test_a_failed_call_is_counted_by_its_code_and_raises_its_own_error(run: Run) -> None:
    heard = Heard()
    box = observed(Port(immediate=True), "box", heard)
    for error in (StoreUnavailable("the store is away"), ZeroDivisionError()):
        with pytest.raises(type(error)) as raised:
            run(box.put(1, fails=error))
        assert raised.value is error
    assert heard.errors == [f"box put {StoreUnavailable.code}", "box put UNEXPECTED"]
    assert heard.calls == ["box put", "box put"]
