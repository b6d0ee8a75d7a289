"""Events of the log read as feed changes, and the effect of each kind: on live streams, and on a resuming reader."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kith.core.clock import Hlc
from kith.core.events import BULK_LOADED, RECORD_CHANGED, USER_CHANGED, Event, user_changed
from kith.core.ids import NodeId
from kith.engines.embedded.history import History, StorePositions
from kith.graph.edge import State
from kith.graph.graphs import BUILT_IN, Graphs
from kith.notifications.notice import Notice, notice_record
from kith.records.store import RecordKind
from kith.streams.changes import (
    AccountChanged,
    AuthorMuted,
    AuthorUnfollowed,
    FeedChange,
    FollowersNotified,
    FollowersUnread,
    FollowReturned,
    GraphLoaded,
    NoticeMade,
    NumbersChanged,
    PostDeleted,
    PostEdited,
    PostHidden,
    PostMade,
    RequestEnded,
    UnreadChanged,
    UserBlocked,
    missed_since,
)
from kith.streams.interpreter import Interpreter
from kith.streams.positions import Step, StreamPosition

ALICE, BOB, CAROL, POST, COMMENT = NodeId(1), NodeId(2), NodeId(3), 500, 600
GRAPHS = Graphs({name: at for at, name in enumerate(BUILT_IN, 1)})
NORMAL, REMOVED, ARCHIVED = State.NORMAL, State.REMOVED, State.ARCHIVED


at = StorePositions(History()).of
STEP = Step(7, at(7), at(6), at(7))


def event(graph: str, source: int, destination: int, before: int | None, state: int) -> Event:
    return Event(GRAPHS.number(graph), before, state, source, destination, 0, Hlc(0))


CHANGES = {
    "a new post": (event("authored", ALICE, POST, None, NORMAL), PostMade(STEP, ALICE, POST)),
    "an edit": (event("authored", ALICE, POST, NORMAL, NORMAL), PostEdited(STEP, ALICE, POST, 0)),
    "a deletion": (event("authored", ALICE, POST, NORMAL, REMOVED), PostDeleted(STEP, ALICE, POST)),
    "an author is deactivated": (
        event("authored", ALICE, POST, NORMAL, ARCHIVED),
        PostEdited(STEP, ALICE, POST, 0, archived=True),
    ),
    "a like": (event("likes", BOB, POST, None, NORMAL), NumbersChanged(STEP, POST)),
    "a like is undone": (event("likes", BOB, POST, NORMAL, REMOVED), NumbersChanged(STEP, POST)),
    "a second share": (event("shares", BOB, POST, REMOVED, NORMAL), NumbersChanged(STEP, POST)),
    "a comment": (event("comments", POST, COMMENT, None, NORMAL), NumbersChanged(STEP, POST)),
    "a reply": (event("post_replies", POST, COMMENT, None, NORMAL), NumbersChanged(STEP, POST)),
    "a block": (event("blocks", ALICE, BOB, None, NORMAL), UserBlocked(STEP, ALICE, BOB)),
    "a mute": (event("mutes", ALICE, BOB, None, NORMAL), AuthorMuted(STEP, ALICE, BOB)),
    "a hidden post": (event("hides", ALICE, POST, None, NORMAL), PostHidden(STEP, ALICE, POST)),
    "an unfollow": (event("follows", ALICE, BOB, NORMAL, REMOVED), AuthorUnfollowed(STEP, ALICE, BOB)),
    "a follow returns with a reactivated account": (
        event("follows", ALICE, BOB, ARCHIVED, NORMAL),
        FollowReturned(STEP, ALICE, BOB),
    ),
    "a request is answered": (event("follow_requests", BOB, ALICE, NORMAL, REMOVED), RequestEnded(STEP, BOB, ALICE)),
    "follows are loaded": (event("follows", 0, 0, None, BULK_LOADED), GraphLoaded(STEP)),
    "an account is made private": (Event(0, None, USER_CHANGED, ALICE, 0, 0, Hlc(0)), AccountChanged(STEP, ALICE)),
    "the app hides them no more": (
        user_changed(ALICE, Hlc(0), shown=True),
        AccountChanged(STEP, ALICE, shown=True),
    ),
}

TOLD = notice_record(Notice(900, "like", ALICE, BOB, 0, POST), Hlc(0))
RECORDS = {
    "a notice": (Event(0, None, RECORD_CHANGED, TOLD.kind, TOLD.id, 0, Hlc(0), data=TOLD.data), [
        NoticeMade(STEP, BOB, 900), UnreadChanged(STEP, BOB),
    ]),
    "notices are read": (
        Event(0, None, RECORD_CHANGED, RecordKind.NOTICE_MARKS, BOB, 0, Hlc(0)), [UnreadChanged(STEP, BOB)],
    ),
    "followers are told of a mention": (
        Event(0, None, RECORD_CHANGED, RecordKind.MENTION_RING, 900, 0, Hlc(0)), [
            FollowersNotified(STEP, 900), FollowersUnread(STEP, 900),
        ]),
    "another record": (Event(0, None, RECORD_CHANGED, RecordKind.POST, POST, 0, Hlc(0)), []),
}  # fmt: skip

NO_CHANGES = {
    "a post comes back with its author": event("authored", ALICE, POST, ARCHIVED, NORMAL),
    "a post that nobody saw is deleted": event("authored", ALICE, POST, ARCHIVED, REMOVED),
    "a follow": event("follows", ALICE, BOB, None, NORMAL),
    "a follow again": event("follows", ALICE, BOB, REMOVED, NORMAL),
    "a view, or each look would be an update of every screen": event("views", ALICE, POST, None, NORMAL),
    "a like again": event("likes", ALICE, POST, NORMAL, NORMAL),
    "an unmute": event("mutes", ALICE, BOB, NORMAL, REMOVED),
    "likes are loaded": event("likes", 0, 0, None, BULK_LOADED),
}


@pytest.mark.parametrize(("seen", "change"), CHANGES.values(), ids=CHANGES)
def test_an_event_is_read_as_its_feed_change(seen: Event, change: FeedChange) -> None:
    assert Interpreter(GRAPHS).changes([seen], [STEP]) == [change]


@pytest.mark.parametrize(("seen", "changes"), RECORDS.values(), ids=RECORDS)
def test_a_notification_record_is_read_as_its_feed_changes(seen: Event, changes: list[FeedChange]) -> None:
    assert Interpreter(GRAPHS).changes([seen], [STEP]) == changes


@pytest.mark.parametrize("seen", NO_CHANGES.values(), ids=NO_CHANGES)
def test_an_event_that_concerns_no_reader_is_skipped(seen: Event) -> None:
    assert Interpreter(GRAPHS).changes([seen], [STEP]) == []


class Calls:
    """Stands in for `ChangeSender`, and records the calls."""

    def __init__(self) -> None:
        self.made: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            self.made.append((name, *args, *options.values()))
            return (
                asyncio.sleep(0)
                if name in ("new_post", "post_deleted", "reset_follower", "reset_followers", "notice", "mention")
                else None
            )

        return call


LIVE = {
    PostMade(STEP, ALICE, POST): [("new_post", STEP, ALICE, POST)],
    PostDeleted(STEP, ALICE, POST): [("post_deleted", STEP, ALICE, POST)],
    PostEdited(STEP, ALICE, POST, 5): [("check_post", STEP, POST, True, 5)],
    PostEdited(STEP, ALICE, POST, 5, archived=True): [("check_post", STEP, POST, True, 0)],
    NumbersChanged(STEP, POST): [("check_post", STEP, POST, True)],
    UserBlocked(STEP, ALICE, BOB): [
        ("take_away_author", STEP, ALICE, BOB, "blocked"),
        ("take_away_author", STEP, BOB, ALICE, "unavailable"),
    ],
    AuthorMuted(STEP, BOB, ALICE): [("take_away_author", STEP, BOB, ALICE, "muted")],
    PostHidden(STEP, BOB, POST): [("take_away_post", STEP, BOB, POST, "hidden")],
    AuthorUnfollowed(STEP, BOB, ALICE): [
        ("check_author", STEP, ALICE, BOB),
        ("check_author", STEP, BOB, ALICE),
    ],
    FollowReturned(STEP, BOB, ALICE): [("reset_reader", STEP, BOB)],
    RequestEnded(STEP, BOB, ALICE): [("reset_follower", STEP, BOB, ALICE)],
    AccountChanged(STEP, ALICE): [("check_author", STEP, ALICE, None, True)],
    AccountChanged(STEP, ALICE, shown=True): [
        ("check_author", STEP, ALICE, None, True),
        ("reset_followers", STEP, ALICE),
    ],
    NoticeMade(STEP, BOB, 900): [("notice", STEP, BOB, 900)],
    UnreadChanged(STEP, BOB): [("unread", STEP, BOB)],
    FollowersNotified(STEP, 900): [("mention", STEP, 900)],
    FollowersUnread(STEP, 900): [],
    GraphLoaded(STEP): [("reset_all", "loaded")],
}


@pytest.mark.parametrize(("change", "asked"), LIVE.items(), ids=lambda case: type(case).__name__)
def test_each_change_makes_these_calls_for_live_streams(change: FeedChange, asked: list[Any]) -> None:
    calls: Any = Calls()
    asyncio.run(change.send_live(calls))
    assert calls.made == asked


def collected(change: FeedChange, user: NodeId, place: StreamPosition) -> dict[str, Any]:
    """The non-empty fields of what a resuming reader missed."""
    reader = missed_since(place, [change], user, StorePositions(History()).covers)
    return {name: found for name, found in vars(reader).items() if found and name != "user"}


MISSED = {
    PostMade(STEP, ALICE, POST): {"made": {POST: (STEP, ALICE)}},
    PostDeleted(STEP, ALICE, POST): {"deleted": {POST: (STEP, ALICE)}},
    PostEdited(STEP, ALICE, POST, 0): {"edited": {POST: (STEP, ALICE, 0, 0)}},
    NumbersChanged(STEP, POST): {"numbers": {POST: STEP}},
    UserBlocked(STEP, ALICE, BOB): {"must_reset": True},
    UserBlocked(STEP, BOB, ALICE): {"must_reset": True},
    UserBlocked(STEP, ALICE, CAROL): {},
    AuthorMuted(STEP, BOB, ALICE): {"must_reset": True},
    AuthorMuted(STEP, CAROL, BOB): {},
    PostHidden(STEP, BOB, POST): {"hidden": [(STEP, POST)]},
    PostHidden(STEP, CAROL, POST): {},
    AuthorUnfollowed(STEP, BOB, ALICE): {"must_reset": True},
    AuthorUnfollowed(STEP, ALICE, BOB): {},
    FollowReturned(STEP, BOB, ALICE): {"must_reset": True},
    FollowReturned(STEP, CAROL, BOB): {},
    RequestEnded(STEP, BOB, ALICE): {"changed_accounts": {ALICE}},
    RequestEnded(STEP, CAROL, ALICE): {},
    AccountChanged(STEP, ALICE): {"changed_accounts": {ALICE}},
    AccountChanged(STEP, BOB): {"changed_accounts": {BOB}},
    NoticeMade(STEP, BOB, 900): {"notices": {900: STEP}},
    NoticeMade(STEP, ALICE, 900): {},
    UnreadChanged(STEP, BOB): {"unread": STEP},
    UnreadChanged(STEP, ALICE): {},
    FollowersNotified(STEP, 900): {"mentions": {900: STEP}},
    FollowersUnread(STEP, 900): {"counted": {900: STEP}},
    GraphLoaded(STEP): {"must_reset": True},
}


@pytest.mark.parametrize(("change", "found"), MISSED.items(), ids=repr)
def test_each_change_is_collected_for_a_resuming_reader(change: FeedChange, found: dict[str, Any]) -> None:
    assert collected(change, BOB, StreamPosition(at(0), at(0))) == found


@pytest.mark.parametrize("change", LIVE, ids=lambda change: type(change).__name__)
def test_a_change_is_not_sent_twice_and_numbers_have_their_own_position(change: FeedChange) -> None:
    again = bool(collected(change, BOB, StreamPosition(at(7), at(6))))
    counted = PostEdited | NumbersChanged | AuthorUnfollowed | AccountChanged | UnreadChanged | FollowersUnread
    assert again == isinstance(change, counted)


def test_these_cases_cover_every_kind_of_change() -> None:
    kinds = set(FeedChange.__subclasses__())
    told = {type(change) for _, changes in RECORDS.values() for change in changes}
    assert told | {type(change) for _, change in CHANGES.values()} == kinds
    assert {type(change) for change in LIVE} == kinds
    assert {type(change) for change in MISSED} == kinds
