"""The event log and its consumers: `store` (the port) · `runner` (checkpoints, retries, dead letters, lag)."""
