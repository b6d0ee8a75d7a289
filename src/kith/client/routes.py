"""The methods of both clients, written once: each name is a call of `calls`, run the client's own way.

`Route` runs a plan: it returns the answer on `Kith` and an awaitable of it on `AsyncKith`. `Walk` iterates
over a list, page after page: with `for` on `Kith`, with `async for` on `AsyncKith`. Both keep the signature
and docstring of the call, and type checkers see the right kind for each client.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from typing import Any, Generic, ParamSpec, TypeVar, cast, overload

from kith.client import calls, content, discovery
from kith.client.answers import Page
from kith.client.wire import Call, Plan

P = ParamSpec("P")
T = TypeVar("T")


class Blocking(ABC):
    """A client whose methods return when the answer is there."""

    @abstractmethod
    def _run(self, plan: Plan[T]) -> T: ...

    @abstractmethod
    def _walk(self, call: Call[Page[T]]) -> Iterator[T]: ...


class Awaiting(ABC):
    """A client whose methods are awaited."""

    @abstractmethod
    async def _run(self, plan: Plan[T]) -> T: ...

    @abstractmethod
    def _walk(self, call: Call[Page[T]]) -> AsyncGenerator[T, None]: ...


class Route(Generic[P, T]):
    """A method that runs the plan which `build` makes of its arguments."""

    def __init__(self, build: Callable[P, Plan[T]]) -> None:
        self._build = build
        functools.update_wrapper(cast(Any, self), build)

    @overload
    def __get__(self, client: None, owner: type) -> Route[P, T]: ...
    @overload
    def __get__(self, client: Blocking, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: Awaiting, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...

    def __get__(self, client: Any, owner: type) -> Any:
        if client is None:
            return self

        @functools.wraps(self._build)
        def method(*args: P.args, **kwargs: P.kwargs) -> Any:
            return client._run(self._build(*args, **kwargs))

        return method


class Walk(Generic[P, T]):
    """A method that iterates over all items of a list, fetching the next page when one is used up."""

    def __init__(self, build: Callable[P, Call[Page[T]]]) -> None:
        self._build = build
        functools.update_wrapper(cast(Any, self), build)

    @overload
    def __get__(self, client: None, owner: type) -> Walk[P, T]: ...
    @overload
    def __get__(self, client: Blocking, owner: type) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, client: Awaiting, owner: type) -> Callable[P, AsyncGenerator[T, None]]: ...

    def __get__(self, client: Any, owner: type) -> Any:
        if client is None:
            return self

        @functools.wraps(self._build)
        def method(*args: P.args, **kwargs: P.kwargs) -> Any:
            return client._walk(self._build(*args, **kwargs))

        return method


class Routes:
    """The contract as methods. A list `x` comes as `x(...)`, all its items, and `x_page(...)`, one page."""

    exists = Route(calls.exists)
    exists_many = Route(calls.exists_many)
    edge = Route(calls.edge)
    write_edges = Route(calls.write_edges)
    edges_out = Walk(calls.edges_out)
    edges_out_page = Route(calls.edges_out)
    edges_in = Walk(calls.edges_in)
    edges_in_page = Route(calls.edges_in)
    count_out = Route(calls.count_out)
    count_in = Route(calls.count_in)
    select = Walk(calls.select)
    select_page = Route(calls.select)
    select_count = Route(calls.select_count)

    follow = Route(calls.follow)
    unfollow = Route(calls.unfollow)
    block = Route(calls.block)
    unblock = Route(calls.unblock)
    mute = Route(calls.mute)
    unmute = Route(calls.unmute)
    remove_follower = Route(calls.remove_follower)
    follow_requests = Walk(calls.follow_requests)
    follow_requests_page = Route(calls.follow_requests)
    accept_follow_request = Route(calls.accept_follow_request)
    decline_follow_request = Route(calls.decline_follow_request)
    relationships = Route(calls.relationships)

    suggestions = Walk(discovery.suggestions)
    suggestions_page = Route(discovery.suggestions)
    hide_suggestion = Route(discovery.hide_suggestion)
    unhide_suggestion = Route(discovery.unhide_suggestion)

    following = Walk(calls.following)
    following_page = Route(calls.following)
    followers = Walk(calls.followers)
    followers_page = Route(calls.followers)
    friends = Walk(calls.friends)
    friends_page = Route(calls.friends)
    mutuals = Walk(calls.mutuals)
    mutuals_page = Route(calls.mutuals)
    followers_you_know = Walk(calls.followers_you_know)
    followers_you_know_page = Route(calls.followers_you_know)

    user = Route(calls.user)
    user_by_username = Route(calls.user_by_username)
    put_user = Route(calls.put_user)
    patch_user = Route(calls.patch_user)
    deactivate_user = Route(calls.deactivate_user)
    reactivate_user = Route(calls.reactivate_user)
    delete_user = Route(calls.delete_user)
    job = Route(calls.job)

    lookup_posts = Route(content.lookup_posts)
    lookup_users = Route(content.lookup_users)
    create_story = Route(content.create_story)
    story = Route(content.story)
    delete_story = Route(content.delete_story)
    view_story = Route(content.view_story)
    story_viewers = Walk(content.story_viewers)
    story_viewers_page = Route(content.story_viewers)
    story_strip = Walk(content.story_strip)
    story_strip_page = Route(content.story_strip)
    user_stories = Walk(content.user_stories)
    user_stories_page = Route(content.user_stories)

    labels = Route(content.labels)
    put_labels = Route(content.put_labels)
    delete_labels = Route(content.delete_labels)

    is_alive = Route(calls.is_alive)
    is_ready = Route(calls.is_ready)
