"""Stories over both kinds of engine: who sees them, until when, in which order, and their deletion."""

from __future__ import annotations

from itertools import pairwise

import pytest
from cast import ALICE, BOB, CAROL, DANA, START_MS
from coroutines import answer
from reference_leases import own_leases
from story_scene import DAY_MS, FIRST_PAGE, StoryScene

from kith.core.errors import Forbidden, InvalidContent, PostNotFound, StoryNotFound
from kith.core.ids import NodeId
from kith.core.paging import Window
from kith.graph.edge import Direction, State
from kith.graph.graphs import AUTHORED
from kith.graph.node_jobs import NodeOperation
from kith.graph.shapes import Listing
from kith.people.privacy import SYSTEM
from kith.people.removal import account_jobs
from kith.posts.post import Draft
from kith.stories.stories import HOUR_MS, Stories

# --- until when ------------------------------------------------------------------------------------------


def test_a_story_is_there_until_its_last_millisecond_and_then_for_nobody(scene: StoryScene) -> None:
    scene.follow((BOB, ALICE))
    story = scene.tell()
    scene.view(BOB, story)
    scene.clock.ms = story.created_at + DAY_MS - 1
    assert scene.stories.expires_at_ms(story) == scene.clock.ms + 1
    assert all(scene.found(viewer, story) for viewer in (ALICE, BOB, SYSTEM, None))
    assert (scene.of(ALICE), scene.authors(), scene.viewers(story)) == ([story.id], [ALICE], [BOB])
    scene.clock.ms += 1
    assert not any(scene.found(viewer, story) for viewer in (ALICE, BOB, SYSTEM, None))
    assert (scene.of(ALICE), scene.of(ALICE, ALICE), scene.of(ALICE, SYSTEM)) == ([], [], [])
    assert scene.authors() == scene.authors(ALICE) == []
    for asked in (
        scene.stories.view(BOB, story.id),
        scene.stories.viewers(ALICE, story.id, FIRST_PAGE),
        scene.stories.viewers(SYSTEM, story.id, FIRST_PAGE),
        scene.stories.delete(ALICE, story.id),
    ):
        assert scene.run(answer(asked)) is StoryNotFound


def test_hours_are_a_setting_that_holds_for_old_stories_too(scene: StoryScene) -> None:
    story = scene.tell()
    longer = Stories(scene.services.records, scene.graph, scene.services.snowflakes, hours=48, now_ms=scene.clock)
    scene.clock.ms += DAY_MS
    assert not scene.found(ALICE, story)
    assert scene.run(longer.get(ALICE, story.id)) == story


def test_ids_that_were_never_a_story_are_not_found(scene: StoryScene) -> None:
    post = scene.run(scene.posts.create(ALICE, Draft(text="a post"))).post
    story = scene.tell()
    for id_ in (0, 5, post.id, story.id + 1, DANA):
        assert scene.run(answer(scene.stories.get(ALICE, NodeId(id_)))) is StoryNotFound
    assert scene.run(scene.stories.visible(ALICE, [0, story.id, story.id, 5])) == [None, story, story, None]


# --- apart from posts ------------------------------------------------------------------------------------


def test_a_story_is_no_post_at_any_door(scene: StoryScene) -> None:
    story = scene.tell()
    posts = scene.posts
    assert scene.run(posts.visible(SYSTEM, [story.id])) == [None]
    assert scene.run(posts.outbox(SYSTEM, ALICE, FIRST_PAGE))[0] == []
    assert scene.run(answer(posts.delete(ALICE, story.id))) is PostNotFound
    number = scene.graph.graphs.number(AUTHORED)
    assert scene.run(scene.services.edges.count_many([Listing(number, ALICE, Direction.OUT)])) == [0]


