"""The port behind posts, comments, profiles and media: what every engine that keeps records must do.

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
    """What a record is. Part of its key, because ids of users come from the app and may equal other ids."""

    USER = 1
    POST = 2
    COMMENT = 3
    MEDIA = 4
    USERNAME = 5  # its id is a hash of the name; see `people.usernames`
    POST_LABELS, USER_LABELS = 6, 7  # why it is labelled; see `posts.labels`
    STORY = 8
    NOTICE, NOTICE_MARKS, NOTICE_PREFERENCES = 9, 10, 11  # the ids of the last two are users; see `notifications`
    RECENT_MENTIONS = 12  # its ids are those of shards
    BOARD = 13
    DEVICES, DEVICE_HOLDER = 14, 15  # ids: of the user; a hash of the endpoint. See `notifications.push`
    MENTION_OUTCOME = 16  # its id is that of the notice; see `notifications.outcomes`
    MENTION_RING = 17  # its id is that of the notice; see `notifications.rings`


class Record(msgspec.Struct, frozen=True, gc=False):
    """One record. Deleting a post, say, leaves a record that says so; only those that are expired, or nobody's, are
    taken out (`forget`).
    """

    kind: RecordKind
    id: int
    updated_at: Hlc
    data: bytes


class AtVersion(NamedTuple):
    """A condition: the stored record has this version; 0 means that there is no record."""

    kind: RecordKind
    id: int
    version: int


class Claim(NamedTuple):
    """A key that stands for one write, so that a repetition is noticed. `key` has 16 bytes. Kept for `keep_ms`."""

    key: bytes
    value: bytes
    now_ms: int
    keep_ms: int


class Write(NamedTuple):
    """What one `put` of several writes."""

    records: Sequence[Record]
    claim: Claim | None = None


class Put(NamedTuple):
    """The answer to a `put`.

    `stored`: whether it was written; if not, nothing was. There are three reasons not to: a condition does not hold;
    the key was claimed before, and then `claimed` is the value of that claim; or the first edge is REFUSED. `mark`: the
    state after the call; a reader that carries it sees the write, or what prevented it.
    """

    stored: bool
    changes: list[EdgeChange]
    mark: WriteMark
    claimed: bytes | None = None

    @property
    def refusal(self) -> Outcome | None:
        """The outcome of the first edge, if it was REFUSED."""
        outcome = self.changes[0].outcome if self.changes else None
        return outcome if outcome in REFUSED else None


class RecordStore(Protocol):
    """Records by kind and id.

    Order: of two versions of a record the newer remains (`newer`), whichever came first. Atomicity: where
    `transactional` is true, a `put` with its conditions, claim, records and edges is one transaction. Where it is
    false, each row is atomic by itself, and a `put` takes these steps, of which the first that fails is the last:

    1. Look at the conditions on records that it does not write.
    2. Insert the claim, if there is none of this key that has not expired.
    3. Write each record, in order: only if its row has the version of the condition on it, where there is one.
    4. Merge the edges, in order.

    Where 3 fails at the first record, or the first edge of 4 is REFUSED, the claim is deleted again if it is still the
    one that was inserted. Records that were written stay: so callers put first what may stay, and empty the records of
    a refused edge. A call that ends between two steps is repeated with the same records, which finishes it. Records are
    found through their edges, so nothing is found half written. `get_many` and `versions` are always current.
    Durability and errors as in `EdgeStore`. docs/decisions/0018-records-without-transactions.md says how each promise
    is kept with this.
    """

    transactional: bool
    immediate: bool  # as in `EdgeStore`

    async def put(
        self,
        records: Sequence[Record],
        edges: Sequence[EdgeWrite] = (),
        *,
        only_if: Sequence[AtVersion] = (),
        claim: Claim | None = None,
    ) -> Put:
        """Write all, or nothing: if a condition fails, the key was claimed before, or the first edge is REFUSED."""
        ...

    async def put_many(self, writes: Sequence[Write]) -> list[Put]:
        """Each `put` by itself, in any order, and so are its records. After an error some may be written."""
        ...

    async def get_many(self, kind: RecordKind, ids: Sequence[int]) -> list[Record | None]:
        """The record of each id, in their order; None where there never was one."""
        ...

    async def versions(self, kind: RecordKind, ids: Sequence[int]) -> list[int]:
        """The version of each record, in their order; 0 where there never was one."""
        ...

    async def newest(self, kind: RecordKind, below: int, limit: int) -> list[int]:
        """The greatest ids of a kind, each less than `below`, descending; none on an engine that has no order."""
        ...

    async def claimed(self, claims: Sequence[Claim]) -> list[bytes | None]:
        """For each, the value of an earlier claim of the same key that has not expired; None if there is none."""
        ...

    async def forget(self, kind: RecordKind, ids: Sequence[int], versions: Sequence[int] | None = None) -> None:
        """Delete records for good; with `versions`, those of them that still have this version. Only where the id alone
        says that the record has expired, or it does no harm, because a late, older version would be stored again.
        """
        ...

    async def forget_below(self, kind: RecordKind, below: int, limit: int) -> int:
        """Delete for good up to `limit` records of a kind, those with the least ids, all less than `below`; how many.

        As `forget`. The log notes what one call deletes in a few bytes.
        """
        ...


def newer(stored: Record | None, incoming: Record) -> Record:
    """The record that remains of two versions: the greater version, then the greater data, so order never matters."""
    if stored is None or (incoming.updated_at, incoming.data) > (stored.updated_at, stored.data):
        return incoming
    return stored
