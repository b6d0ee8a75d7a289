"""Opens what a process needs: the stores of one machine or of a cluster, their folder, and the keys.

`wiring` (opens the stores that the settings name; begin here) · `stores` (the open stores, as ports) ·
`one_machine` (stores of a data folder), `cluster` (stores of distributed engines) · `timelines`, `quotas` (on either) ·
`checks` (the caches in front of a distributed graph) · `folders` (paths in a data folder, and its locks) ·
`keys` (server keys and signing secrets) · `inboxes` (refills the inboxes of a restored store).
"""
