"""Rebuilds a store from the log of another store: replays every event that the target lacks.

Replay begins after the target's last event. So the target may be an empty store, or a backup to bring up to date. See
`segments` for how this is done, and which logs are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import lmdb

from kith.core.errors import Conflict, StoreMismatch
from kith.engines.embedded import segments
from kith.engines.embedded.driver_errors import translate_errors
from kith.engines.embedded.environment import Environment
from kith.engines.embedded.formats import EDGES_LOGGED, FORMAT
from kith.engines.embedded.store_file import STORE_FILE

BYTES_A_SEGMENT = 1 << 20
"""Bytes of the log that one commit replays: some 80,000 edges. The more edges a commit has, the fewer pages are written
twice."""

REBUILDING = "rebuilding"
"""The note of a rebuild that is in progress or was interrupted. It holds the folder of the source's log."""


def rebuild(source: Environment, target: Environment, progress: Callable[[int], None] = lambda _: None) -> int:
    """Replay on `target` all events of `source`'s log that it lacks. Returns how many. May be repeated.

    `progress`: called with the number of events replayed so far. Errors: Conflict; StoreFull, StoreUnavailable, after
    which a repeated call resumes.
    """
    first = replayed = segments.last_event(target)
    end: int | None = None
    earlier_note = target.get_note(REBUILDING)
    target.put_note(REBUILDING, str(source.folder).encode())
    try:
        while end is None or replayed < end:
            segment = segments.next_segment(source, replayed, BYTES_A_SEGMENT)
            end = segment.end if end is None else end
            replayed = segments.replay(target, segment)
            progress(replayed - first)
    except Conflict:
        if replayed == first:  # nothing was replayed, so the target is unchanged
            target.put_note(REBUILDING, earlier_note)
        raise
    target.put_note(REBUILDING, None)
    return replayed - first


def unfinished(environment: Environment) -> Iterator[str]:
    """A message that says how to finish an interrupted rebuild of this store; none if there is none."""
    log = environment.get_note(REBUILDING)
    if log is not None:
        command = f"kith rebuild {environment.folder} --from {log.decode(errors='replace')}"
        yield (
            f"{environment.folder} is being rebuilt from a log, and has a part of it so far: wait for the rebuild, or "
            f"run `{command}` again to finish it; if that log is lost, `kith rebuild {environment.folder} --as-is` "
            "accepts what was done so far as the whole store"
        )


def accept_as_is(environment: Environment) -> bool:
    """Accept what an interrupted rebuild has replayed as the whole store. False if no rebuild was interrupted."""
    if environment.get_note(REBUILDING) is None:
        return False
    environment.put_note(REBUILDING, None)
    return True


def check_format(folder: Path) -> None:
    """StoreMismatch if the folder's log holds edges only, an older format.

    Reads the format number alone: an `Environment` would upgrade the store.
    """
    store = folder / STORE_FILE
    if not store.is_file() or not store.stat().st_size:
        return
    with (
        translate_errors(f"read {folder}", folder),
        lmdb.Environment(str(store), subdir=False, readonly=True, lock=False, max_dbs=1) as environment,
        environment.begin() as txn,
    ):
        stored_format = int(txn.get(b"format", b"0", environment.open_db(b"meta", txn=txn, create=False)))
    if stored_format <= EDGES_LOGGED:
        raise StoreMismatch(
            f"{folder} is of an older Kith (format {stored_format}), whose log holds edges only; "
            "`kith restore` it into a folder of its own and serve that one: its log is whole from then on",
            format=stored_format,
            known=FORMAT,
        )
