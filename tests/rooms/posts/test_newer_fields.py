"""Fields that a newer Kith stored in a record stay when this one changes it, and go when it is emptied."""

from __future__ import annotations

import msgspec
import pytest
from cast import ALICE
from coroutines import Run
from services import Services

from kith.core.clock import Hlc
from kith.notifications.marks import MarkStore
from kith.notifications.preferences import DEFAULT, Preferences
from kith.people.profiles import Profile
from kith.posts.post import PostEdit
from kith.records.store import RecordKind

NEWER = ["of a newer Kith", {"and": 7}]


class Shelf:
    """One record of each kind that users change, by its id, with two fields more than this Kith knows."""

    def __init__(self, room: Services) -> None:
        self.room, self.marks = room, MarkStore(room.records, room.graph.clock)
        self.ids: dict[RecordKind, int] = {
            RecordKind.USER: ALICE, RecordKind.NOTICE_MARKS: ALICE, RecordKind.NOTICE_PREFERENCES: ALICE,
        }  # fmt: skip

    async def fill(self) -> None:
        self.ids[RecordKind.POST] = (await self.room.write()).id
        self.ids[RecordKind.BOARD] = (await self.room.boards.create(ALICE, "trees")).board.id
        await self.change(1)
        for kind, id_ in self.ids.items():
            (stored,) = await self.room.records.get_many(kind, [id_])
            assert stored is not None
            data = msgspec.msgpack.encode([*msgspec.msgpack.decode(stored.data), *NEWER])
            newer = msgspec.structs.replace(stored, data=data, updated_at=Hlc(stored.updated_at + 1))
            await self.room.records.put([newer])

    async def change(self, to: int) -> None:
        """Change each record."""
        room, settings = self.room, self.room.notification_services.preferences
        await room.posts.edit(ALICE, self.ids[RecordKind.POST], PostEdit(text=f"text {to}"))  # type: ignore[arg-type]
        await room.boards.change(ALICE, self.ids[RecordKind.BOARD], name=f"name {to}")
        await room.profiles.change(ALICE, lambda _: Profile(display_name=f"Alice {to}"))
        await self.marks.read_up_to(ALICE, to, [])
        await settings.put(ALICE, Preferences(accounts_off=(to,)))

    async def empty(self) -> None:
        """Empty each record."""
        await self.room.posts.delete(ALICE, self.ids[RecordKind.POST])  # type: ignore[arg-type]
        await self.room.boards.delete(ALICE, self.ids[RecordKind.BOARD])
        await self.room.profiles.forget(ALICE)
        await self.marks.forget(ALICE)
        await self.room.notification_services.preferences.put(ALICE, DEFAULT)

    async def kept(self) -> dict[RecordKind, bool]:
        """Which records still have the fields of a newer Kith."""
        found = {}
        for kind, id_ in self.ids.items():
            (stored,) = await self.room.records.get_many(kind, [id_])
            assert stored is not None
            found[kind] = msgspec.msgpack.decode(stored.data)[-2:] == NEWER
        return found


@pytest.fixture
def shelf(room: Services, run: Run) -> Shelf:
    made = Shelf(room)
    run(made.fill())
    return made


def test_fields_of_a_newer_version_stay_however_often_a_record_is_changed(run: Run, shelf: Shelf) -> None:
    for to in (2, 3):
        run(shelf.change(to))
        assert run(shelf.kept()) == dict.fromkeys(shelf.ids, True)
    (post,) = run(shelf.room.posts.read([shelf.ids[RecordKind.POST]]))
    assert post is not None
    assert post.text == "text 3"


def test_no_field_of_a_newer_version_stays_in_an_emptied_record(run: Run, shelf: Shelf) -> None:
    run(shelf.empty())
    assert run(shelf.kept()) == dict.fromkeys(shelf.ids, False)
