"""Makes a store from the log of another: what the other had when each event was logged, this one has in the end.

The log goes on from what the target has, so a target may be empty, or a backup that is brought up to date. What names a
store (graphs, secrets, server keys, history) becomes that of the other, so that its tokens and cursors hold; the
history last, because until then the target lacks what these tokens stand for.

Limits: edges of a bulk load are not in the log, which is whole only after it; and its oldest events are forgotten.
Where the target ends before that, it is refused (`Conflict`).
"""

from __future__ import annotations

from collections.abc import Callable

from kith.core.errors import Conflict
from kith.engines.embedded import changes, event_log
from kith.engines.embedded.driver_errors import translated
from kith.engines.embedded.environment import HISTORY, LOG_WHOLE_AFTER, Environment
from kith.engines.embedded.event_log import Logged, LogWriter
from kith.engines.embedded.history import Positions

EVENTS_A_COMMIT = 20_000
_IDENTITY = ("secret/", "server-key/", LOG_WHOLE_AFTER)
"""Notes, by the beginnings of their keys, that the log of a store does not hold and its tokens need."""


def rebuild(source: Environment, target: Environment, progress: Callable[[int], None] = lambda _: None) -> int:
    """Do all that the log of `source` holds beyond that of `target`; how many events that were. May be repeated.

    `progress`: told of the events done so far. Errors: Conflict; StoreFull, StoreUnavailable, after which it goes on
    where it was when it is called again.
    """
    at, last = _stretch(source, target)
    _copy_identity(source, target)
    done = 0
    while at < last:
        with translated("read", source.folder), source.lmdb.begin() as txn:
            events = list(event_log.read_logged(txn, source.log, at, min(EVENTS_A_COMMIT, last - at)))
        if events[0].sequence != at + 1:
            raise Conflict(
                f"a server that uses {source.folder} forgot events before they were read (`log_events_max`); stop it, "
                "restore a backup, and rebuild onto it"
            )
        with translated("rebuild", target.folder), target.commit() as write:
            writer = LogWriter(write.txn, target.log)
            for event in events:
                changes.do(write.txn, event.change, target.rows, target.graph_db)
                writer.append_logged(event)
            writer.flush(events_max=1 << 62)
        at = events[-1].sequence
        done += len(events)
        progress(done)
    _copy_notes(source, target, HISTORY)
    target.positions = Positions(target.history())
    return done


def _stretch(source: Environment, target: Environment) -> tuple[int, int]:
    """After which event of `source` the target goes on, and the last one there is."""
    with translated("read", source.folder), source.lmdb.begin() as txn:
        first, last = event_log.bounds(txn, source.log)
    with translated("read", target.folder), target.lmdb.begin() as txn:
        _, at = event_log.bounds(txn, target.log)
    whole_after = max(first - 1, int(source.get_note(LOG_WHOLE_AFTER) or b"0"))
    if at < whole_after:
        raise Conflict(
            f"the log holds every change after event {whole_after} only (before it are a bulk import, an older version "
            f"of Kith, or events that were forgotten), and the store to rebuild ends at event {at}; "
            "restore a backup made after that event, and rebuild onto it"
        )
    if at > last or (at >= first and _logged(source, at) != _logged(target, at)):
        raise Conflict(
            f"{target.folder} has events of its own, so it cannot become what that log says; use a new folder"
        )
    return at, last


def _logged(store: Environment, sequence: int) -> Logged:
    """One event of a log that has it."""
    with translated("read", store.folder), store.lmdb.begin() as txn:
        return next(event_log.read_logged(txn, store.log, sequence - 1, 1))


def _copy_identity(source: Environment, target: Environment) -> None:
    numbers = source.graph_numbers()
    if target.declare(sorted(numbers, key=numbers.__getitem__)) != numbers:
        raise Conflict(f"{target.folder} has other graphs than {source.folder}; use a new folder")
    for prefix in _IDENTITY:
        _copy_notes(source, target, prefix)


def _copy_notes(source: Environment, target: Environment, prefix: str) -> None:
    """Make the notes whose keys begin so those of the source, and no others."""
    notes, found = source.notes(prefix), target.notes(prefix)
    for rest in notes.keys() | found.keys():
        if notes.get(rest) != found.get(rest):
            target.put_note(prefix + rest, notes.get(rest))
