"""The directory of timelines finds exactly the users that it holds, after any inserts and removals."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kith.core.ids import ID_MAX
from kith.engines.embedded.directory import Directory, cells_for
from kith.graph.shapes import Ids

SLOTS = 8
users = st.integers(0, 30) | st.integers(0, ID_MAX) | st.integers(ID_MAX - 5, ID_MAX)


class Made:
    """A directory, and a view of the same memory as another process has it."""

    def __init__(self, slots: int) -> None:
        self.tables, self.turn = np.zeros((2, cells_for(slots), 2), np.int64), np.zeros(2, np.int64)
        self.directory, self.reader = Directory(self.tables, self.turn), Directory(self.tables, self.turn)


@given(st.lists(st.tuples(users, st.booleans()), max_size=200), st.lists(users, max_size=20))
def test_the_directory_behaves_like_a_dictionary(changes: list[tuple[int, bool]], strangers: list[int]) -> None:
    made = Made(SLOTS)
    directory = made.directory
    held: dict[int, int] = {}
    for slot, (user, rebuild) in enumerate(changes):
        if user in held:
            directory.remove(user)
            del held[user]
        elif len(held) < SLOTS:
            directory.insert(user, slot)
            held[user] = slot
        if rebuild:
            directory.rebuild(np.array([*held], np.int64), np.array([*held.values()], np.int64))
        asked = np.array([*held, *strangers, user, -1, -2], np.int64)
        expected = [held.get(one, -1) for one in asked.tolist()]
        for view in (directory, made.reader):
            assert view.find_many(asked).tolist() == expected
            assert [view.find(one) for one in asked.tolist()] == expected


def test_users_who_come_and_go_do_not_fill_the_table() -> None:
    """Cells of removed users are cleared before they fill the table. Else a search for an absent user would not end."""
    made = Made(SLOTS)
    for user in range(1000):
        made.directory.insert(user, 0)
        made.directory.remove(user)
        assert np.count_nonzero(made.tables[int(made.turn[0]) & 1, :, 0]) <= 11


def test_all_users_of_a_full_directory_are_found() -> None:
    chosen = np.random.default_rng(1)
    for names in (np.arange(5000), np.arange(5000) << 40, np.unique(chosen.integers(0, ID_MAX, 5000))):
        made = Made(len(names))
        made.directory.rebuild(names, np.arange(len(names)))
        assert made.reader.find_many(names).tolist() == [*range(len(names))]
        assert (made.reader.find_many(np.setdiff1d(names + 1, names)) == -1).all()


def test_a_search_during_a_rebuild_misses_no_user() -> None:
    """A rebuild fills the other table. A reader whose table the next rebuild clears searches again."""
    made, names = Made(SLOTS), np.arange(SLOTS)
    made.directory.rebuild(names, names)
    in_use = made.tables[int(made.turn[0]) & 1]
    before = in_use.copy()
    made.directory.rebuild(names[1:], names[1:])
    assert (in_use == before).all()

    class Slow(Directory):
        """The table is rebuilt after this process chose one and before it reads it."""

        rebuilt = 0

        def _rebuild_meanwhile(self) -> None:
            if not self.rebuilt:
                self.rebuilt = 1
                made.directory.rebuild(names[:0], names[:0])
                made.directory.rebuild(names[:0], names[:0])
                made.directory.rebuild(names, names)

        def _place(self, *arguments: Any, **named: Any) -> int:
            self._rebuild_meanwhile()
            return super()._place(*arguments, **named)

        def _search(self, *arguments: Any) -> Ids:
            self._rebuild_meanwhile()
            return super()._search(*arguments)

    assert Slow(made.tables, made.turn).find(5) == 5
    assert Slow(made.tables, made.turn).find_many(names).tolist() == names.tolist()
