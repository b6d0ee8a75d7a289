"""How far each group of consumers is, told to standbys: so those of a new primary go on about where the old ones were.

Places are no events of the log; a standby asks for them now and then, beside what follows. With them come the events
that a group failed at. Where these are too many, its place is told as before the first that does not come along, and
the new primary handles that again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kith.engines.embedded import redo
from kith.engines.embedded.driver_errors import translated
from kith.engines.embedded.environment import Environment, put_note
from kith.engines.embedded.log_store import FAILURE, GROUP

FAILURES_MAX = 100
"""Failed events of a group that come along."""


def places(store: Environment) -> dict[str, bytes]:
    """The notes of all groups. Read them before the log: what a group did up to its place is in there then."""
    found: dict[str, bytes] = {}
    for group, place in store.notes(GROUP).items():
        failed = store.notes(f"{FAILURE}{group}/", FAILURES_MAX + 1)
        beyond = list(failed)[FAILURES_MAX:]
        found[GROUP + group] = str(min([int(place), *(int(sequence) - 1 for sequence in beyond)])).encode()
        found |= {f"{FAILURE}{group}/{sequence}": row for sequence, row in failed.items() if sequence not in beyond}
    return found


def take(store: Environment, told: Mapping[str, bytes], but: Collection[str]) -> None:
    """Take over the places of groups `but` for some. `told`: what came with a part of the log that is done here."""
    changed: dict[str, bytes | None] = {}
    for group in {key.removeprefix(GROUP) for key in told if key.startswith(GROUP)}.difference(but):
        prefix = f"{FAILURE}{group}/"
        had = {prefix + sequence: row for sequence, row in store.notes(prefix).items()}
        new = {key: row for key, row in told.items() if key.startswith(prefix)}
        if (place := store.get_note(GROUP + group)) is not None:
            had[GROUP + group] = place
        new[GROUP + group] = told[GROUP + group]
        changed |= {key: new.get(key) for key in had.keys() | new.keys() if had.get(key) != new.get(key)}
    if not changed:
        return
    with translated("write how far consumers are", store.folder), store.commit() as write:
        for key, note in changed.items():
            put_note(write.txn, store.meta, key, note)
        write.changes = redo.encode(0, [redo.row("meta", key.encode(), note) for key, note in changed.items()])
