"""/users/{id}/suggestions: people you may know, and those one does not want suggested."""

from __future__ import annotations

from typing import Literal

import msgspec

from kith.access.policy import check_own_read
from kith.api.answers import Pagination, Time
from kith.api.call import Call
from kith.api.operations import delete, get, post
from kith.api.parameters import Cursor, Id, Limit
from kith.api.presenter import time_of
from kith.people.relations import RelationWritten
from kith.suggestions.suggestions import Suggestions


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
    computed_at: Time | None


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


class SuggestionsResource:
    """People a user may know."""

    def __init__(self, suggestions: Suggestions) -> None:
        self._suggestions = suggestions

    @get("/users/{user_id}/suggestions", "People a user may know")
    async def suggestions(
        self, call: Call, user_id: Id, limit: Limit = None, cursor: Cursor = None
    ) -> SuggestionsAnswer:
        """The user themself, or `X-Kith-User: system`.

        Of the 500 newest followees and the 500 newest of each; up to 1,000 people.

        Most mutual followees first. Kept for a while (`suggestions_minutes`); whom the user followed, blocked, muted or
        hid meanwhile, and who blocked them, left, or was labelled away by the app, is never in it. The user's own
        follows make it anew.
        """
        check_own_read(call.caller, user_id)
        list_key = f"suggestions {user_id}"
        found = await self._suggestions.page(user_id, call.window(list_key, limit, cursor))
        at = found.computed_at_ms
        return SuggestionsAnswer(
            [SuggestionItem(str(one.id), one.mutual_count, [str(face) for face in one.mutuals]) for one in found.items],
            call.pagination(list_key, found.page),
            SuggestionsMeta(found.source, None if at is None else time_of(at)),
        )

    @post("/users/{user_id}/hide-suggestion", "Do not suggest a user", callers="acting")
    async def hide_suggestion(self, call: Call, user_id: Id) -> SuggestionHidden:
        """From now on, to the acting user only. Repeating it changes nothing."""
        return _hidden(call, await self._suggestions.hide(call.acting, user_id))

    @delete("/users/{user_id}/hide-suggestion", "Suggest a user again", callers="acting")
    async def unhide_suggestion(self, call: Call, user_id: Id) -> SuggestionHidden:
        """Takes `hide-suggestion` back. Repeating it changes nothing."""
        return _hidden(call, await self._suggestions.unhide(call.acting, user_id))


def _hidden(call: Call, written: RelationWritten) -> SuggestionHidden:
    return SuggestionHidden(written.holds, written.changed, call.wrote(written.mark))
