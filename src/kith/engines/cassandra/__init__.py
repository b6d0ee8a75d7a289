"""The engine on Cassandra: edges, records and what else is larger than a machine. See README.md.

Its writes are decided by the owner of a partition of the log of commands (see `log.commands`). The stores:
`edge_store`, with `edge_reads` and `edge_scans` · `record_store` · `small_stores` gathers those without an owner:
`lease_store`, `credential_store`, `suggestion_store`, `fanout_state` and `inbox_store`; `contents` is all of it, for
moves, during which it takes no other writes (`closing`, `closed_store`). A write, from the one who
asks to the rows: `commands` (as bytes, and the client) · `partitions` (who owns what) · `owner` · `owner_command`,
`edge_commands` and `row_commands` (what each does) · `batch` (what was read, and what will be) · `rows`. Lists:
`parts` (how a long one is divided), `dividing` · `recount` (how one is counted anew), `recounting`. Under them:
`connecting`, `reading` and `list_reading` (rows by key, and the newest of lists, together), `schema`, `metadata`
(facts of the cluster), `node_time`, `clock_watch` (whether this machine's clock may date writes).
"""
