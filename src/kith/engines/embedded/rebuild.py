"""Makes a store from the log of another: what the other had when each event was logged, this one has in the end.

The log goes on from what the target has, so a target may be empty, or a backup that is brought up to date. What names a
store (graphs, secrets, server keys, history) is copied beside the log, so that its tokens and cursors hold.

Limits: a bulk load is one event, and its edges are not in the log; where the log begins later than the target ends,
there is a gap. Both are refused (`Conflict`) with what to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kith.core.errors import Conflict
from kith.core.events import BULK_LOADED
from kith.engines.embedded import changes, event_log
from kith.engines.embedded.driver_errors import translated
from kith.engines.embedded.environment import Environment
from kith.engines.embedded.event_log import Logged, LogWriter

EVENTS_A_COMMIT = 20_000
_IDENTITY = ("graphs", "history", "secret/", "key/")
"""Notes, by the beginnings of their keys, that the log of a store does not hold and its tokens need."""


def rebuild(source: Environment, target: Environment, progress: Callable[[int], None] = lambda _: None) -> int:
    """Do all that the log of `source` holds beyond that of `target`; how many events that were. May be repeated.

    `progress`: told of the events done so far. Errors: Conflict; StoreFull, StoreUnavailable, after which it goes on
    where it was when it is called again.
    """
    _copy_identity(source, target)
    done = 0
    for events in _beyond(source, target):
        with translated("rebuild", target.folder), target.commit() as write:
            writer = LogWriter(write.txn, target.log)
            for event in events:
                changes.do(write.txn, event.change, target.rows, target.graph_db)
                writer.append_logged(event)
            writer.flush(events_max=1 << 62)
        done += len(events)
        progress(done)
    return done


def _beyond(source: Environment, target: Environment) -> Iterator[list[Logged]]:
    """The events of `source` that `target` lacks, in portions."""
    with translated("read", source.folder), source.lmdb.begin() as txn:
        first, last = event_log.bounds(txn, source.log)
    with translated("read", target.folder), target.lmdb.begin() as txn:
        _, at = event_log.bounds(txn, target.log)
    if at + 1 < first:
        raise Conflict(
            f"the log begins at event {first} and the store to rebuild ends at {at}; "
            "restore a backup made after that event, and rebuild onto it"
        )
    while at < last:
        with translated("read", source.folder), source.lmdb.begin() as txn:
            events = list(event_log.read_logged(txn, source.log, at, min(EVENTS_A_COMMIT, last - at)))
        for event in events:
            if event.state == BULK_LOADED:
                raise Conflict(
                    f"event {event.sequence} is a bulk load, whose edges are not in the log; "
                    "restore a backup made after it, and rebuild onto it"
                )
        at = events[-1].sequence
        yield events


def _copy_identity(source: Environment, target: Environment) -> None:
    target.declare([name for name, _ in sorted(source.graph_numbers().items(), key=lambda pair: pair[1])])
    for prefix in _IDENTITY:
        for rest, note in source.notes(prefix).items():
            if target.get_note(prefix + rest) != note:
                target.put_note(prefix + rest, note)
