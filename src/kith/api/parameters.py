"""What requests of several resources say in their paths, queries and headers."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from kith.api.answers import OBJECTS_MAX
from kith.api.operations import Header
from kith.core.ids import NodeId
from kith.core.paging import LIMIT_DEFAULT, LIMIT_MAX
from kith.graph.edge import POSITION_MAX, POSITION_MIN
from kith.people.name_sorter import SORTED_MAX

GraphName = Annotated[str, Meta(description="Name of a graph.", examples=["follows"])]
Id = Annotated[NodeId, Meta(description="64-bit id, decimal.", examples=["1"])]
"""An id in a path; the handler gets it as a number."""
Limit = Annotated[int | None, Meta(description=f"Items a page, 1 to {LIMIT_MAX}; default {LIMIT_DEFAULT}.")]
ObjectLimit = Annotated[int | None, Meta(description=f"Items a page, 1 to {OBJECTS_MAX}; default {LIMIT_DEFAULT}.")]
Cursor = Annotated[str | None, Meta(description="Where to continue: a cursor from a page's `pagination`.")]
Since = Annotated[
    int | None,
    Meta(
        description="Only positions (ms since the epoch unless the app chose otherwise) from here on, inclusive.",
        ge=POSITION_MIN,
        le=POSITION_MAX,
    ),
]
Until = Annotated[
    int | None, Meta(description="Only positions before this one, exclusive.", ge=POSITION_MIN, le=POSITION_MAX)
]
Sort = Annotated[Literal["name"] | None, Meta(description="By name, instead of newest first.")]
NamePrefix = Annotated[
    str | None,
    Meta(
        description="Only people whose username, display name or a word of it begins with this, ignoring case; sorted "
        f"by name. Of a list of more than {SORTED_MAX:,} people only the newest are searched, and `partial` is true."
    ),
]
StateName = Annotated[Literal["normal", "negative", "archived", "removed"], Meta(description="State of the edges.")]
IdempotencyKey = Annotated[
    str | None,
    Header("Idempotency-Key"),
    Meta(description="A repeated request with the same key and content within 24 h creates nothing new."),
]
