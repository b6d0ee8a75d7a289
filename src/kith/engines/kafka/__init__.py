"""The engine on Kafka: the log of commands with the processes that decide them, and the event log. See README.md.

`opening` opens all of it. `broker` is the port to Kafka, which `connecting` implements. On it stand `commits` (the
records of events, and how one owner at a time appends them) and `book` (what groups save, by the pure rules of
`book_state`). `commands` and `owning` are the two sides of a write; `rounds` lets batches of partitions begin together.
The log: `log_store`, over `recent` (the newest events), which `following` keeps up to date; `positions`, `subscription`
(a worker's share), `retention`.
"""
