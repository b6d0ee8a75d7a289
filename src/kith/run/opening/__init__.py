"""Opens what a process needs: the stores of one machine or of a cluster, their folder, and the keys.

`wiring` (settings to open stores; begin here) · `stores` (the ports, as the rest of the house takes them) ·
`one_machine` (those of a data folder), `cluster` (those of distributed engines) · `timelines`, `quotas` (on either) ·
`checks` (the caches in front of a distributed graph) · `folders` (where things lie in a data folder, and who holds
it) · `keys` (who is let in) · `inboxes` (filled anew for a restored store).
"""
