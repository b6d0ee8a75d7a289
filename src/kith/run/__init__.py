"""How Kith runs.

`config`, `limits` (settings) · `folders`, `keys` (a data folder) · `wiring` (engines to services) · `consumers` (the
registry of workers), `gauges` · `supervisor` (the process of `kith serve`), `processes` (those it starts) · `logs`.
"""
