"""Suggestions: people you may know.

Files: `discovery` (a walk of two hops, scored; pure) · `suggestions` (ranks, caches, and checks on every read) ·
`batch` (a job that ranks for all users) · `store` (the port of stored rankings).
"""
