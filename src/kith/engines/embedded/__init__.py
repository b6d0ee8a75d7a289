"""The embedded engine: durable data in one LMDB file, written through a commit queue and read without locks.

README.md shows the layout and lists the caveats.

Ports: `edge_store` (with `edge_rows`, `edge_scans`, `expiries`, `strays`) · `record_store` · `log_store` ·
`inbox_store` (with `inbox_rows`, and `inbox_weeks`: a file a week) · `suggestion_store` · `credential_store` ·
`fanout_state` · `activity_store` · `quota_store`, `served_log` and `file_leases` (files of their own) · `contents` (all
rows, for moves) · `timeline_store` (shared memory: `ring_file`, `ring_writers`, `directory` of users, `builds` in
progress, `read_habits`).

The path of a write:

1. `commits` groups waiting `jobs` into one commit. An API process has this done by its `committer`, a child process.
2. The commit takes its turn to write (`turns`, on `byte_locks`).
3. The jobs change the store through a `transaction`. `merging` applies edge writes. Lists are `runs`, and `pages`
   reads them.
4. Each change is an event in the log: `event_log` (`event_rows` packs rows; `changes` says what each event does).
5. `bells` wake the processes that wait for events.

Power cuts: `journal`, `redo` (what a journal entry holds), `checkpoints`, `recovery`. The store as a whole:
`environment` (opens the data folder; commits, notes), `store_file`, `store_copy`, `formats` (which versions can be
opened), `folder_locks`, `owners` (which user may use it), `keys` (rows as bytes), `bulk` (sorted load of an empty
graph), `driver_errors`.

More about the log: `retention` (how long it is kept), `history` (positions across restores), `decoded_rows` (a cache),
`segments` (stretches of the log as bytes), `rebuild` (makes a store from a log), `sorted_changes` (applies many events
faster). Two machines: `shipping` (what a standby is sent), `group_checkpoints` (what consumers have done),
`confirmations` (writes that wait for a standby), `store_role` (whether this store takes writes), `closed_note` (why it
does not).
"""
