"""Calls about suggested people to follow. As in `graphs`, nothing is sent here."""

from __future__ import annotations

from kith.client.answers import HiddenSuggestion, Id, Page, Suggestion
from kith.client.asking import PAGE_SIZE, listed, reader, user_path
from kith.client.wire import Call

_suggestions = reader(Page[Suggestion])
_hidden = reader(HiddenSuggestion)


def suggestions(user: Id, *, page_size: int = PAGE_SIZE, cursor: str | None = None) -> Call[Page[Suggestion]]:
    """People whom `user` may know, most mutual followees first. For `user`, or with a server key."""
    return listed(f"{user_path(user)}/suggestions", _suggestions, page_size, cursor)


def hide_suggestion(user: Id) -> Call[HiddenSuggestion]:
    """Stop suggesting `user` to the acting user."""
    return Call("POST", f"{user_path(user)}/hide-suggestion", _hidden)


def unhide_suggestion(user: Id) -> Call[HiddenSuggestion]:
    """Suggest `user` to the acting user again."""
    return Call("DELETE", f"{user_path(user)}/hide-suggestion", _hidden)
