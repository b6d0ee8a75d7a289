"""What a primary ships to its standbys (`source`, a port). The standby's side is `run/machines/following.py`."""
