"""/users/{id}/suggestions: people you may know, and those one does not want suggested."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec
from litestar import Response, delete, get, post

from kith.api.answers import Call
from kith.api.backend import Pagination, check_own
from kith.api.graphs import Cursor, Limit, PathId, token_header
from kith.api.presenting import time_of
from kith.core.ids import parse_id
from kith.people.relations import RelationWritten


class SuggestionItem(msgspec.Struct, frozen=True, rename="camel"):
    """Someone to follow. `mutualCount`: how many of the user's followees follow them; `mutuals`: up to 3 of these."""

    id: str
    mutual_count: int
    mutuals: list[str]


class SuggestionsMeta(msgspec.Struct, frozen=True, rename="camel"):
    """What the list was made of, and when.

    network: the followees' followees. popular: nobody was found there, so the most followed accounts, as counted by
    the last `kith suggest`. none: nobody was found, and that job never ran.
    """

    source: Literal["network", "popular", "none"]
    computed_at: datetime | None


class SuggestionsAnswer(msgspec.Struct, frozen=True):
    """A page of suggestions, best first."""

    items: list[SuggestionItem]
    pagination: Pagination
    meta: SuggestionsMeta


class SuggestionHidden(msgspec.Struct, frozen=True):
    """Whether the acting user no longer wants them suggested, and whether that is new. Nobody else learns of it."""

    hidden: bool
    changed: bool
    token: str | None


@get("/users/{user_id:str}/suggestions", summary="People a user may know", name="suggestions")
async def suggestions(call: Call, user_id: PathId, limit: Limit = None, cursor: Cursor = None) -> SuggestionsAnswer:
    """The user themself, or a server key. Of the 500 newest followees and the 500 newest of each; up to 1,000 people.

    Most mutual followees first. Kept for a while (`suggestions_minutes`); whom the user followed, blocked, muted or hid
    meanwhile, and who blocked them, left, or was labelled away by the app, is never in it. The user's own follows make
    it anew.
    """
    user, query = parse_id(user_id), f"suggestions {user_id}"
    check_own(call.caller, user)
    found = await call.backend.suggestions.page(user, call.window(query, limit, cursor))
    at = found.computed_at_ms
    return SuggestionsAnswer(
        [SuggestionItem(str(one.id), one.mutual_count, [str(face) for face in one.mutuals]) for one in found.items],
        call.backend.paging(call.caller, query, found.page),
        SuggestionsMeta(found.source, None if at is None else time_of(at)),
    )


@post("/users/{user_id:str}/hide-suggestion", summary="Do not suggest a user", status_code=200, name="hide_suggestion")
async def hide_suggestion(call: Call, user_id: PathId) -> Response[SuggestionHidden]:
    """From now on, to the acting user only. Repeating it changes nothing."""
    return _hidden(call, await call.backend.suggestions.hide(call.acting, parse_id(user_id)))


@delete(
    "/users/{user_id:str}/hide-suggestion", summary="Suggest a user again", status_code=200, name="unhide_suggestion"
)
async def unhide_suggestion(call: Call, user_id: PathId) -> Response[SuggestionHidden]:
    """Takes `hide-suggestion` back. Repeating it changes nothing."""
    return _hidden(call, await call.backend.suggestions.unhide(call.acting, parse_id(user_id)))


def _hidden(call: Call, written: RelationWritten) -> Response[SuggestionHidden]:
    token = call.backend.token(written.mark)
    return Response(SuggestionHidden(written.holds, written.changed, token), headers=token_header(token))


ROUTES = [suggestions, hide_suggestion, unhide_suggestion]
