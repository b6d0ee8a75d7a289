"""Suggestions: people you may know.

Files: `discovery` (a walk of two hops, scored; pure) · `suggestions` (ranks, keeps, and checks on every read) · `batch`
(ranks for all users) · `store` (the port that keeps rankings).
"""
