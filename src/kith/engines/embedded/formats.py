"""The store's format numbers, and which of them this version of Kith can open.

    4   the open row of the log, the one that is still being filled, has a database of its own
    3   the open row is in the same database as the closed rows
    2   as 3, and the log holds edges only

A store of format 2 or 3 is upgraded to 4 when it is opened, unless a server of an older Kith uses it.
"""

from __future__ import annotations

from pathlib import Path

from kith.core.errors import StoreMismatch

FORMAT = 4
EDGES_LOGGED = 2
_UPGRADED = (EDGES_LOGGED, 3)


def is_upgraded(found: int, folder: Path, *, alone: bool) -> bool:
    """Whether a store of format `found` must be upgraded to `FORMAT`. `alone`: no other process has it open.

    StoreMismatch for a format that cannot be read, and for an older one while another process has the store open.
    """
    if found == FORMAT:
        return False
    if found in _UPGRADED and alone:
        return True
    if found in _UPGRADED:
        message = (
            f"a server of an older Kith uses {folder} (format {found}, this one knows {FORMAT}); "
            "stop it first, so that the folder can be upgraded"
        )
    elif found > FORMAT:
        message = (
            f"{folder} was written by a newer Kith (format {found}, this one knows {FORMAT}); "
            "upgrade Kith, or restore a backup made by this version"
        )
    else:
        message = (
            f"{folder} was written by an older Kith (format {found}, this one knows {FORMAT}); "
            "export its edges with that version, and import them into a new folder"
        )
    raise StoreMismatch(message, format=found, known=FORMAT)
