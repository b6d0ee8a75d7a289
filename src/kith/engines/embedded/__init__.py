"""The embedded engine: all durable data in one LMDB file, written by a commit queue, read without locks. README.md
draws the layout and lists the caveats.

Ports: `edge_store` (with `edge_rows`, `edge_scans`, `expiries`, `strays`) · `record_store` · `log_store` ·
`inbox_store` (with `inbox_rows`, and `inbox_weeks`: a file a week) · `suggestion_store` · `credential_store` ·
`fanout_state` · `activity_store` · `quota_store`, `served_log` and `file_leases` (files of their own) · `contents` (all
of it, for moves) · `timeline_store` (shared memory: `ring_file`, `ring_writers`, `directory` of users, `builds` under
way, `read_habits`).

A write: `commits` (group commit; for an API process in its `committer`, a process beside it) does `jobs`: it takes its
`turns` (`byte_locks`), changes a `batch` (`merging`: by writes of edges), and notes in `event_log` what happened
(`event_rows`: its rows as bytes; `changes` says what each event does to a store); `bells` wake who waits for events.
Lists are `runs`, read by `pages`. What survives a power cut: `journal`, `redo` (what an entry of it does),
`checkpoints`, `recovery`. A whole store: `environment` (opening the data folder, its settings, backup), `store_file`,
`store_copy`, `formats` (which are opened), `folder_locks`, `keys` (rows as bytes), `bulk` (sorted load of an empty
graph), `driver_errors`.

The log, elsewhere: `retention` (how long), `history` (positions across restores), `decoded_rows` (a cache), `segments`
(as bytes), `rebuild` (a store from the log), `sorted_changes` (the same, faster). Two machines: `shipping` (what a
standby is sent), `places` (of consumers), `confirmations` (writes that wait for a standby), `store_role` (whether this
store takes writes), `closed` (why not).
"""
