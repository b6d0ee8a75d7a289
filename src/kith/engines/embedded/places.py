"""Ships the places of consumer groups to standbys, so that after a promotion consumers resume about where they were.

Places are not events of the log; a standby asks for them now and then, together with new events. The events that a
group failed at come with them. If these are too many, the group's place is set before the first one left out, and the
new primary handles it again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kith.engines.embedded.environment import Environment
from kith.engines.embedded.log_store import FAILURE, GROUP

FAILURES_MAX = 100
"""How many failed events of a group are shipped."""


def places(store: Environment) -> dict[str, bytes]:
    """The notes of all groups. Read them before the log: what a group did up to its place is in there then."""
    found: dict[str, bytes] = {}
    for group, place in store.notes(GROUP).items():
        failed = store.notes(f"{FAILURE}{group}/", FAILURES_MAX + 1)
        beyond = list(failed)[FAILURES_MAX:]
        found[GROUP + group] = str(min([int(place), *(int(sequence) - 1 for sequence in beyond)])).encode()
        found |= {f"{FAILURE}{group}/{sequence}": row for sequence, row in failed.items() if sequence not in beyond}
    return found


def changed(store: Environment, told: Mapping[str, bytes], but: Collection[str]) -> dict[str, bytes | None]:
    """The notes to write, or to remove (None), so that the places of groups `but` for some are as told.

    `told`: what came with a part of the log; they are to be written with it, or later.
    """
    found: dict[str, bytes | None] = {}
    for group in {key.removeprefix(GROUP) for key in told if key.startswith(GROUP)}.difference(but):
        prefix = f"{FAILURE}{group}/"
        had = {prefix + sequence: row for sequence, row in store.notes(prefix).items()}
        new = {key: row for key, row in told.items() if key.startswith(prefix)}
        if (place := store.get_note(GROUP + group)) is not None:
            had[GROUP + group] = place
        new[GROUP + group] = told[GROUP + group]
        found |= {key: new.get(key) for key in had.keys() | new.keys() if had.get(key) != new.get(key)}
    return found
