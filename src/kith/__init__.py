"""Kith: follow graph, home feeds and notifications as one service.

A room is named by what a product person would call it. From the outside in: `commands` (the command line) · `run`
(settings, processes, wiring) · the doors `api` (HTTP, over `http`), `flockdb` (Thrift) and `web` (pages) · `access`
(who may do what, how often) · `home`, `stories`, `suggestions` · what tells of changes: `streams` (connected readers),
`watch` and `webhooks` (the app), `notifications` (users) · `boards`, `posts`, `media`, `people` (what users make, with
its rules) · `records`, `graph`, `log` (what is stored, whatever it means), `checks` (caches in front of the graph) ·
`outbound`, `leases`, `standby` · `moving` (from one store into another) · `core` (ids, clock, cursors, errors).
`engines` implement the ports of these rooms, and `client` is for app code.

Each knows only those below it; docs/architecture.md draws the house.
"""

__version__ = "0.1.0"
