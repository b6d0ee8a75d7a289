"""Opens what a process needs: the stores of one machine or of a cluster, their folder, and the keys.

`stores` (the ports, as the rest of the house takes them) · `one_machine` (those of a data folder), `cluster` (those of
distributed engines) · `timelines`, `quotas` (on either) · `wiring` (settings to open stores) · `folders` (where
things lie in a data folder, and who holds it) · `keys` (who is let in) · `inboxes` (filled anew for a restored store).
"""
