"""/users/{id}/suggestions: people you may know; and hiding somebody from them."""

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
    """A user to follow. `mutualCount`: how many of the acting user's followees follow them. `mutuals`: up to 3 of
    these.
    """

    id: str
    mutual_count: int
    mutuals: list[str]


class SuggestionsMeta(msgspec.Struct, frozen=True, rename="camel"):
    """What the list was computed from, and when.

    network: the followees of the user's followees. popular: the network gave nobody, so these are the most followed
    accounts as of the last `kith suggest`. none: the network gave nobody, and `kith suggest` has never run.
    """

    source: Literal["network", "popular", "none"]
    computed_at: Time | None


class SuggestionsAnswer(msgspec.Struct, frozen=True):
    """A page of suggestions, best first."""

    items: list[SuggestionItem]
    pagination: Pagination
    meta: SuggestionsMeta


class SuggestionHidden(msgspec.Struct, frozen=True):
    """Whether the user is hidden from the acting user's suggestions, and whether this request changed that. Nobody else
    can see it.
    """

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
        """Only the user, or `X-Kith-User: system`, may read this list.

        Considers the 500 newest followees, and the 500 newest followees of each; returns up to 1,000 people.

        Most mutual followees first. The ranking is cached for `suggestions_minutes`; the user's own follows refresh it.
        Every page leaves out users whom the user follows, blocks, mutes or hides by now, and users who have blocked the
        user, left, or been hidden by the app's labels.
        """
        check_own_read(call.caller, user_id)
        list_key = f"suggestions {user_id}"
        ranking = await self._suggestions.page(user_id, call.window(list_key, limit, cursor))
        computed_at_ms = ranking.computed_at_ms
        return SuggestionsAnswer(
            [
                SuggestionItem(str(suggestion.id), suggestion.mutual_count, [str(face) for face in suggestion.mutuals])
                for suggestion in ranking.items
            ],
            call.pagination(list_key, ranking.page),
            SuggestionsMeta(ranking.source, None if computed_at_ms is None else time_of(computed_at_ms)),
        )

    @post("/users/{user_id}/hide-suggestion", "Do not suggest a user", callers="acting")
    async def hide_suggestion(self, call: Call, user_id: Id) -> SuggestionHidden:
        """Takes effect at once, for the acting user only. Repeating it changes nothing."""
        return _hidden(call, await self._suggestions.hide(call.acting_user, user_id))

    @delete("/users/{user_id}/hide-suggestion", "Suggest a user again", callers="acting")
    async def unhide_suggestion(self, call: Call, user_id: Id) -> SuggestionHidden:
        """Undoes `hide-suggestion`. Repeating it changes nothing."""
        return _hidden(call, await self._suggestions.unhide(call.acting_user, user_id))


def _hidden(call: Call, written: RelationWritten) -> SuggestionHidden:
    return SuggestionHidden(written.holds, written.changed, call.note_write(written.mark))
