"""The Python client, for app code: `Kith` (sync) and `AsyncKith` (async) with the same methods.

Rooms: `calls` (the calls about the graph and users), `content` (those about what people make), `discovery` (about
people to follow), `routes` (the same as methods), `clients` (what does I/O), `wire` (requests, retries, tokens, errors,
without I/O), `streams` (the feed as it happens), `answers` (records), `programs` (set programs), `errors`.
It needs `kith.core`, httpx and msgspec only; `docs/client.md` shows it in use.
"""

from kith.client.answers import (
    Author,
    Block,
    Changed,
    Content,
    Direction,
    Edge,
    EdgeWrite,
    Engagement,
    Follow,
    HiddenSuggestion,
    Id,
    Job,
    Labels,
    ListedEdge,
    ListedNode,
    Location,
    Mute,
    Op,
    Page,
    Post,
    Profile,
    Relationship,
    State,
    Story,
    StoryViewer,
    StripEntry,
    Suggestion,
    Written,
)
from kith.client.clients import AsyncKith, Kith
from kith.client.errors import ApiError, ClientError, Unreachable
from kith.client.programs import Program, in_, out
from kith.client.streams import EngagementUpdate, FeedEvent, FeedReset, NewPost, PostRemoved
from kith.client.wire import Retry

__all__ = [
    "ApiError",
    "AsyncKith",
    "Author",
    "Block",
    "Changed",
    "ClientError",
    "Content",
    "Direction",
    "Edge",
    "EdgeWrite",
    "Engagement",
    "EngagementUpdate",
    "FeedEvent",
    "FeedReset",
    "Follow",
    "HiddenSuggestion",
    "Id",
    "Job",
    "Kith",
    "Labels",
    "ListedEdge",
    "ListedNode",
    "Location",
    "Mute",
    "NewPost",
    "Op",
    "Page",
    "Post",
    "PostRemoved",
    "Profile",
    "Program",
    "Relationship",
    "Retry",
    "State",
    "Story",
    "StoryViewer",
    "StripEntry",
    "Suggestion",
    "Unreachable",
    "Written",
    "in_",
    "out",
]
