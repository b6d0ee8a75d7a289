"""The engine on Redis Cluster (or Valkey): what is fast to write, and can be built again. See README.md.

`timeline_store`, `quota_store`, `set_store` and `activity_store` implement ports, each with a script in Lua that
`script` runs, over `links` to the nodes. `buckets` (which users lie together) · `connecting`.
"""
