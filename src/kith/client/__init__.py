"""The Python client, for app code: `Kith` (sync) and `AsyncKith` (async) with the same methods.

Rooms: `calls` (every call of the contract), `routes` (the same as methods), `clients` (what does I/O),
`wire` (requests, retries, tokens, errors, without I/O), `answers` (records), `programs` (set programs: `out`,
`in_`), `errors`. It needs `kith.core`, httpx and msgspec only; `docs/client.md` shows it in use.
"""

from kith.client.answers import (
    Block,
    Changed,
    Direction,
    Edge,
    EdgeWrite,
    Follow,
    Id,
    Job,
    ListedEdge,
    ListedNode,
    Mute,
    Op,
    Page,
    Profile,
    Relationship,
    State,
    Written,
)
from kith.client.clients import AsyncKith, Kith
from kith.client.errors import ApiError, ClientError, Unreachable
from kith.client.programs import Program, in_, out
from kith.client.wire import Retry

__all__ = [
    "ApiError",
    "AsyncKith",
    "Block",
    "Changed",
    "ClientError",
    "Direction",
    "Edge",
    "EdgeWrite",
    "Follow",
    "Id",
    "Job",
    "Kith",
    "ListedEdge",
    "ListedNode",
    "Mute",
    "Op",
    "Page",
    "Profile",
    "Program",
    "Relationship",
    "Retry",
    "State",
    "Unreachable",
    "Written",
    "in_",
    "out",
]