def test_an_expired_or_deleted_story_is_not_answered_again_by_its_key(scene: StoryScene) -> None:
    short = Stories(scene.services.records, scene.graph, scene.services.snowflakes, hours=1, now_ms=scene.clock)
    for key, over in (("deleted", False), ("over", True)):
        story = scene.run(short.create(ALICE, Draft(text="look"), key)).post
        assert scene.run(short.create(ALICE, Draft(text="look"), key)).post == story
        if over:
            scene.clock.ms += HOUR_MS
        else:
            scene.run(short.delete(ALICE, NodeId(story.id)))
        assert scene.run(answer(short.create(ALICE, Draft(text="look"), key))) is StoryNotFound


def test_one_key_makes_one_story_and_may_make_one_post(scene: StoryScene) -> None:
    draft = Draft(text="same")
    first, again = (scene.run(scene.stories.create(ALICE, draft, "key")).post for _ in range(2))
    post = scene.run(scene.posts.create(ALICE, draft, "key")).post
    scene.settle()
    assert first == again
    assert post.id != first.id
    assert scene.of(ALICE) == [first.id]


def test_a_story_for_nobody_is_refused(scene: StoryScene) -> None:
    for fields in ({"visibility": "private"}, {"text": ""}, {"visibility": "custom"}):
        asked = scene.stories.create(ALICE, Draft(**{"text": "x", **fields}))  # type: ignore[arg-type]
        assert scene.run(answer(asked)) is InvalidContent


# --- who sees it -----------------------------------------------------------------------------------------


def test_the_hard_rules_hold_at_every_door(scene: StoryScene) -> None:
    scene.follow((BOB, ALICE), (CAROL, ALICE), (ALICE, BOB))
    public = scene.tell()
    friends = scene.tell(visibility="friends")
    custom = scene.tell(visibility="custom", audience=(CAROL,))
    everything = [public.id, friends.id, custom.id]
    assert scene.of(ALICE, ALICE) == scene.of(ALICE, SYSTEM) == everything
    assert scene.of(ALICE, None) == [public.id]
    assert scene.of(ALICE, BOB) == [public.id, friends.id]
    assert scene.of(ALICE, CAROL) == [public.id, custom.id]
    assert [entry.stories for entry in scene.strip(CAROL).entries] == [2]
    assert not scene.found(BOB, custom)
    assert scene.run(answer(scene.stories.view(BOB, custom.id))) is StoryNotFound
    assert scene.run(answer(scene.stories.viewers(BOB, custom.id, FIRST_PAGE))) is StoryNotFound
    for block in ((ALICE, BOB), (CAROL, ALICE)):
        scene.run(scene.graph.people.block(*block))
    scene.settle()
    for viewer in (BOB, CAROL):
        assert scene.of(ALICE, viewer) == scene.authors(viewer) == []
        assert not any(scene.found(viewer, story) for story in (public, friends, custom))


def test_stories_of_private_accounts_are_for_followers(scene: StoryScene) -> None:
    scene.follow((BOB, ALICE))
    scene.run(scene.services.edges.change_node(ALICE, private=True))
    story = scene.tell()
    assert scene.found(BOB, story)
    assert not scene.found(CAROL, story)


@pytest.mark.parametrize("state", [State.ARCHIVED, State.REMOVED])
def test_stories_of_deactivated_or_removed_accounts_are_gone(scene: StoryScene, state: State) -> None:
    scene.follow((BOB, ALICE))
    story = scene.tell()
    scene.run(scene.services.edges.change_node(ALICE, state=state))
    assert not scene.found(BOB, story)
    assert scene.of(ALICE) == scene.authors() == []


def test_only_its_author_deletes_a_story_and_nothing_of_it_stays_readable(scene: StoryScene) -> None:
    story = scene.tell(text="a secret")
    assert scene.run(answer(scene.stories.delete(BOB, story.id))) is Forbidden
    scene.run(scene.stories.delete(ALICE, story.id))
    scene.settle()
    assert not any(scene.found(viewer, story) for viewer in (ALICE, BOB, SYSTEM, None))
    assert scene.of(ALICE, ALICE) == []
    assert b"secret" not in b"".join(record.data for record in scene.services.records.records.values())


