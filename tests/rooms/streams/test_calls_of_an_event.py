"""How many calls of stores, one after another, it takes to send a change. `paced` says how they are counted."""

from __future__ import annotations

import asyncio
from pathlib import Path

from cast import ALICE, BOB, CAROL, FakeClock
from embedded_engine import open_embedded
from round_trips import Call, RoundTripCounter, VirtualTimeLoop
from services import Services
from stream_world import StreamRecorder

from kith.engines.embedded.log_store import EmbeddedLog
from kith.engines.embedded.record_store import EmbeddedRecords
from kith.posts.post import PostEdit
from kith.streams.live import LiveStreams

AT_MOST = {"a new post": 3, "a post is deleted": 3, "an edit is read": 1, "a round of one post": 3}


class Nobody:
    """Counts nothing."""

    def messages_sent(self, name: str, streams: int) -> None: ...
    def stream_lag(self, lag_s: float) -> None: ...


async def _measured(folder: Path, counter: RoundTripCounter) -> dict[str, tuple[int, list[Call]]]:
    """By change: how many calls in a row it took, and all its calls."""
    with open_embedded(folder) as (environment, edges):
        records = counter.wrap(EmbeddedRecords(environment, edges._commits), "records")
        log = counter.wrap(EmbeddedLog(environment, edges._commits), "log")
        services = await Services.over(counter.wrap(edges, "edges"), records, FakeClock())
        for reader in (BOB, CAROL):
            await services.people.follow(reader, ALICE)
        inbox = services.notification_services.notifications
        live = LiveStreams(services.posts, services.engagement, inbox, log, Nobody(), resume_events=100, heartbeat_s=5)
        recorder, found = StreamRecorder(BOB), {}

        async def told(name: str, *, with_round: bool = False) -> None:
            _, ticks, calls = await counter.measure(live._rounds.run() if with_round else live._step())
            found[name] = (ticks, calls)

        await live.join(recorder.stream, None, [])
        await live.close()  # from here on it reads the log only when called
        post = await services.write()
        await told("a new post")
        await services.posts.edit(ALICE, post.id, PostEdit(text="better"))
        await told("an edit is read")
        await told("a round of one post", with_round=True)
        await services.posts.delete(ALICE, post.id)
        await told("a post is deleted")
        assert recorder.names() == ["new_post", "post_updated", "post_removed author_deleted"]
        return found


def test_a_change_takes_a_bounded_number_of_calls_in_a_row(tmp_path: Path) -> None:
    loop = VirtualTimeLoop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        found = runner.run(_measured(tmp_path, RoundTripCounter(loop)))
    assert found.keys() == AT_MOST.keys()
    for name, (ticks, calls) in found.items():
        assert ticks <= AT_MOST[name], (name, ticks, " ".join(call.name for call in calls))
