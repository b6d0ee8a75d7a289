"""Notes the last drill of a backup (`kith restore PLACE --drill`, a test restore) beside the backup itself.

So a server learns of a drill on another machine, where drills should run. It reads the note after each backup it makes.
"""

from __future__ import annotations

import msgspec

from kith.core.errors import StoreMismatch
from kith.engines.blobs.archives import Archive

_FILE = "drill.json"


class Drill(msgspec.Struct, frozen=True):
    """When the drill ended, in ms since the epoch (0: there was none), and whether the backup was good."""

    at_ms: int = 0
    good: bool = True


def note(archive: Archive, drill: Drill) -> None:
    """Store the result of a drill of this archive. Errors: those of `Archive.put`."""
    archive.put(_FILE, [msgspec.json.encode(drill)])


def last(archive: Archive) -> Drill:
    """The last drill that was noted. Errors: StoreUnavailable."""
    try:
        return msgspec.json.decode(b"".join(archive.read(_FILE)), type=Drill)
    except (StoreMismatch, msgspec.DecodeError):
        return Drill()
