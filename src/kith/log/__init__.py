"""The event log and those who follow it: `store` (the port) · `runner` (groups, checkpoints, retries, dead letters)."""
