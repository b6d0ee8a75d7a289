"""Backups in a folder or a bucket: wholes of the store now and then, increments of its log in between.

Files: `parts` (what a part is, and what it is called) · `chain` (pure: which parts make a point in time, which may
go) · `making` (one more part, verified) · `pictures` (files of media, and the lists of them) · `pruning` ·
`restoring` · `drills` (restored to try it) · `schedule` (when backups are due, and what is told of them) · `worker`
(the process that `kith serve` runs).

    parts/<part>.json           what a part holds, with digests; written last, so that a part which has it is whole
    files/<part>/store.mdb      of a whole: a copy of the store
    files/<part>/log-0001...    of an increment: segments of the log (see `engines.embedded.segments`)
    files/<part>/media          which files of media came with it (a whole: all there were)
    media/3f/...                these files, as they are called in the folder of media

A part is named by its number, which orders the parts, and random characters, so that two made at once have different
names. Whoever can read a backup can sign tokens: it holds the secrets of the store.
"""
