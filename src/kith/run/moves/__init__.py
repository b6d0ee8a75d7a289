"""A data folder moves into a cluster while it is live: what `kith move` does.

`progress` is what is noted of a move, in a file of the folder; `opening` opens both sides; `mover` is what both ways
share, `places` where consumers go on; `comparison` compares the two at rest; `forth` copies, follows,
switches behind a fence; `back` takes what the cluster was written since into the folder. docs/decisions/0045-moving.md
says why so.
"""
