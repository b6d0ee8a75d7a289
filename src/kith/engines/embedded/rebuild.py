"""Makes a store from the log of another: what the other had when each event was logged, this one has in the end.

The log goes on from what the target has, so a target may be empty, or a backup that is brought up to date. See
`segments` for how, and for what is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import lmdb

from kith.core.errors import StoreMismatch
from kith.engines.embedded import segments
from kith.engines.embedded.driver_errors import translated
from kith.engines.embedded.environment import Environment
from kith.engines.embedded.formats import EDGES_LOGGED, FORMAT
from kith.engines.embedded.store_file import STORE_FILE

BYTES_A_SEGMENT = 1 << 20
"""Of the log, in a commit: some 80,000 edges, since the more are done together, the fewer pages are written twice."""


def rebuild(source: Environment, target: Environment, progress: Callable[[int], None] = lambda _: None) -> int:
    """Do all that the log of `source` holds beyond that of `target`; how many events that were. May be repeated.

    `progress`: told of the events done so far. Errors: Conflict; StoreFull, StoreUnavailable, after which it goes on
    where it was when it is called again.
    """
    began = at = segments.last_event(target)
    end: int | None = None
    while end is None or at < end:
        segment = segments.take(source, at, BYTES_A_SEGMENT)
        end = segment.end if end is None else end
        at = segments.do(target, segment)
        progress(at - began)
    return at - began


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
