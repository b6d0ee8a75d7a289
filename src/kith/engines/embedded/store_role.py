"""Whether a store takes writes: it does as the primary, and not as a standby or once another machine is the primary.

    note closed      why (see `closed`); absent where the store takes writes
    note promoting   the name of the history that a promotion will begin, so that one that was cut short goes on
    note tell        MessagePack of a ToTell: the old primary, which has to be told that it is one no more
    note rival       the address of a machine that was made the primary in place of the same old one, so that two are

A store's epoch is its history (see `history`): a promotion begins another one. Each commit looks at `closed` in its own
transaction. So once it is noted, no process of the folder can commit anything, whatever it was about to do.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import NamedTuple

import msgspec

from kith.core.errors import Conflict
from kith.engines.embedded import event_log, redo
from kith.engines.embedded.closed import CLOSED, Closed
from kith.engines.embedded.driver_errors import translated
from kith.engines.embedded.environment import Environment, put_note
from kith.engines.embedded.history import HISTORY, History, Restore
from kith.standby.source import Epoch

_PROMOTING, _TELL, _RIVAL = "promoting", "tell", "rival"


class ToTell(NamedTuple):
    """The addresses of the old primary, and of the one that was made the primary in its place."""

    old: str
    new: str


class Promoted(NamedTuple):
    """What a promotion did. `shared`: the last event of the old primary that this store has."""

    shared: int
    epoch: int


def why_closed(store: Environment) -> Closed | None:
    """Why a store takes no writes; None where it does."""
    raw = store.get_note(CLOSED)
    return None if raw is None else msgspec.msgpack.decode(raw, type=Closed)


def has_moved(store: Environment) -> bool:
    """Whether a store takes no writes because it moves, or was moved; Conflict where there is another reason."""
    why = why_closed(store)
    if why is not None and why.why != "moved":
        raise Conflict(f"{store.folder} takes no writes itself ({why.refusal().message}); move the store that does")
    return why is not None


def close_to_writes(store: Environment, why: Closed | None) -> None:
    """Let a store take no writes any more, or (None) take them again; durable, as other machines rely on it."""
    store.put_note(CLOSED, None if why is None else msgspec.msgpack.encode(why))
    store.sync()  # where durability is relaxed a note may be lost


def epoch_of(store: Environment) -> Epoch:
    """The epoch of a store, the one that its promotion has begun included."""
    restores = [(restore.name, restore.shared) for restore in store.history().restores if not restore.cut]
    raw = store.get_note(_PROMOTING)
    return Epoch([*restores, (int(raw), 0)] if raw else restores)


def fence(store: Environment, newer: Epoch, primary: str) -> int:
    """Take no writes from now on, because of a newer epoch; the number of the last event. May be repeated, also once
    this is a standby of that primary.

    Conflict where the epoch is not newer than this store's, or another one has fenced it already. One that was made the
    primary in place of the same old one is noted as a rival.
    """
    why, names = why_closed(store), _names(newer)
    follows = why is not None and (why.why, why.primary) == ("standby", primary)
    if not is_newer(newer, epoch_of(store)) and not follows:
        if why is None and is_forked(newer, epoch_of(store)):
            note_rival(store, primary)
        raise Conflict("that epoch is not newer than the one of this store, so it fences nothing")
    if why is not None and why.why == "fenced" and why.epoch not in names:
        raise Conflict(f"{why.primary} was made the primary already; start this machine as its standby", **_of(why))
    if why is None:
        close_to_writes(store, Closed("fenced", primary, names[-1]))
    with translated("read", store.folder), store.lmdb.begin() as txn:
        return event_log.bounds(txn, store.log)[1]


def is_newer(one: Epoch, other: Epoch) -> bool:
    """Whether an epoch came after another."""
    names, older = _names(one), _names(other)
    return len(names) > len(older) and names[: len(older)] == older


def is_forked(one: Epoch, other: Epoch) -> bool:
    """Whether each of two epochs has a promotion that the other has not, so that two machines were made the primary."""
    names, others = _names(one), _names(other)
    shared = min(len(names), len(others))
    return names[:shared] != others[:shared]


def _names(epoch: Epoch) -> list[int]:
    return [name for name, _ in epoch.restores]


def begin_promotion(store: Environment) -> Epoch:
    """The epoch that a standby will have, noted for good; Conflict where the store is no standby."""
    why = why_closed(store)
    if why is None:
        raise Conflict(f"{store.folder} is no standby: it takes writes already")
    if why.why == "fenced":
        raise Conflict(f"{store.folder} was fenced by {why.primary}; start it as a standby of that first", **_of(why))
    if store.get_note(_PROMOTING) is None:
        store.put_note(_PROMOTING, str(1 + secrets.randbelow(2**63 - 1)).encode())
    return epoch_of(store)


def drop_promotion(store: Environment) -> None:
    """Forget a promotion that was begun and refused, so that its epoch fences nobody."""
    store.put_note(_PROMOTING, None)


def promote(store: Environment, tell: ToTell | None) -> Promoted:
    """Make a standby whose promotion was begun the primary. `tell`: whom to tell later, unless the old one knows."""
    raw, why = store.get_note(_PROMOTING), why_closed(store)
    if raw is None or why is None:
        raise Conflict(f"{store.folder} is not being promoted")
    with translated("promote", store.folder), store.commit() as write:
        _, last = event_log.bounds(write.txn, store.log)
        history = History((*store.history().restores, Restore(int(raw), last)))
        notes = {
            HISTORY: history.packed(),
            CLOSED: None,
            _PROMOTING: None,
            _TELL: None if tell is None else msgspec.msgpack.encode(tell),
            _RIVAL: None,
        }
        for key, note in notes.items():
            put_note(write.txn, store.notes_db, key, note)
        write.changes = redo.encode(0, [redo.row("meta", key.encode(), note) for key, note in notes.items()])
    store.positions.go_on(history)
    return Promoted(last, int(raw))


def to_tell(store: Environment) -> ToTell | None:
    """The old primary that is still to be told, and its successor."""
    raw = store.get_note(_TELL)
    return None if raw is None else msgspec.msgpack.decode(raw, type=ToTell)


def note_told(store: Environment) -> None:
    """Note that the old primary knows."""
    store.put_note(_TELL, None)


def rival(store: Environment) -> str:
    """The address of another machine that is the primary, too, as far as is known; empty where there is none."""
    raw = store.get_note(_RIVAL)
    return "" if raw is None or store.is_closed() else raw.decode()


def note_rival(store: Environment, url: str) -> None:
    """Note that another machine is the primary, too; empty: none is any more."""
    store.put_note(_RIVAL, url.encode() or None)


def rival_says(url: str) -> str:
    """What an operator is told of a rival."""
    return (
        f"{url} was made the primary, too, and each takes writes that the other never gets: choose one of both, stop "
        "the other, move its data folder away (it is all there is of its writes), and start it with an empty one as "
        "`kith standby --of` the one that you chose; where the other is gone for good, `kith promote` the one again"
    )


def stand_alone(folder: Path) -> None:
    """Make a copy of a store one of its own: it takes writes, ignores other machines, and tells none that it replaced
    it. For a folder that no process uses.
    """
    with Environment(folder, create=False) as store:
        is_closed = store.is_closed()
    with (
        Environment(folder, create=False, follows=is_closed) as store,
        translated("make a store of its own", folder),
        store.commit() as write,
    ):
        for key in (CLOSED, _PROMOTING, _TELL, _RIVAL):
            put_note(write.txn, store.notes_db, key, None)


def _of(why: Closed) -> dict[str, str]:
    return {"primary": why.primary}
