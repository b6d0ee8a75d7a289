"""Deletes parts of a backup that no kept point needs, and files that belong to no part.

The manifest of a part is deleted first, then its files. So a part with a manifest stays complete even if pruning is
interrupted. The next run deletes leftover files once they are a day old; younger ones may belong to a part that is
being made.
"""

from __future__ import annotations

import contextlib

from kith.core.errors import StoreMismatch
from kith.engines.blobs.archives import Archive
from kith.run.backups.chain import prunable
from kith.run.backups.media_files import names_of
from kith.run.backups.parts import FILES, MEDIA, file_of, manifest_of, read_parts

_UNFINISHED_MS = 86_400_000


def prune(archive: Archive, kept_from_ms: int, newer_min: int, now_ms: int) -> int:
    """Delete the parts that no point at or after a time needs; returns their number. Servers and backups may run.

    `newer_min`: see `chain.prunable`. If a part cannot be read, its files and all media files stay. Errors:
    StoreUnavailable.
    """
    parts = read_parts(archive)
    pruned = prunable(parts.whole, kept_from_ms, newer_min)
    kept = [part for part in parts.whole if part not in pruned]
    archive.delete([manifest_of(part.id) for part in pruned])
    named_files = {file_of(part.id, name) for part in kept for name in part.files}
    damaged = tuple(file_of(id_, "") for id_ in parts.damaged)
    listed = [file for file in archive.files(FILES) if not file.name.startswith(damaged)]
    with contextlib.suppress(StoreMismatch):  # a media list cannot be read: all media files stay
        named_files |= {f"{MEDIA}/{name}" for name in names_of(archive, kept)}
        if not damaged:
            listed += archive.files(MEDIA)
    pruned_prefixes, old_ms = tuple(file_of(part.id, "") for part in pruned), now_ms - _UNFINISHED_MS
    unnamed = [file for file in listed if file.name not in named_files]
    archive.delete(
        [file.name for file in unnamed if file.name.startswith(pruned_prefixes) or file.modified_at_ms < old_ms]
    )
    return len(pruned)
