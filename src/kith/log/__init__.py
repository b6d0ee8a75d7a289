"""The event log and its consumers.

`store`: the ports. `runner`: runs a consumer with checkpoints, retries, dead letters and lag. `lease_holder`: takes and
renews a lease of the log. `stop_signal`: tells a worker to stop. `commands`: the ports of a command log, for engines
whose writes are decided elsewhere.
"""
