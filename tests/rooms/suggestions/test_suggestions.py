"""Suggestions as served: what is cached and for how long, what each read checks, and reads that cannot be cached."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np
import pytest
from cast import ALICE, BOB, CAROL, DANA
from coroutines import Run
from reference_leases import own_leases
from reference_suggestions import ReferenceSuggestions
from services import Services

from kith.core.errors import Forbidden, Overloaded, SelfEdge, StoreFull
from kith.core.ids import NodeId
from kith.core.labels import HIDE, LIMIT, NAMES, SENSITIVE
from kith.core.paging import Mark, Window
from kith.graph.edge import State
from kith.graph.graphs import FOLLOWS
from kith.graph.node_jobs import NodeOperation
from kith.people.removal import account_jobs
from kith.suggestions import suggestions as module
from kith.suggestions.discovery import WalkLimits
from kith.suggestions.store import RankingRow
from kith.suggestions.suggestions import RANKING_CACHED_MS, Suggestion, SuggestionPage, Suggestions

EVE, FAY, GUS = NodeId(5), NodeId(6), NodeId(7)


class SuggestionScene:
    """Alice follows Bob and Carol; both follow Dana, Carol follows Eve too."""

    def __init__(self, run: Run, services: Services) -> None:
        self.run, self.graph, self.clock = run, services.graph, services.clock
        self.kept = ReferenceSuggestions()
        self.suggestions = self.new_process()
        for follower, followee in ((ALICE, BOB), (ALICE, CAROL), (BOB, DANA), (CAROL, DANA), (CAROL, EVE)):
            self.follow(follower, followee)

    def new_process(self) -> Suggestions:
        """Another process over the same stores."""
        return Suggestions(self.graph, self.kept, now_ms=self.clock)

    def follow(self, follower: NodeId, followee: NodeId) -> None:
        self.clock.ms += 1
        self.run(self.graph.people.follow(follower, followee))

    def page(self, user: NodeId = ALICE, window: Window | None = None) -> SuggestionPage:
        return self.run(self.suggestions.page(user, window or Window(20)))

    def shown(self, user: NodeId = ALICE) -> list[int]:
        return [one.id for one in self.page(user).items]


@pytest.fixture
def scene(run: Run, services: Services) -> SuggestionScene:
    return SuggestionScene(run, services)


def test_the_more_followees_lead_to_someone_the_earlier_they_come(scene: SuggestionScene) -> None:
    page = scene.page()
    assert page.items == [Suggestion(DANA, 2, [CAROL, BOB]), Suggestion(EVE, 1, [CAROL])]
    assert (page.source, page.computed_at_ms) == ("network", scene.clock.ms)
    assert not page.page.more_after


# --- what is cached


def test_a_ranking_is_cached_for_15_minutes_and_not_longer(scene: SuggestionScene) -> None:
    before = scene.page()
    scene.follow(CAROL, GUS)
    scene.clock.ms += RANKING_CACHED_MS - 2
    assert scene.page() == before
    scene.clock.ms += 1
    assert scene.shown() == [DANA, GUS, EVE]


def test_processes_share_a_computed_ranking(scene: SuggestionScene) -> None:
    before = scene.page()
    scene.clock.ms += 1_000
    scene.suggestions = scene.new_process()
    assert scene.page() == before
    assert scene.kept.puts == 1


def test_own_follows_and_unfollows_are_reflected_at_once(scene: SuggestionScene) -> None:
    scene.page()
    scene.follow(FAY, GUS)
    scene.follow(ALICE, FAY)
    assert scene.shown() == [DANA, GUS, EVE]
    scene.run(scene.graph.people.unfollow(ALICE, CAROL))
    assert scene.page().items == [Suggestion(DANA, 1, [BOB]), Suggestion(GUS, 1, [FAY])]


def test_a_newcomer_is_not_stuck_with_an_empty_list(scene: SuggestionScene) -> None:
    assert scene.shown(GUS) == []
    scene.follow(GUS, CAROL)
    assert scene.shown(GUS) == [DANA, EVE]


def test_concurrent_requests_of_one_user_share_one_ranking(scene: SuggestionScene) -> None:
    async def ask() -> list[SuggestionPage]:
        return await asyncio.gather(*(scene.suggestions.page(ALICE, Window(20)) for _ in range(50)))

    pages = scene.run(ask())
    assert all(page == pages[0] for page in pages)
    assert scene.kept.puts == 1


def test_a_cancelled_first_request_does_not_take_the_answer_of_others(scene: SuggestionScene) -> None:
    async def ask() -> SuggestionPage:
        begun, gate = asyncio.Event(), asyncio.Event()

        async def late(rows: Sequence[RankingRow], now_ms: int) -> None:
            begun.set()
            await gate.wait()

        scene.kept.put_many = late  # type: ignore[method-assign]
        first, second = (asyncio.create_task(scene.suggestions.page(ALICE, Window(20))) for _ in range(2))
        await begun.wait()
        first.cancel()
        await asyncio.wait([first])
        assert first.cancelled()
        gate.set()
        return await second

    assert len(scene.run(ask()).items) == 2


def test_requests_beyond_the_number_that_may_wait_are_refused(
    scene: SuggestionScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WAITING_MAX", 0)

    async def ask() -> list[object]:
        users = [NodeId(user) for user in range(100, 110)]
        return await asyncio.gather(
            *(scene.suggestions.page(user, Window(20)) for user in users), return_exceptions=True
        )

    answers = scene.run(ask())
    refused = [one for one in answers if isinstance(one, Overloaded)]
    assert 0 < len(refused) < len(answers)
    assert scene.shown() == [DANA, EVE]  # and later it works again


def test_a_ranking_that_cannot_be_stored_is_answered(scene: SuggestionScene) -> None:
    async def full(rows: Sequence[RankingRow], now_ms: int) -> None:
        raise StoreFull("no room")

    scene.kept.put_many = full  # type: ignore[method-assign]
    assert scene.shown() == [DANA, EVE]
    assert scene.shown() == [DANA, EVE]


def test_a_ranking_computed_before_the_clock_was_put_back_is_not_used(scene: SuggestionScene) -> None:
    scene.clock.ms += 30 * 86_400_000
    assert scene.shown() == [DANA, EVE]
    scene.clock.ms -= 30 * 86_400_000
    assert scene.page().computed_at_ms == scene.clock.ms


def test_past_the_part_that_the_batch_stored_all_is_ranked(scene: SuggestionScene) -> None:
    """The batch stores only the first of each user; a reader who scrolls on gets the rest, and nobody twice."""

    async def keep_first() -> None:
        _, data = await scene.suggestions.rank(ALICE, await scene.suggestions.followees(ALICE), first=1)
        await scene.kept.put_many([RankingRow(ALICE, scene.clock.ms + 24 * 3_600_000, data)], scene.clock.ms)

    scene.run(keep_first())
    ranked_at = scene.clock.ms
    scene.clock.ms += 2 * RANKING_CACHED_MS
    first = scene.page(window=Window(1))
    assert [one.id for one in first.items] == [DANA]
    assert first.page.more_after
    assert first.computed_at_ms in (ranked_at, scene.clock.ms)
    second = scene.page(window=Window(1, after=first.page.oldest))
    assert [one.id for one in second.items] == [EVE]
    assert not second.page.more_after
    assert second.computed_at_ms == scene.clock.ms


# --- what every read checks


def test_a_hidden_suggestion_is_gone_at_once_and_back_at_once(scene: SuggestionScene) -> None:
    scene.page()
    assert scene.run(scene.suggestions.hide(ALICE, DANA)).changed
    assert not scene.run(scene.suggestions.hide(ALICE, DANA)).changed
    assert scene.shown() == [EVE]
    assert scene.shown(BOB) == []
    assert scene.run(scene.suggestions.unhide(ALICE, DANA)).changed
    assert scene.shown() == [DANA, EVE]


def test_a_suggestion_hidden_when_it_was_ranked_is_back_as_soon_as_it_is_unhidden(scene: SuggestionScene) -> None:
    scene.run(scene.suggestions.hide(ALICE, DANA))
    assert scene.shown() == [EVE]
    scene.run(scene.suggestions.unhide(ALICE, DANA))
    assert scene.shown() == [DANA, EVE]
    assert scene.kept.puts == 1


def test_nobody_hides_themself(scene: SuggestionScene) -> None:
    with pytest.raises(SelfEdge):
        scene.run(scene.suggestions.hide(ALICE, ALICE))


def test_a_removed_user_hides_nobody(scene: SuggestionScene) -> None:
    scene.run(scene.graph.store.change_node(ALICE, state=State.REMOVED))
    with pytest.raises(Forbidden):
        scene.run(scene.suggestions.hide(ALICE, DANA))


@pytest.mark.parametrize("away", ["block", "blocked", "mute", "deactivate", "remove", "request", "hide", "limit"])
def test_a_user_who_may_no_longer_be_suggested_is_gone_at_once(scene: SuggestionScene, away: str) -> None:
    assert scene.shown() == [DANA, EVE]
    store, graph = scene.graph.store, scene.graph
    match away:
        case "block":
            scene.run(graph.people.block(ALICE, EVE))
        case "blocked":
            scene.run(graph.people.block(EVE, ALICE))
        case "mute":
            scene.run(graph.people.mute(ALICE, EVE))
        case "deactivate":  # before the job has archived a single edge
            scene.run(store.change_node(EVE, state=State.ARCHIVED))
        case "remove":
            scene.run(store.change_node(EVE, state=State.REMOVED))
        case "hide" | "limit":  # the app's moderation
            scene.run(store.change_node(EVE, labels=NAMES[away]))
        case "request":
            scene.run(store.change_node(EVE, private=True))
            assert scene.run(graph.people.follow(ALICE, EVE)).requested
    assert scene.shown() == [DANA]


def test_a_follow_that_is_not_restored_yet_still_prevents_a_suggestion(scene: SuggestionScene) -> None:
    """Dana is back before the job restored her edges: she is not suggested to Alice, who followed her."""
    scene.follow(ALICE, DANA)

    async def leave() -> None:
        jobs = account_jobs(scene.graph, own_leases())
        await jobs.start(NodeOperation.ARCHIVE, DANA)
        await jobs.wait()
        await scene.graph.store.change_node(DANA, state=State.NORMAL)
        # an app restores one edge itself
        await scene.graph.write([scene.graph.add_write(scene.graph.graphs.number(FOLLOWS), BOB, DANA)])

    scene.run(leave())
    assert scene.shown() == [EVE]


def test_a_face_that_left_or_may_not_be_revealed_is_not_shown_and_not_counted(scene: SuggestionScene) -> None:
    scene.page()
    scene.run(scene.graph.people.unfollow(BOB, DANA))
    assert scene.page().items[0] == Suggestion(DANA, 1, [CAROL])
    scene.run(scene.graph.store.change_node(CAROL, state=State.ARCHIVED))
    assert scene.page().items == []


def test_acts_of_a_followee_behind_a_block_are_not_revealed(scene: SuggestionScene) -> None:
    """An app may write a block without dropping the follow. Then no act of the followee is revealed, cached or not."""
    blocks = scene.graph.graphs.number("blocks")
    scene.page()
    scene.run(scene.graph.write([scene.graph.add_write(blocks, CAROL, ALICE)]))
    assert scene.page().items == [Suggestion(DANA, 1, [BOB])]
    scene.clock.ms += RANKING_CACHED_MS
    assert scene.page().items == [Suggestion(DANA, 1, [BOB])]


def test_the_newest_followees_and_the_newest_of_each_are_walked(scene: SuggestionScene) -> None:
    scene.suggestions = Suggestions(scene.graph, scene.kept, walk_limits=WalkLimits(1, 1, 1), now_ms=scene.clock)
    assert scene.page().items == [Suggestion(EVE, 1, [CAROL])]


def test_a_followed_user_beyond_the_walk_is_not_suggested(scene: SuggestionScene) -> None:
    scene.follow(ALICE, DANA)
    scene.follow(ALICE, FAY)
    scene.follow(FAY, DANA)
    scene.suggestions = Suggestions(scene.graph, scene.kept, walk_limits=WalkLimits(1, 500, 1_000), now_ms=scene.clock)
    assert scene.shown() == []


@pytest.mark.parametrize("kept", [True, False])
def test_acts_of_a_followee_whom_the_app_hides_are_not_revealed(scene: SuggestionScene, kept: bool) -> None:
    if kept:
        scene.page()
    scene.run(scene.graph.store.change_node(CAROL, labels=HIDE))
    assert scene.page().items == [Suggestion(DANA, 1, [BOB])]
    scene.run(scene.graph.store.change_node(CAROL, labels=LIMIT | SENSITIVE))  # followers still see them
    scene.clock.ms += RANKING_CACHED_MS
    assert scene.shown() == [DANA, EVE]


# --- a cold start


def test_without_a_count_of_everyone_a_newcomer_gets_an_empty_answer(scene: SuggestionScene) -> None:
    page = scene.page(GUS)
    assert (page.items, page.source, page.computed_at_ms) == ([], "none", None)
    assert not page.page.more_after


def test_a_newcomer_gets_the_most_followed_who_may_be_shown(scene: SuggestionScene) -> None:
    ids = [EVE, BOB, CAROL, GUS, FAY, DANA]
    scene.run(scene.suggestions.store_popular(np.array(ids), np.array([3_000_000, 70_000, 500, 90, 80, 70])))
    counted_at = scene.clock.ms
    scene.clock.ms += 10
    scene.run(scene.graph.store.change_node(BOB, private=True))
    scene.run(scene.graph.people.block(FAY, GUS))
    page = scene.page(GUS)
    assert page.items == [Suggestion(one, 0, []) for one in (EVE, CAROL, DANA)]
    assert (page.source, page.computed_at_ms) == ("popular", counted_at)
    first = scene.page(GUS, Window(1))
    assert scene.page(GUS, Window(9, after=first.page.oldest)).items == page.items[1:]
    assert scene.page(GUS, Window(9, before=Mark(70, DANA))).items == page.items[:2]


def test_a_user_with_suggestions_of_their_own_gets_no_popular_ones(scene: SuggestionScene) -> None:
    scene.run(scene.suggestions.store_popular(np.array([GUS]), np.array([5])))
    scene.run(scene.suggestions.hide(ALICE, DANA))
    scene.run(scene.suggestions.hide(ALICE, EVE))
    page = scene.page()
    assert (page.items, page.source) == ([], "network")
