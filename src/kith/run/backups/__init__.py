"""Backups in a folder or a bucket: copies of the whole store ("wholes") at times, increments of its log in between.

Files: `parts` (format and names of a part) · `chain` (pure: which parts restore a point in time, which may be deleted)
· `backup_maker` (makes and verifies one part) · `media_files` (media files, and the lists of them) · `pruning` ·
`restoring` · `drills` (notes of test restores) · `schedule` (when backups are due, and their status) · `worker` (the
process that `kith serve` runs).

    parts/<part>.json           manifest of a part, with digests; written last, so a part that has one is complete
    files/<part>/store.mdb      of a whole: a copy of the store
    files/<part>/log-0001...    of an increment: segments of the log (see `engines.embedded.segments`); the first
                                has the places of consumers
    files/<part>/media          the list of media files that came with it (of a whole: all files)
    media/3f/...                these files, with the names that they have in the media folder

A part is named by its number, which orders the parts, and random characters, so that two parts made at once have
different names. A backup holds the secrets of the store: anyone who can read it can sign tokens.
"""
