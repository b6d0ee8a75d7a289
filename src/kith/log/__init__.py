"""The event log and its consumers.

`store`: the ports. `runner`: runs a consumer with checkpoints, retries, dead letters and lag. `keeping`: takes and
renews a lease of the log. `stopping`: tells a worker to stop. `commands`: the ports of a command log, for engines whose
writes are decided elsewhere.
"""
