"""What a process has open: the stores of one machine or of a cluster, the folder they lie in, the keys beside them.

`stores` (the ports, as the rest of the house takes them) · `one_machine` (those of a data folder), `cluster` (those of
distributed engines) · `timelines`, `quotas` (on either) · `wiring` (settings to open stores) · `folders` (where
things lie in a data folder, and who holds it) · `keys` (who is let in) · `inboxes` (filled anew for a restored store).
"""
