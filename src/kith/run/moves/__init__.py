"""Moves a live data folder into a cluster, and back: what `kith move` does.

`to_cluster` copies the folder, follows its log, and switches behind a fence · `to_folder` applies the cluster's later
writes to the folder · `mover` (steps of both ways) · `resume_positions` (where consumers resume) · `progress`
(checkpoints of a move, in a file of the folder) · `opening` (opens both sides) · `comparison` (compares two stores at
rest). docs/decisions/0045-moving.md says why it is built this way.
"""
