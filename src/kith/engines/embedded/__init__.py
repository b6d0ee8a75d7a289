"""The embedded engine: everything that lasts in one LMDB file, written by a commit queue, read without locks.

Rooms: `environment` (opening the data folder, its format, its settings, backup) · `keys` (rows as bytes)
· `runs` (lists as packed blocks) · `commits` (group commit) · `eventlog` · `edges` (the EdgeStore) ·
`objects` (the RecordStore) · `log` (the LogStore) · `bulk` (sorted load of an empty graph). Timelines lie beside it:
`rings` (the TimelineStore), `ringfile`, `directory`. README.md draws the layout and gives the figures that chose it.
"""
