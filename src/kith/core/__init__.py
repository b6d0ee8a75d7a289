"""Small building blocks that every room uses. No I/O; imports nothing else of kith.

`ids` (ids and how they are made), `clock` (versions), `paging` (pages and cursors), `tokens` (read-your-writes),
`signing` (seals cursors and tokens), `events` (entries of the log, and positions in it), `labels` (moderation),
`errors` (the tree of errors), `backoff` (pauses before a retry), `gathering` (concurrent calls), `deadline` (time
limits), `stopping` (stops tasks), `trust` (certificates that HTTP clients trust).
"""
