"""The cast of the tests: Alice, Bob, Carol, and Dana with a million followers. And a fake clock."""

from __future__ import annotations

from typing import NamedTuple

from kith.core.ids import ID_MAX, NodeId

ALICE, BOB, CAROL = NodeId(1), NodeId(2), NodeId(3)
DANA = NodeId(ID_MAX)
"""The greatest valid id."""
START_MS = 1_700_000_000_000
SECRET = b"a secret only for tests, 32 bytes"


class FakeClock:
    """A wall clock in ms that stands still until a test sets `ms`."""

    def __init__(self, ms: int = START_MS) -> None:
        self.ms = ms

    def __call__(self) -> int:
        return self.ms


class People(NamedTuple):
    """The cast of a test that shares its server with other tests. No two tests share ids; Dana's are the greatest."""

    alice: int
    bob: int
    carol: int
    dana: int

    def crowd(self, size: int) -> list[int]:
        """Ids of further users of this test."""
        return list(range(self.alice + 100, self.alice + 100 + size))


def people_of(test: int) -> People:
    """The people of the test with this number, from 0. Ids up to 100,000 stay free for tests that use fixed ids."""
    first = 1 + (test + 1) * 100_000
    return People(first, first + 1, first + 2, ID_MAX - test)
