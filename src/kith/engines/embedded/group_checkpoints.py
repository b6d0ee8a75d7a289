"""Ships the places of consumer groups to standbys and backups, so that after a promotion or a restore consumers resume
about where they were.

A group's place is its checkpoint: the last event that it has handled. Places are not events of the log, so a standby
asks for them now and then, together with new events, and each increment of a backup has them. The events that a group
failed at come with its place. If a group has more than `FAILURES_MAX` of them, its place is set before the first one
left out, and the new primary, or the restored store, handles the events after it again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kith.engines.embedded import event_log, redo
from kith.engines.embedded.driver_errors import translate_errors
from kith.engines.embedded.environment import Environment, put_note
from kith.engines.embedded.log_store import FAILURE_PREFIX, GROUP_PREFIX

FAILURES_MAX = 100
"""Failed events of a group that are shipped, at most."""


def group_notes(store: Environment) -> dict[str, bytes]:
    """The notes of all groups. Read these before the log: the log then has every write a group made up to its place."""
    notes: dict[str, bytes] = {}
    for group, place in store.notes(GROUP_PREFIX).items():
        failed = store.notes(f"{FAILURE_PREFIX}{group}/", FAILURES_MAX + 1)
        left_out = list(failed)[FAILURES_MAX:]
        notes[GROUP_PREFIX + group] = str(min([int(place), *(int(sequence) - 1 for sequence in left_out)])).encode()
        notes |= {
            f"{FAILURE_PREFIX}{group}/{sequence}": row for sequence, row in failed.items() if sequence not in left_out
        }
    return notes


def changed_notes(
    store: Environment, shipped: Mapping[str, bytes], excluded: Collection[str]
) -> dict[str, bytes | None]:
    """The notes to write, or to remove (None), so that the places of all groups except `excluded` are as in `shipped`.

    `shipped`: the places that came with a part of the log. Write them in the same commit as that part, or later.
    """
    changes: dict[str, bytes | None] = {}
    for group in {key.removeprefix(GROUP_PREFIX) for key in shipped if key.startswith(GROUP_PREFIX)}.difference(
        excluded
    ):
        prefix = f"{FAILURE_PREFIX}{group}/"
        stored_notes = {prefix + sequence: row for sequence, row in store.notes(prefix).items()}
        shipped_notes = {key: row for key, row in shipped.items() if key.startswith(prefix)}
        if (place := store.get_note(GROUP_PREFIX + group)) is not None:
            stored_notes[GROUP_PREFIX + group] = place
        shipped_notes[GROUP_PREFIX + group] = shipped[GROUP_PREFIX + group]
        changes |= {
            key: shipped_notes.get(key)
            for key in stored_notes.keys() | shipped_notes.keys()
            if stored_notes.get(key) != shipped_notes.get(key)
        }
    return changes


def advance(store: Environment, shipped: Mapping[str, bytes], excluded: Collection[str] = ()) -> None:
    """Move the groups of a restored store, except `excluded`, to their places in `shipped`.

    A place beyond the store's last event becomes that event. No place moves back.
    """
    with translate_errors("read", store.folder), store.lmdb.begin() as txn:
        _, last = event_log.bounds(txn, store.log)
    notes: dict[str, bytes] = {}
    behind = set[str]()
    for key, note in shipped.items():
        if key.startswith(GROUP_PREFIX):
            place = min(int(note), last)
            notes[key] = str(place).encode()
            if place < int(store.get_note(key) or b"0"):
                behind.add(key.removeprefix(GROUP_PREFIX))
        elif key.startswith(FAILURE_PREFIX) and int(key.rpartition("/")[2]) <= last:
            notes[key] = note
    changes = changed_notes(store, notes, excluded=behind.union(excluded))
    if changes:
        with translate_errors("place consumers", store.folder), store.commit() as write:
            for key, change in changes.items():
                put_note(write.txn, store.notes_db, key, change)
            write.changes = redo.encode(0, [redo.row("meta", key.encode(), change) for key, change in changes.items()])
