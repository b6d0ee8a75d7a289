"""The engine on Redis Cluster (or Valkey): what is fast to write, and can be built again. See README.md."""
