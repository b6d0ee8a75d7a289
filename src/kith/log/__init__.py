"""The event log and its consumers.

Files: `store` (the ports) · `runner` (checkpoints, retries, dead letters, lag) · `keeping` (a lease, renewed) ·
`stopping` (a worker is told to stop) · `commands` (the ports of a log of commands, for engines whose writes are
decided elsewhere).
"""
