"""The Kafka engine: the command log with the processes that decide commands, and the event log. See README.md.

`engine` opens all of it. `broker` is the port to Kafka; `connecting` and `topic_follower` implement it.
On the port stand `commits` (records of events, and how one owner at a time appends them) and `registry` (what groups
save, by the pure rules of `registry_state`).
Writes: `commands` is the client's side, `owner_runner` the owner's; `rounds` starts the batches of partitions together.
The event log: `log_store`, over `recent_events` (the newest events); `positions`, `subscription` (a worker's share) and
`retention`.
"""
