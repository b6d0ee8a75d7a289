"""The event log and its consumers: `store` (the ports) · `runner` (checkpoints, retries, dead letters, lag) ·
`keeping` (a lease, renewed)."""
