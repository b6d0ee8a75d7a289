"""Expired stories are removed from the store: all of them, not too early, whichever run is stopped."""

from __future__ import annotations

from typing import Any

import pytest
from cast import ALICE, BOB, CAROL, DANA
from coroutines import Run
from story_scene import DAY_MS, StoryScene

from kith.core.errors import StoryNotFound
from kith.core.ids import NodeId
from kith.graph.edge import Direction, EdgeWrite, State
from kith.graph.graphs import STORIES, STORY_VIEWS
from kith.graph.shapes import Listing
from kith.posts.post import Draft
from kith.records.store import RecordKind
from kith.stories.reclaiming import GRACE_MS, reclaim
from kith.stories.stories import HOUR_MS, Stories

# --- removal ---------------------------------------------------------------------------------------------


def test_nothing_of_a_story_stays_long_after_it_expired(scene: StoryScene, run: Run) -> None:
    views = scene.graph.graphs.number(STORY_VIEWS)
    old, deleted, archived = scene.tell(), scene.tell(BOB), scene.tell(CAROL)
    scene.view(BOB, old, archived)
    scene.view(DANA, old)
    run(scene.stories.delete(BOB, deleted.id))
    for state in (State.ARCHIVED, State.NEGATIVE, State.REMOVED):
        edge = scene.graph.edge_now(views, NodeId(20 + state), old.id, state)
        run(scene.graph.write([EdgeWrite(edge)]))
    run(scene.services.edges.change_node(CAROL, state=State.ARCHIVED))
    scene.clock.ms += HOUR_MS
    young = scene.tell()
    scene.view(BOB, young)
    scene.clock.ms = archived.created_at + DAY_MS + GRACE_MS
    scene.settle()
    done = run(reclaim(scene.services.records, scene.graph, 24, scene.clock))
    scene.settle()
    assert done.stories == 3
    assert {(row.source, row.destination) for row in scene.services.edges.rows.values() if row.graph == views} == {
        (BOB, young.id)
    }
    stories = scene.graph.graphs.number(STORIES)
    assert [row.destination for row in scene.services.edges.rows.values() if row.graph == stories] == [young.id]
    assert [id_ for kind, id_ in scene.services.records.records if kind is RecordKind.STORY] == [young.id]
    assert run(scene.services.edges.count_many([Listing(views, old.id, Direction.IN)])) == [0]
    assert scene.found(BOB, young)


def test_a_story_that_expired_just_now_is_left_for_writes_in_flight(scene: StoryScene, run: Run) -> None:
    story = scene.tell()
    scene.clock.ms = story.created_at + DAY_MS + GRACE_MS - 1
    assert run(reclaim(scene.services.records, scene.graph, 24, scene.clock)).stories == 0
    scene.clock.ms += 1
    assert run(reclaim(scene.services.records, scene.graph, 24, scene.clock)).stories == 1
    assert run(reclaim(scene.services.records, scene.graph, 24, scene.clock)).stories == 0


def test_a_repeated_key_of_an_expired_story_restores_nothing(scene: StoryScene, run: Run) -> None:
    stories = Stories(scene.services.records, scene.graph, scene.services.snowflakes, hours=1, now_ms=scene.clock)
    draft = Draft(text="look")
    story = run(stories.create(ALICE, draft, "once")).post
    scene.clock.ms += HOUR_MS
    for reclaimed in range(2):
        with pytest.raises(StoryNotFound):
            run(stories.create(ALICE, draft, "once"))
        scene.clock.ms += GRACE_MS
        scene.settle()
        assert run(reclaim(scene.services.records, scene.graph, 1, scene.clock)).stories == 1 - reclaimed
    scene.settle()
    assert scene.services.edges.rows == {}
    assert scene.services.records.records == {}
    scene.clock.ms = story.created_at + DAY_MS
    assert run(stories.create(ALICE, draft, "once")).post.id != story.id, "a key is kept for a day, whatever it made"


def test_a_run_that_was_stopped_anywhere_is_finished_by_the_next(
    scene: StoryScene, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stopped(Exception):
        """The process ends here."""

    calls = 0

    def stopping(real: Any, at: int) -> Any:
        async def forget(*args: Any) -> None:
            nonlocal calls
            calls += 1
            if calls == at:
                raise Stopped
            await real(*args)

        return forget

    for at in range(1, 6):  # the views of three stories, their records, their edges
        for author in (ALICE, BOB, CAROL):
            scene.view(DANA, scene.tell(author))
        scene.clock.ms += DAY_MS + GRACE_MS
        calls = 0
        with monkeypatch.context() as patch:
            patch.setattr(scene.services.edges, "forget", stopping(scene.services.edges.forget, at))
            patch.setattr(scene.services.records, "forget", stopping(scene.services.records.forget, at))
            with pytest.raises(Stopped):
                run(reclaim(scene.services.records, scene.graph, 24, scene.clock))
        run(reclaim(scene.services.records, scene.graph, 24, scene.clock))
        assert scene.services.edges.rows == {}
        assert scene.services.records.records == {}
