"""Usernames: each belongs to at most one user, the first who takes it in any process.

A name has a record of its own, under a hash of the name, that says who holds it. It is written together with the
profile that shows the name, on the condition that neither changed since it was read. On an engine without transactions,
a name is taken before the profile shows it, and released after the profile stopped showing it. A process that stops in
between leaves a name that no profile shows. To take such a name, a process first rewrites the holder's profile
(`disown`): a process that is still about to show the name there then fails, because the version changed. No step
depends on clocks. See docs/decisions/0018-records-without-transactions.md.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

import msgspec

from kith.core.clock import Hlc
from kith.core.errors import InvalidContent, UsernameTaken
from kith.core.ids import ID_MAX, NodeId
from kith.records.store import AtVersion, Record, RecordKind, RecordStore

USERNAME_CHARS_MAX = 30
_SYNTAX = re.compile(r"(?=.*[A-Za-z])(?!\.)[A-Za-z0-9_.]{1,30}(?<!\.)")

Holders = dict[str, int]
"""Folded name -> user. Nearly always one name; several if names share a hash, none after the name was released."""
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Holders).decode


class NameChange(NamedTuple):
    """A change of name: the records to put before and after the profile, and the conditions of the put."""

    before: list[Record]
    after: list[Record]
    only_if: list[AtVersion]


def check_username(name: str) -> None:
    """InvalidContent unless this is a valid username. A valid one fits into a URL path and is never an id."""
    if not _SYNTAX.fullmatch(name):
        raise InvalidContent(
            f"username must have 1 to {USERNAME_CHARS_MAX} of a-z, A-Z, 0-9, _ and ., with a letter among them "
            "and no dot at its ends",
            field="username",
        )


def fold(name: str) -> str:
    """The form that all spellings of a username share."""
    return name.lower()


async def holder_of(store: RecordStore, name: str) -> int | None:
    """The user who holds a name according to its record; None if nobody does. Their profile may not show it yet."""
    (holder,) = await holders_of(store, [name])
    return holder


async def holders_of(store: RecordStore, names: Sequence[str]) -> list[int | None]:
    """`holder_of` for many names, in one batch."""
    folded = [fold(name) if _SYNTAX.fullmatch(name) else "" for name in names]
    ids = [_id(name) for name in folded if name]
    records = iter(await store.get_many(RecordKind.USERNAME, ids) if ids else [])
    return [_holders(next(records)).get(name) if name else None for name in folded]


async def change_name(
    store: RecordStore,
    user: NodeId,
    names: tuple[str, str],
    version: Hlc,
    disown: Callable[[int, str], Awaitable[bool]],
) -> NameChange:
    """The records that give `user` the second of `names` and release the first; "" is no name. Errors: UsernameTaken.

    `version`: the least version of these records. `disown`: takes (holder, folded name). It returns False if the
    holder's profile shows the name; otherwise it makes sure that no write in progress can still show it there.
    """
    old, new = map(fold, names)
    change = NameChange([], [], [])
    ids = list(dict.fromkeys(_id(name) for name in (new, old) if name))
    for id_, stored in zip(ids, await store.get_many(RecordKind.USERNAME, ids), strict=True):
        holders, stored_at = _holders(stored), Hlc(0) if stored is None else stored.updated_at
        if old and holders.get(old) == user:
            del holders[old]
        if takes := bool(new) and id_ == _id(new):
            holder = holders.get(new, user)
            if holder != user and not await disown(holder, new):
                raise UsernameTaken("this username is taken; choose another", username=names[1])
            holders[new] = user
        record = Record(RecordKind.USERNAME, id_, max(version, Hlc(stored_at + 1)), _encode(holders))
        (change.before if takes else change.after).append(record)
        change.only_if.append(AtVersion(RecordKind.USERNAME, id_, stored_at))
    return change


def _holders(record: Record | None) -> Holders:
    return {} if record is None else _decode(record.data)


def _id(folded: str) -> int:
    return int.from_bytes(hashlib.blake2b(folded.encode(), digest_size=8).digest(), "big") & ID_MAX
