"""A second machine: what a primary gives its standbys (`source`, a port). The standby's side is
`run/machines/following.py`."""
