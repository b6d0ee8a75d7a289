"""The port behind posts, comments, profiles and media: what an engine that stores records must provide.

Implemented by `engines/embedded` (LMDB). The conformance suite compares it with `tests/reference_records.py`.
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
    """The kind of a record. It is part of the key, because ids of users come from the app and may equal other ids."""

    USER = 1
    POST = 2
    COMMENT = 3
    MEDIA = 4
    USERNAME = 5  # its id is a hash of the name; see `people.usernames`
    POST_LABELS, USER_LABELS = 6, 7  # the labels and their reason; see `posts.labels`
    STORY = 8
    NOTICE, NOTICE_MARKS, NOTICE_PREFERENCES = 9, 10, 11  # the ids of the last two are users; see `notifications`
    RECENT_MENTIONS = 12  # its ids are those of shards
    BOARD = 13
    DEVICES, DEVICE_HOLDER = 14, 15  # ids: of the user; a hash of the endpoint. See `notifications.push`
    MENTION_OUTCOME = 16  # its id is that of the notice; see `notifications.outcomes`
    MENTION_RING = 17  # its id is that of the notice; see `notifications.rings`


class Record(msgspec.Struct, frozen=True, gc=False):
    """One record. Deleting something, such as a post, leaves a record that says so. Only expired and orphaned records
    are removed (`forget`).
    """

    kind: RecordKind
    id: int
    updated_at: Hlc
    data: bytes


class AtVersion(NamedTuple):
    """A condition: the stored record has this version. 0: there is no record."""

    kind: RecordKind
    id: int
    version: int


class Claim(NamedTuple):
    """A key that stands for one write, so that a repetition is detected. `key` has 16 bytes. Kept for `keep_ms`."""

    key: bytes
    value: bytes
    now_ms: int
    keep_ms: int


class Write(NamedTuple):
    """One `put` of a batch."""

    records: Sequence[Record]
    claim: Claim | None = None


class Put(NamedTuple):
    """The answer to a `put`.

    `stored`: whether it was written; if not, nothing was. It is not written if a condition fails; if the key was
    claimed before, and `claimed` is then the value of that claim; or if the first edge is REFUSED. `mark`: the state
    after the call; a reader that carries it sees the write, or what prevented it.
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

    Order: of two versions of a record the newer one stays (`newer`), whichever came first. Atomicity: where
    `transactional`, a `put` with its conditions, claim, records and edges is one transaction. Otherwise each row is
    atomic by itself, and a `put` takes these steps and stops at the first that fails:

    1. Check the conditions on records that it does not write.
    2. Insert the claim, unless an unexpired claim of this key exists.
    3. Write each record, in order. If there is a condition on a record, only if its row has that version.
    4. Merge the edges, in order.

    If step 3 fails at the first record, or step 4 REFUSES the first edge, the claim is deleted again, if it is still
    the one that was inserted. Written records stay; so callers put first what may stay, and empty the records of a
    refused edge. A call that stops between two steps is completed by repeating it with the same records. Records are
    found through their edges, so nothing is found half written. `get_many` and `versions` are always current.
    Durability and errors as in `EdgeStore`. docs/decisions/0018-records-without-transactions.md says how each promise
    is kept this way.
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
        """Write everything, or nothing: if a condition fails, the key was claimed before, or the first edge is
        REFUSED.
        """
        ...

    async def put_many(self, writes: Sequence[Write]) -> list[Put]:
        """Make each `put` on its own, in any order, its records too. After an error some may be written."""
        ...

    async def get_many(self, kind: RecordKind, ids: Sequence[int]) -> list[Record | None]:
        """The record of each id, in the order of `ids`; None if there never was one."""
        ...

    async def versions(self, kind: RecordKind, ids: Sequence[int]) -> list[int]:
        """The version of each record, in the order of `ids`; 0 if there never was one."""
        ...

    async def newest(self, kind: RecordKind, below: int, limit: int) -> list[int]:
        """The greatest ids of a kind that are below `below`, descending. Empty on an engine without order."""
        ...

    async def claimed(self, claims: Sequence[Claim]) -> list[bytes | None]:
        """For each claim, the value of an earlier, unexpired claim of the same key; None if there is none."""
        ...

    async def forget(self, kind: RecordKind, ids: Sequence[int], versions: Sequence[int] | None = None) -> None:
        """Delete records permanently; with `versions`, only those that still have that version. A late, older version
        would be stored again. So use it only if the id alone shows that the record has expired, or if that does no
        harm.
        """
        ...

    async def forget_below(self, kind: RecordKind, below: int, limit: int) -> int:
        """Delete permanently up to `limit` records of a kind, those with the lowest ids, all below `below`. Returns how
        many.

        As `forget`. The log entry for one call takes a few bytes.
        """
        ...


def newer(stored: Record | None, incoming: Record) -> Record:
    """The version of a record that stays: the one with the greater version, then the greater data, so order never
    matters.
    """
    if stored is None or (incoming.updated_at, incoming.data) > (stored.updated_at, stored.data):
        return incoming
    return stored
