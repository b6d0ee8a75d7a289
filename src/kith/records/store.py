"""The port behind posts, comments and profiles: what every engine that keeps records must do.

Implemented by `engines/embedded` (LMDB) and held to `tests/reference_records.py` by the conformance suite.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import msgspec

from kith.core.clock import Hlc
from kith.core.tokens import WriteMark
from kith.graph.edge import REFUSED, EdgeChange, EdgeWrite, Outcome


class RecordKind(enum.IntEnum):
    """What a record is. Part of its key, because ids of users come from the app and may equal others."""

    USER = 1
    POST = 2
    COMMENT = 3
    MEDIA = 4
    USERNAME = 5  # its id is a hash of the name, see `usernames`
    POST_LABELS, USER_LABELS = 6, 7  # why it is labelled, see `labels`
    STORY = 8


class Record(msgspec.Struct, frozen=True, gc=False):
    """One object as stored. A deleted object is a record that says so; only what has had its time is taken out."""

    kind: RecordKind
    id: int
    updated_at: Hlc
    data: bytes


class AtVersion(NamedTuple):
    """A condition: the stored record has this version; 0 stands for no record at all."""

    kind: RecordKind
    id: int
    version: int


class Claim(NamedTuple):
    """A key that stands for one write, so that a repetition is noticed. `key` has 16 bytes."""

    key: bytes
    value: bytes
    now_ms: int
    keep_ms: int


class Put(NamedTuple):
    """The answer to a `put`.

    `stored`: whether all conditions held; if not, nothing was written. `claimed`: the value of an earlier claim of the
    same key, which is one way not to hold; a first edge that is REFUSED is another. `mark` stands for the state after
    the call, so that whoever carries it sees the write, or what was in its way.
    """

    stored: bool
    changes: list[EdgeChange]
    mark: WriteMark
    claimed: bytes | None = None

    @property
    def refusal(self) -> Outcome | None:
        """What became of the first edge, where it was REFUSED."""
        outcome = self.changes[0].outcome if self.changes else None
        return outcome if outcome in REFUSED else None


class RecordStore(Protocol):
    """Records by kind and id.

    Order: of two versions of a record the newer remains (`newer`), whichever came first. Atomicity: one `put`
    with its conditions, claim, records and edges is one transaction where `transactional` is true. Where it
    is false, the claim is taken first, then the records are written, each at once with the conditions on it,
    then the edges: an edge is what makes an object be found, so none is found half written, and whoever
    repeats the call finishes it; where the first edge is refused the records are there, for the caller to
    empty. `get_many` is always current. Durability and errors as in `EdgeStore`.
    """

    transactional: bool

    async def put(
        self,
        records: Sequence[Record],
        edges: Sequence[EdgeWrite] = (),
        *,
        only_if: Sequence[AtVersion] = (),
        claim: Claim | None = None,
    ) -> Put:
        """Write all, or nothing where a condition does not hold, the claim is taken and not yet over, or the first edge
        is REFUSED.
        """
        ...

    async def get_many(self, kind: RecordKind, ids: Sequence[int]) -> list[Record | None]:
        """One answer an id, in their order; None where there never was a record."""
        ...

    async def claimed(self, claim: Claim) -> bytes | None:
        """The value of an earlier claim of the same key that is not over; None if there is none."""
        ...

    async def forget(self, kind: RecordKind, ids: Sequence[int]) -> None:
        """Take records out for good. Only for those whose id alone says that their time is over: an older version
        that came late would be stored again.
        """
        ...


def newer(stored: Record | None, incoming: Record) -> Record:
    """The record that remains of two versions; of equal ones the greater data, so that order never matters."""
    if stored is None or (incoming.updated_at, incoming.data) > (stored.updated_at, stored.data):
        return incoming
    return stored
