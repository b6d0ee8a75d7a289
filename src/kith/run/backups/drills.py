"""The last drill of a backup (`kith restore PLACE --drill`), noted in the backup's own place.

So a server knows of a drill that was made on another machine, as it should be. It looks after each backup it makes.
"""

from __future__ import annotations

import msgspec

from kith.core.errors import StoreMismatch
from kith.engines.blobs.archives import Archive

_FILE = "drill.json"


class Drill(msgspec.Struct, frozen=True):
    """When a drill ended, in ms since the epoch (0: there was none), and whether the backup was good."""

    at_ms: int = 0
    good: bool = True


def note(archive: Archive, drill: Drill) -> None:
    """Note how a drill of what is in an archive ended. Errors: those of `Archive.put`."""
    archive.put(_FILE, [msgspec.json.encode(drill)])


def last(archive: Archive) -> Drill:
    """The last drill that was noted. StoreUnavailable."""
    try:
        return msgspec.json.decode(b"".join(archive.read(_FILE)), type=Drill)
    except (StoreMismatch, msgspec.DecodeError):
        return Drill()
