"""The processes of `kith serve` and `kith flockdb`.

`supervisor` (`kith serve` itself) · `children` (starts and replaces the others) · `server` (answers requests),
`committing` (what writes for it), `worker` (follows the log), `flockdb` (FlockDB's door) · `processes` (what these
share) · `heartbeats` (whether they still run) · `probes` (of a worker, for who runs it).
"""
