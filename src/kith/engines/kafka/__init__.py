"""The Kafka engine: the command log with the processes that decide commands, and the event log. See README.md.

`opening` opens all of it. `broker` is the port to Kafka; `connecting` and `following` implement it.
On the port stand `commits` (the records of events, and how one owner at a time appends them) and `book` (what groups
save, by the pure rules of `book_state`).
Writes: `commands` is the client's side, `owning` the owner's; `rounds` starts the batches of partitions together.
The event log: `log_store`, over `recent` (the newest events); `positions`, `subscription` (a worker's share) and
`retention`.
"""
