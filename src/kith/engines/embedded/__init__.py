"""The embedded engine: all durable data in one LMDB file, written by a commit queue, read without locks.

A file named after a port implements it: `edge_store`, `record_store`, `log_store` and `suggestion_store` in LMDB,
`timeline_store` in shared memory, `quota_store` and `served_log` in files of their own. Under them: `environment`
(opening the data folder, its settings, backup) · `formats` (which stores are opened) · `keys` (rows as bytes) · `runs`
(lists as packed blocks) · `pages` (parts of a run) · `commits` (group commit) · `event_log` (rows of the log) · `bulk`
(sorted load of an empty graph) · `strays` (for the auditor) · `ring_file`, `directory`, `read_habits` (for timelines).
README.md draws the layout and lists the caveats.
"""
