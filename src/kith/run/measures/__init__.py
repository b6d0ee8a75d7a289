"""Metrics of a running Kith.

`metrics` (counters and histograms: latencies, commits, calls) · `gauges` (read on request) · `descriptions` (what each
gauge says) · `history` (the last hour of both) · `paced` (rate-limits rendering) · `observed` (times the calls of a
port) · `media_size` (how much media there is).
"""
