"""How Kith runs.

`config`, `limits` (settings) · `folders`, `keys` (a data folder) · `stores` (what a process has open),
`one_machine` (those of a data folder), `cluster` (those of distributed engines), `timelines`, `quotas` (on either) ·
`wiring` (engines to ports) · `services` (of an API process), `api` (resources over them, and the door) ·
`consumers` (the registry of workers) · `metrics`, `gauges`, `history` (the last hour of them), `audits` (run for the
console) ·
`supervisor` (the process of `kith serve`) · `server`, `worker` (those it starts), `processes` (what these share),
`heartbeats` (whether they still run) · `backups` (wholes and increments of a store, by themselves) · `inboxes` (filled
anew for a restored store) · `logs`.
"""
