"""The Cassandra engine: edges, records and other data that outgrows one machine. See README.md.

The owner of a partition of the command log decides that partition's writes (see `log.commands`).

Stores: `edge_store`, with `edge_reads` and `edge_scans` · `record_store` · `small_stores`, the stores without an owner:
`lease_store`, `credential_store`, `suggestion_store`, `fanout_state`, `inbox_store` · `contents`, all stored data, for
moves · `closing` and `closed_store` refuse writes while a store is moved in, and after it moved away.
The path of a write: `commands` (the client, and the encoding) · `partitions` (which partition owns what) · `owner` ·
`owner_command`, `edge_commands`, `row_commands` (what each command does) · `row_batch` (the rows of a batch) · `rows`.
Lists: `parts` and `divider` divide a long list; `recount` and `recounter` correct its counts.
Below them: `connecting` · `row_reader` (batched reads of rows by key) · `list_reader` (batched reads of lists' newest
entries) · `schema` · `metadata` (facts of the cluster) · `node_time` · `clock_watch` (whether this machine's clock may
date writes).
"""
