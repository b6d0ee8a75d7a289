"""How Kith runs.

`config`, `limits`, `push_keys` (settings, and what services take of them) · `opening/` (what a process has open:
stores, folder, keys) · `posts_and_notices` (over these, in every kind of process), `services` (in that of the API),
`api` (resources over services, and the door) · `consumers` (the registry of workers) · `deciding` (the worker that
decides the writes of distributed engines) · `serving/` (the processes of `kith serve`) · `measures/` (what is counted
and told) · `machines/` (a primary and its standbys) · `backups/` (wholes and increments of a store, by themselves) ·
`moves/` (a folder into a cluster, and back) · `audits` (what `kith audit` does, over open stores), `audit_process`
(that as a process of its own, for the console) · `logs` (lines that processes print).
"""
