"""Kith: follow graph, home feeds and notifications as one service.

Rooms: `core` (ids, clock, cursors, tokens, errors), `graph` (the social graph and its store port),
`engines` (what implements the ports), `api` (HTTP), `transfer` (files in and out), `client` (for app code).
`app.py` alone wires engines to services; `docs/architecture.md` draws the house.
"""

__version__ = "0.1.0"
