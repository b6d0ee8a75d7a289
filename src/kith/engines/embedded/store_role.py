"""The role of a store: whether it takes writes. A primary does. A standby does not, nor does a store that another
machine replaced as the primary (fenced), nor one that was moved.

    note closed      why the store takes no writes (see `closed_note`); absent where it takes them
    note promoting   the name of the history that a promotion will begin, so that an interrupted promotion resumes
    note tell        MessagePack of a SuccessorNotice: the old primary, which must still be told that it was replaced
    note rival       the address of another machine that was promoted in place of the same old primary: two primaries

A store's epoch is its history (see `history`); a promotion begins a new one. Each commit reads `closed` in its own
transaction. So once that note is committed, no process of the folder can commit anything more, whatever it was doing.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import NamedTuple

import msgspec

from kith.core.errors import Conflict
from kith.engines.embedded import event_log, redo
from kith.engines.embedded.closed_note import CLOSED_KEY, ClosedNote
from kith.engines.embedded.driver_errors import translate_errors
from kith.engines.embedded.environment import Environment, put_note
from kith.engines.embedded.history import HISTORY, History, Restore
from kith.standby.source import Epoch

_PROMOTING, _NOTICE, _RIVAL = "promoting", "tell", "rival"


class SuccessorNotice(NamedTuple):
    """The addresses of the old primary, and of the machine that was promoted in its place."""

    old: str
    new: str


class PromotionResult(NamedTuple):
    """The result of a promotion. `shared`: the last event of the old primary that this store has; `epoch`: the name of
    the new history.
    """

    shared: int
    epoch: int


def read_closed_note(store: Environment) -> ClosedNote | None:
    """Why a store takes no writes; None if it takes them."""
    raw = store.get_note(CLOSED_KEY)
    return None if raw is None else msgspec.msgpack.decode(raw, type=ClosedNote)


def has_moved(store: Environment) -> bool:
    """Whether a store takes no writes because it is being moved, or was moved. Conflict if there is another reason."""
    closed = read_closed_note(store)
    if closed is not None and closed.why != "moved":
        raise Conflict(f"{store.folder} takes no writes itself ({closed.refusal().message}); move the store that does")
    return closed is not None


def close_to_writes(store: Environment, closed: ClosedNote | None) -> None:
    """Close a store to writes, or (None) open it to writes again. Durable, because other machines rely on it."""
    store.put_note(CLOSED_KEY, None if closed is None else msgspec.msgpack.encode(closed))
    store.sync()  # with relaxed durability, a power cut could undo the note


def epoch_of(store: Environment) -> Epoch:
    """The epoch of a store. Includes the history that a promotion in progress will begin."""
    restores = [(restore.name, restore.shared) for restore in store.history().restores if not restore.cut]
    raw = store.get_note(_PROMOTING)
    return Epoch([*restores, (int(raw), 0)] if raw else restores)


def fence(store: Environment, newer: Epoch, primary: str) -> int:
    """Close this store to writes, because `primary` has the `newer` epoch. Returns the number of the last event.

    May be repeated, also once this store is a standby of that primary. Conflict if the epoch is not newer than this
    store's, or if a primary of another epoch has fenced it already. If this store and `primary` were both promoted in
    place of the same old primary, `primary` is noted as a rival.
    """
    closed, names = read_closed_note(store), _names(newer)
    follows = closed is not None and (closed.why, closed.primary) == ("standby", primary)
    if not is_newer(newer, epoch_of(store)) and not follows:
        if closed is None and is_forked(newer, epoch_of(store)):
            note_rival(store, primary)
        raise Conflict("that epoch is not newer than the one of this store, so it fences nothing")
    if closed is not None and closed.why == "fenced" and closed.epoch not in names:
        raise Conflict(
            f"{closed.primary} was made the primary already; start this machine as its standby", **_primary_of(closed)
        )
    if closed is None:
        close_to_writes(store, ClosedNote("fenced", primary, names[-1]))
    with translate_errors("read", store.folder), store.lmdb.begin() as txn:
        return event_log.bounds(txn, store.log)[1]


def is_newer(epoch: Epoch, other: Epoch) -> bool:
    """Whether `epoch` begins with `other` and continues it."""
    names, older = _names(epoch), _names(other)
    return len(names) > len(older) and names[: len(older)] == older


def is_forked(epoch: Epoch, other: Epoch) -> bool:
    """Whether each of two epochs has a promotion that the other lacks: two machines were promoted independently."""
    names, other_names = _names(epoch), _names(other)
    shared = min(len(names), len(other_names))
    return names[:shared] != other_names[:shared]


def _names(epoch: Epoch) -> list[int]:
    return [name for name, _ in epoch.restores]


def begin_promotion(store: Environment) -> Epoch:
    """Begin, or resume, the promotion of a standby: choose the name of its next history, and note it durably.

    Returns the epoch that it will have. Conflict if the store is no standby.
    """
    closed = read_closed_note(store)
    if closed is None:
        raise Conflict(f"{store.folder} is no standby: it takes writes already")
    if closed.why == "fenced":
        raise Conflict(
            f"{store.folder} was fenced by {closed.primary}; start it as a standby of that first", **_primary_of(closed)
        )
    if store.get_note(_PROMOTING) is None:
        store.put_note(_PROMOTING, str(1 + secrets.randbelow(2**63 - 1)).encode())
    return epoch_of(store)


def drop_promotion(store: Environment) -> None:
    """Drop a promotion that was begun and then refused, so that its epoch fences no other store."""
    store.put_note(_PROMOTING, None)


def promote(store: Environment, tell: SuccessorNotice | None) -> PromotionResult:
    """Finish a promotion that was begun: make this standby the primary, in one commit.

    `tell`: the old primary that must be told later; None if it knows already. Conflict if no promotion was begun.
    """
    raw, closed = store.get_note(_PROMOTING), read_closed_note(store)
    if raw is None or closed is None:
        raise Conflict(f"{store.folder} is not being promoted")
    with translate_errors("promote", store.folder), store.commit() as write:
        _, last_event = event_log.bounds(write.txn, store.log)
        history = History((*store.history().restores, Restore(int(raw), last_event)))
        notes = {
            HISTORY: history.packed(),
            CLOSED_KEY: None,
            _PROMOTING: None,
            _NOTICE: None if tell is None else msgspec.msgpack.encode(tell),
            _RIVAL: None,
        }
        for key, note in notes.items():
            put_note(write.txn, store.notes_db, key, note)
        write.changes = redo.encode(0, [redo.row("meta", key.encode(), note) for key, note in notes.items()])
    store.positions.use_history(history)
    return PromotionResult(last_event, int(raw))


def pending_notice(store: Environment) -> SuccessorNotice | None:
    """The old primary that must still be told of its successor; None if there is none."""
    raw = store.get_note(_NOTICE)
    return None if raw is None else msgspec.msgpack.decode(raw, type=SuccessorNotice)


def clear_notice(store: Environment) -> None:
    """Note that the old primary was notified."""
    store.put_note(_NOTICE, None)


def rival(store: Environment) -> str:
    """The address of another machine that is known to be a primary, too; empty if there is none."""
    raw = store.get_note(_RIVAL)
    return "" if raw is None or store.is_closed() else raw.decode()


def note_rival(store: Environment, url: str) -> None:
    """Note the address of another machine that is a primary, too; empty: there is none any more."""
    store.put_note(_RIVAL, url.encode() or None)


def rival_message(url: str) -> str:
    """The message to the operator about a rival."""
    return (
        f"{url} was made the primary, too, and each takes writes that the other never gets: choose one of both, stop "
        "the other, move its data folder away (it is all there is of its writes), and start it with an empty one as "
        "`kith standby --of` the one that you chose; where the other is gone for good, `kith promote` the one again"
    )


def detach_copy(folder: Path) -> None:
    """Make a copy of a store independent: it takes writes, has no rival, and notifies no old primary.

    No process may use the folder.
    """
    with Environment(folder, create=False) as store:
        is_closed = store.is_closed()
    with (
        Environment(folder, create=False, follows=is_closed) as store,
        translate_errors("make a store of its own", folder),
        store.commit() as write,
    ):
        for key in (CLOSED_KEY, _PROMOTING, _NOTICE, _RIVAL):
            put_note(write.txn, store.notes_db, key, None)


def _primary_of(closed: ClosedNote) -> dict[str, str]:
    return {"primary": closed.primary}