# --- views -----------------------------------------------------------------------------------------------


def test_a_view_is_stored_once_and_the_author_reads_who_viewed(scene: StoryScene) -> None:
    story = scene.tell()
    first = scene.run(scene.stories.view(BOB, story.id))
    scene.clock.ms += 5_000
    scene.view(CAROL, story)
    assert scene.run(scene.stories.view(BOB, story.id)).at_ms == first.at_ms
    scene.settle()
    assert scene.viewers(story) == scene.viewers(story, SYSTEM) == [CAROL, BOB]
    assert scene.run(scene.stories.view_counts([story.id])) == [2]
    assert scene.run(answer(scene.stories.viewers(BOB, story.id, FIRST_PAGE))) is Forbidden
    seen = [scene.run(scene.stories.seen(viewer, [story])) for viewer in (BOB, DANA, ALICE, SYSTEM)]
    assert seen == [[True], [False], [True], [False]]


def test_authors_are_not_among_their_viewers(scene: StoryScene) -> None:
    story = scene.tell()
    scene.view(ALICE, story)
    assert scene.viewers(story) == []


def test_a_block_either_way_hides_a_viewer(scene: StoryScene) -> None:
    story = scene.tell()
    scene.view(BOB, story)
    scene.view(CAROL, story)
    scene.view(DANA, story)
    scene.run(scene.graph.people.block(ALICE, BOB))
    scene.run(scene.graph.people.block(CAROL, ALICE))
    scene.settle()
    assert scene.viewers(story) == [DANA]


def test_a_viewer_who_just_left_is_hidden(scene: StoryScene) -> None:
    """Their views are archived a moment later."""
    story = scene.tell()
    scene.view(BOB, story)
    scene.view(CAROL, story)
    scene.run(scene.services.edges.change_node(BOB, state=State.ARCHIVED))
    assert scene.viewers(story) == scene.viewers(story, SYSTEM) == [CAROL]


def test_the_time_of_a_first_view_outlives_a_deactivation(scene: StoryScene) -> None:
    async def away() -> None:
        jobs = account_jobs(scene.graph, own_leases())
        for operation in (NodeOperation.ARCHIVE, NodeOperation.RESTORE):
            await jobs.start(operation, BOB)
            await jobs.wait()

    story = scene.tell()
    first = scene.run(scene.stories.view(BOB, story.id))
    scene.clock.ms += 5_000
    scene.run(away())
    scene.settle()
    assert scene.run(scene.stories.view(BOB, story.id)).at_ms == first.at_ms


def test_a_deactivated_viewer_cannot_view(scene: StoryScene) -> None:
    story = scene.tell()
    scene.run(scene.services.edges.change_node(BOB, state=State.ARCHIVED))
    assert scene.run(answer(scene.stories.view(BOB, story.id))) is Forbidden


# --- lists -----------------------------------------------------------------------------------------------


def test_an_authors_stories_are_paged_oldest_first_both_ways(scene: StoryScene) -> None:
    told = [scene.tell(text=str(number)).id for number in range(7)]
    window, pages = Window(3), []
    for _ in range(3):
        stories, page = scene.run(scene.stories.of_author(BOB, ALICE, window))
        pages.append([story.id for story in stories])
        window = Window(3, after=page.oldest)
    assert pages == [told[:3], told[3:6], told[6:]]
    assert (page.more_after, page.more_before) == (False, True)
    back, _ = scene.run(scene.stories.of_author(BOB, ALICE, Window(3, before=page.newest)))
    assert [story.id for story in back] == told[3:6]


def test_times_of_stories_told_at_once_still_differ(scene: StoryScene) -> None:
    told = [scene.tell(later_ms=0) for _ in range(5)]
    assert all(one.id < other.id for one, other in pairwise(told))
    assert scene.of(ALICE) == [story.id for story in told]
    assert told[0].created_at == START_MS
