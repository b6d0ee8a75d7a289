"""A second machine: what a primary gives its standbys (`source`, a port).
Who follows it is in `run/machines/following.py`."""
