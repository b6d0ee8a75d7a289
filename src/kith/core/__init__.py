"""The small things that every room uses; it does no I/O and imports nothing else of kith.

Files: `ids` (ids and how they are made) · `clock` (versions) · `paging` (pages and cursors) · `tokens`
(read-your-writes) · `signing` (seals cursors and tokens) · `events` (entries of the log, and how far it is) · `labels`
(moderation) · `errors` (the tree of errors) · `backoff` (pauses before what failed is tried again) · `together` (calls
that need not wait for each other) · `deadline` (how long something may take) · `stopping` (tasks that end when told
to) · `trust` (certificates that HTTP clients trust).
"""
