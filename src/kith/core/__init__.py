"""The small things that every room uses; it does no I/O and imports nothing else of kith.

Files: `ids` (ids and how they are made) · `clock` (versions) · `paging` (pages and cursors) · `tokens`
(read-your-writes) · `signing` (seals cursors and tokens) · `history` (restores of a store) · `events` (entries of the
log) · `labels` (moderation) · `errors` (the tree of errors).
"""
