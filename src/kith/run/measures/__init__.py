"""What is counted and told of a running Kith.

`metrics` (latencies, commits, calls), `gauges` (read when asked), `history` (the last hour of both) · `paced` (bounds
what telling them costs) · `observed` (times the calls of a port) · `media_size` (how much media there is).
"""
