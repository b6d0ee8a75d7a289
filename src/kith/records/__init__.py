"""Records of any kind, stored by kind and id beside the graph.

`store`: the port that engines implement. `rewriting`: the compare-and-set loop that changes a record. `claims`:
Idempotency-Keys. `fields`: checks of fields that several kinds share. `read_cache`: a process's cache of what it read,
which the log invalidates; its tables are in `cache_tables`. `upcoming_expiries`: edges that expire before the log
reports it.
"""
