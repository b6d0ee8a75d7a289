"""The formats of a store, and which of them this Kith opens.

    4   the row of the log that is not closed has a database of its own
    3   it stands among the closed ones
    2   so it does, and the log holds edges only

Those before 4 become 4 when they are opened, unless a server of an older Kith uses them.
"""

from __future__ import annotations

from pathlib import Path

from kith.core.errors import StoreMismatch

FORMAT = 4
EDGES_LOGGED = 2
_UPGRADED = (EDGES_LOGGED, 3)


def is_upgraded(found: int, folder: Path, *, alone: bool) -> bool:
    """Whether a store of the format `found` becomes one of this. `alone`: no other process has it open.

    Errors: StoreMismatch for a format that cannot be read, and where another process is in the way.
    """
    if found == FORMAT:
        return False
    if found in _UPGRADED and alone:
        return True
    if found in _UPGRADED:
        says = (
            f"a server of an older Kith uses {folder} (format {found}, this one knows {FORMAT}); "
            "stop it first, so that the folder can be upgraded"
        )
    elif found > FORMAT:
        says = (
            f"{folder} was written by a newer Kith (format {found}, this one knows {FORMAT}); "
            "upgrade Kith, or restore a backup made by this version"
        )
    else:
        says = (
            f"{folder} was written by an older Kith (format {found}, this one knows {FORMAT}); "
            "export its edges with that version, and import them into a new folder"
        )
    raise StoreMismatch(says, format=found, known=FORMAT)
