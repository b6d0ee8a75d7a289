"""The connections of a process to a Redis Cluster. A node that does not answer in time counts as down."""

from __future__ import annotations

from typing import Any

from redis.asyncio.cluster import ClusterNode, RedisCluster

from kith.core.errors import BadRequest
from kith.engines.redis.links import Links

ANSWER_TIMEOUT_S = 2.0
"""How long a node may take to answer before it counts as down."""
_PORT = 6379


class LinkedCluster(RedisCluster):
    """The cluster's client, together with links to its nodes."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.links = Links(ANSWER_TIMEOUT_S)

    async def aclose(self) -> None:
        self.links.close()
        await super().aclose()


def connect(nodes: str, password: str = "") -> LinkedCluster:
    """A client of the cluster with these nodes, as HOST:PORT,HOST:PORT; it discovers the others. End it with `aclose`.

    It connects with the first call, so processes start while the cluster is down. BadRequest for an invalid name.
    """
    return LinkedCluster(
        startup_nodes=[_node(address) for address in nodes.split(",")],
        password=password or None,
        socket_timeout=ANSWER_TIMEOUT_S,
        socket_connect_timeout=ANSWER_TIMEOUT_S,
    )


def _node(address: str) -> ClusterNode:
    host, _, port = address.strip().rpartition(":") if ":" in address else (address.strip(), "", str(_PORT))
    if not host or not port.isdecimal():
        raise BadRequest(f"{address!r} names no node of a Redis Cluster; write HOST:PORT,HOST:PORT")
    return ClusterNode(host.strip("[]"), int(port))
