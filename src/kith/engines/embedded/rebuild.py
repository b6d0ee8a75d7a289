"""Makes a store from the log of another: what the other had when each event was logged, this one has in the end.

The log goes on from what the target has, so a target may be empty, or a backup that is brought up to date. See
`segments` for how, and for what is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import lmdb

from kith.core.errors import Conflict, StoreMismatch
from kith.engines.embedded import segments
from kith.engines.embedded.driver_errors import translated
from kith.engines.embedded.environment import Environment
from kith.engines.embedded.formats import EDGES_LOGGED, FORMAT
from kith.engines.embedded.store_file import STORE_FILE

BYTES_A_SEGMENT = 1 << 20
"""Of the log, in a commit: some 80,000 edges, since the more are done together, the fewer pages are written twice."""

REBUILDING = "rebuilding"
"""The note of a rebuild that is under way, or was cut short: the folder of its log."""


def rebuild(source: Environment, target: Environment, progress: Callable[[int], None] = lambda _: None) -> int:
    """Do all that the log of `source` holds beyond that of `target`; how many events that were. May be repeated.

    `progress`: told of the events done so far. Errors: Conflict; StoreFull, StoreUnavailable, after which it goes on
    where it was when it is called again.
    """
    began = at = segments.last_event(target)
    end: int | None = None
    was = target.get_note(REBUILDING)
    target.put_note(REBUILDING, str(source.folder).encode())
    try:
        while end is None or at < end:
            segment = segments.take(source, at, BYTES_A_SEGMENT)
            end = segment.end if end is None else end
            at = segments.do(target, segment)
            progress(at - began)
    except Conflict:
        if at == began:  # it is what it was
            target.put_note(REBUILDING, was)
        raise
    target.put_note(REBUILDING, None)
    return at - began


def unfinished(environment: Environment) -> Iterator[str]:
    """Says of a rebuild of this store that is unfinished what to do."""
    log = environment.get_note(REBUILDING)
    if log is not None:
        again = f"kith rebuild {environment.folder} --from {log.decode(errors='replace')}"
        yield (
            f"{environment.folder} holds a part of what the log says that it is rebuilt from: wait for the rebuild, or "
            f"run `{again}` again to finish it; where that log is lost, `kith rebuild {environment.folder} --as-is` "
            "takes what was done so far for all there is"
        )


def take_as_it_is(environment: Environment) -> bool:
    """Take what a rebuild did for all there is; False where none was cut short."""
    if environment.get_note(REBUILDING) is None:
        return False
    environment.put_note(REBUILDING, None)
    return True


def check_format(folder: Path) -> None:
    """StoreMismatch if a folder is of a Kith whose log held edges only. To open it would upgrade it."""
    store = folder / STORE_FILE
    if not store.is_file() or not store.stat().st_size:
        return
    with (
        translated(f"read {folder}", folder),
        lmdb.Environment(str(store), subdir=False, readonly=True, lock=False, max_dbs=1) as opened,
        opened.begin() as txn,
    ):
        found = int(txn.get(b"format", b"0", opened.open_db(b"meta", txn=txn, create=False)))
    if found <= EDGES_LOGGED:
        raise StoreMismatch(
            f"{folder} is of an older Kith (format {found}), whose log holds edges only; "
            "`kith restore` it into a folder of its own and serve that one: its log is whole from then on",
            format=found,
            known=FORMAT,
        )
