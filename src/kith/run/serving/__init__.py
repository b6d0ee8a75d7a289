"""The processes of `kith serve` and `kith flockdb`.

`supervisor` (`kith serve` itself) · `children` (starts and replaces the other processes) · `server` (an API process),
`committing` (its committer), `worker` (follows the log), `flockdb` (FlockDB's door) · `processes` (code that these
share) · `heartbeats` (detects hanging processes) · `probes` (answers health probes of a worker).
"""
