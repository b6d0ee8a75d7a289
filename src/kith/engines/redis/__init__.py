"""The engine on Redis Cluster (or Valkey): data that must be fast to write, and can be rebuilt. See README.md.

`timeline_store`, `quota_store`, `set_store` and `activity_store` implement ports, each with a Lua script. `script` runs
the scripts, over `links` (pipelined connections to the nodes). `buckets` (which users share a node) · `connecting`.
"""
