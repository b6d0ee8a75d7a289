"""The methods of both clients, written once. Each method runs a call that another module builds.

`Route` runs a plan: it returns the answer on `Kith`, and an awaitable of it on `AsyncKith`. `Walk` iterates over a
list, page by page: with `for` on `Kith`, with `async for` on `AsyncKith`. Both keep the call's signature and
docstring, and type checkers see the right type for each client.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from typing import Any, Generic, ParamSpec, TypeVar, cast, overload

from kith.client import (
    boards,
    comments,
    discovery,
    graphs,
    home,
    moderation,
    operations,
    posts,
    stories,
    uploads,
    users,
)
from kith.client import devices as where
from kith.client import notifications as notices
from kith.client import webhooks as hooks
from kith.client.answers import Page
from kith.client.wire import Call, CallPlan

P = ParamSpec("P")
T = TypeVar("T")


class Blocking(ABC):
    """A client whose methods block until the answer arrives."""

    @abstractmethod
    def _run(self, plan: CallPlan[T]) -> T: ...

    @abstractmethod
    def _walk(self, call: Call[Page[T]]) -> Iterator[T]: ...


class Awaiting(ABC):
    """A client whose methods are awaited."""

    @abstractmethod
    async def _run(self, plan: CallPlan[T]) -> T: ...

    @abstractmethod
    def _walk(self, call: Call[Page[T]]) -> AsyncGenerator[T, None]: ...


class Route(Generic[P, T]):
    """A method that runs the plan that `build` makes from its arguments."""

    def __init__(self, build: Callable[P, CallPlan[T]]) -> None:
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
    """A method that iterates over all items of a list and fetches each next page when it is needed."""

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
    """All calls as methods. A list `x` has two: `x(...)` iterates over all items, `x_page(...)` returns one page."""

    exists = Route(graphs.exists)
    exists_many = Route(graphs.exists_many)
    edge = Route(graphs.edge)
    write_edges = Route(graphs.write_edges)
    edges_out = Walk(graphs.edges_out)
    edges_out_page = Route(graphs.edges_out)
    edges_in = Walk(graphs.edges_in)
    edges_in_page = Route(graphs.edges_in)
    count_out = Route(graphs.count_out)
    count_in = Route(graphs.count_in)
    select = Walk(graphs.select)
    select_page = Route(graphs.select)
    select_count = Route(graphs.select_count)

    follow = Route(graphs.follow)
    unfollow = Route(graphs.unfollow)
    block = Route(graphs.block)
    unblock = Route(graphs.unblock)
    mute = Route(graphs.mute)
    unmute = Route(graphs.unmute)
    remove_follower = Route(graphs.remove_follower)
    follow_requests = Walk(graphs.follow_requests)
    follow_requests_page = Route(graphs.follow_requests)
    accept_follow_request = Route(graphs.accept_follow_request)
    decline_follow_request = Route(graphs.decline_follow_request)
    relationships = Route(graphs.relationships)

    suggestions = Walk(discovery.suggestions)
    suggestions_page = Route(discovery.suggestions)
    hide_suggestion = Route(discovery.hide_suggestion)
    unhide_suggestion = Route(discovery.unhide_suggestion)

    following = Walk(graphs.following)
    following_page = Route(graphs.following)
    followers = Walk(graphs.followers)
    followers_page = Route(graphs.followers)
    friends = Walk(graphs.friends)
    friends_page = Route(graphs.friends)
    mutuals = Walk(graphs.mutuals)
    mutuals_page = Route(graphs.mutuals)
    followers_you_know = Walk(graphs.followers_you_know)
    followers_you_know_page = Route(graphs.followers_you_know)

    blocked = Walk(users.blocked)
    blocked_page = Route(users.blocked)
    muted = Walk(users.muted)
    muted_page = Route(users.muted)

    user = Route(users.user)
    user_by_username = Route(users.user_by_username)
    search_users = Walk(users.search_users)
    search_users_page = Route(users.search_users)
    put_user = Route(users.put_user)
    patch_user = Route(users.patch_user)
    deactivate_user = Route(users.deactivate_user)
    reactivate_user = Route(users.reactivate_user)
    delete_user = Route(users.delete_user)
    lookup_users = Route(users.lookup_users)
    job = Route(operations.job)

    create_post = Route(posts.create_post)
    post = Route(posts.post)
    lookup_posts = Route(posts.lookup_posts)
    edit_post = Route(posts.edit_post)
    delete_post = Route(posts.delete_post)
    user_posts = Walk(posts.user_posts)
    user_posts_page = Route(posts.user_posts)
    mentions = Walk(posts.mentions)
    mentions_page = Route(posts.mentions)
    saved_posts = Walk(posts.saved_posts)
    saved_posts_page = Route(posts.saved_posts)
    post_likes = Walk(posts.post_likes)
    post_likes_page = Route(posts.post_likes)
    like_post = Route(posts.like_post)
    unlike_post = Route(posts.unlike_post)
    save_post = Route(posts.save_post)
    unsave_post = Route(posts.unsave_post)
    share_post = Route(posts.share_post)
    unshare_post = Route(posts.unshare_post)
    view_post = Route(posts.view_post)
    view_posts = Route(posts.view_posts)
    hide_post = Route(posts.hide_post)
    unhide_post = Route(posts.unhide_post)

    create_comment = Route(comments.create_comment)
    post_comments = Walk(comments.post_comments)
    post_comments_page = Route(comments.post_comments)
    comment_replies = Walk(comments.comment_replies)
    comment_replies_page = Route(comments.comment_replies)
    delete_comment = Route(comments.delete_comment)
    like_comment = Route(comments.like_comment)
    unlike_comment = Route(comments.unlike_comment)

    feed = Walk(home.feed)
    feed_page = Route(home.feed)
    why_post = Route(home.why_post)
    see_fewer = Route(home.see_fewer)
    see_as_before = Route(home.see_as_before)

    notifications_page = Route(notices.notifications)
    notifications = Walk(notices.notifications)
    unread_notifications = Route(notices.unread_notifications)
    mark_read = Route(notices.mark_read)
    mark_seen = Route(notices.mark_seen)
    report_mention = Route(notices.report_mention)
    preferences = Route(notices.preferences)
    put_preferences = Route(notices.put_preferences)

    add_device = Route(where.add_device)
    devices = Route(where.devices)
    device = Route(where.device)
    delete_device = Route(where.delete_device)

    upload_media = Route(uploads.upload_media)
    media = Route(uploads.media)
    edit_media = Route(uploads.edit_media)
    delete_media = Route(uploads.delete_media)

    create_story = Route(stories.create_story)
    story = Route(stories.story)
    delete_story = Route(stories.delete_story)
    view_story = Route(stories.view_story)
    story_viewers = Walk(stories.story_viewers)
    story_viewers_page = Route(stories.story_viewers)
    story_strip = Walk(stories.story_strip)
    story_strip_page = Route(stories.story_strip)
    user_stories = Walk(stories.user_stories)
    user_stories_page = Route(stories.user_stories)

    create_board = Route(boards.create_board)
    board = Route(boards.board)
    edit_board = Route(boards.edit_board)
    delete_board = Route(boards.delete_board)
    move_board = Route(boards.move_board)
    merge_board = Route(boards.merge_board)
    user_boards = Walk(boards.user_boards)
    user_boards_page = Route(boards.user_boards)
    invite_collaborator = Route(boards.invite_collaborator)
    dismiss_collaborator = Route(boards.dismiss_collaborator)
    board_collaborators = Walk(boards.board_collaborators)
    board_collaborators_page = Route(boards.board_collaborators)
    collaborations = Walk(boards.collaborations)
    collaborations_page = Route(boards.collaborations)
    follow_board = Route(boards.follow_board)
    unfollow_board = Route(boards.unfollow_board)
    follows_board = Route(boards.follows_board)
    check_boards = Route(boards.check_boards)
    board_followers = Walk(boards.board_followers)
    board_followers_page = Route(boards.board_followers)
    count_board_followers = Route(boards.count_board_followers)
    boards_followed = Walk(boards.boards_followed)
    boards_followed_page = Route(boards.boards_followed)
    boards_unfollowed = Walk(boards.boards_unfollowed)
    boards_unfollowed_page = Route(boards.boards_unfollowed)
    implicit_following = Walk(boards.implicit_following)
    implicit_following_page = Route(boards.implicit_following)
    implicit_followers = Walk(boards.implicit_followers)
    implicit_followers_page = Route(boards.implicit_followers)
    interests = Route(boards.interests)
    pin_post = Route(boards.pin_post)
    unpin_post = Route(boards.unpin_post)
    board_pins = Walk(boards.board_pins)
    board_pins_page = Route(boards.board_pins)

    labels = Route(moderation.labels)
    put_labels = Route(moderation.put_labels)
    delete_labels = Route(moderation.delete_labels)

    create_webhook = Route(hooks.create_webhook)
    webhooks = Route(hooks.webhooks)
    webhook = Route(hooks.webhook)
    delete_webhook = Route(hooks.delete_webhook)
    webhook_dead_letters = Route(hooks.webhook_dead_letters)
    replay_webhook = Route(hooks.replay_webhook)

    is_alive = Route(operations.is_alive)
    is_ready = Route(operations.is_ready)
