"""The engine on Cassandra: edges, records and what else is larger than a machine. Its writes are decided by the owner
of a partition of the log of commands (see `log.commands`). See README.md.
"""
