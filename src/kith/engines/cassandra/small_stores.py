"""The stores in Cassandra that need no owner: leases, credentials, rankings, the state of fan-out, and inboxes.

Any process writes their rows: each row is independent of others, or changed by compare and set. None of it is in the
log.
"""

from __future__ import annotations

from kith.engines.cassandra.credential_store import SECRETS, SERVER_KEYS, CassandraCredentials
from kith.engines.cassandra.fanout_state import FANOUT_STATE, CassandraFanoutState
from kith.engines.cassandra.inbox_store import INBOX_PERIODS, INBOX_ROWS, CassandraInboxes
from kith.engines.cassandra.lease_store import LEASES, CassandraLeases
from kith.engines.cassandra.suggestion_store import SUGGESTIONS, CassandraSuggestions

__all__ = [
    "SMALL_TABLES",
    "CassandraCredentials",
    "CassandraFanoutState",
    "CassandraInboxes",
    "CassandraLeases",
    "CassandraSuggestions",
]

SMALL_TABLES = (LEASES, SERVER_KEYS, SECRETS, SUGGESTIONS, FANOUT_STATE, INBOX_PERIODS, INBOX_ROWS)
