"""How Kith runs.

Settings: `config` (the table of settings) · `limits`, `push_keys` (limits and push credentials made from settings).
Wiring: `opening/` (opens stores, folder and keys) · `posts_and_notices` (services that every kind of process needs) ·
`services` (services of an API process) · `api` (resources over services, and the door) · `consumers` (the registry of
workers) · `deciding` (the worker that decides the writes of distributed engines).
Processes: `serving/` (the processes of `kith serve`) · `machines/` (a primary and its standbys) · `backups/` (full and
incremental backups on a schedule) · `moves/` (moves a folder into a cluster, and back).
Operations: `measures/` (metrics and their history) · `audits` (what `kith audit` does over open stores) ·
`audit_process` (runs an audit in its own process, for the console) · `logs` (how processes log).
"""
