"""Chooses the cast: the most followed user (the star), one of their followers (the reader), other users whom the reader
follows, and more followers of the star (fans).

The work is bounded for any size of community: READERS_MAX followers are considered, FOLLOWEES_MAX and FANS_MAX take
part. Users with a profile that the demo did not write are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from kith.commands.demo.demo_client import SYSTEM, DemoClient
from kith.commands.demo.words import Person, person
from kith.core.errors import BadRequest

READERS_MAX, FOLLOWEES_MAX, FANS_MAX = 100, 24, 15
FOLLOWING_MAX = 300
"""A follower who follows more users than this becomes the reader only if all others do too."""
MARK = {"madeBy": "kith demo"}
"""Attributes of the profiles that the demo writes."""


class Cast(NamedTuple):
    """Everybody who takes part. `new`: people who have not posted yet."""

    star: Person
    reader: Person
    followees: list[Person]  # other users whom the reader follows
    fans: list[Person]  # other followers of the star
    new: list[Person]

    @property
    def all(self) -> list[Person]:
        """Everybody, each once."""
        return [self.star, self.reader, *self.followees, *self.fans]

    @property
    def followed(self) -> list[Person]:
        """Whom the reader follows."""
        return [self.star, *self.followees]

    def name(self, id_: int | str) -> str:
        """The name of a user; `user 7` for users who do not take part."""
        return next((member.name for member in self.all if member.id == int(id_)), f"user {id_}")


async def choose(client: DemoClient, star: int) -> Cast:
    """Choose the cast around `star`. Errors: BadRequest where the star, or all followers, cannot take part."""
    followers = await _listed(client, f"/users/{star}/followers?limit={READERS_MAX}")
    (of_star, *rows) = await _profiles(client, [star, *followers])
    if of_star is None:
        raise BadRequest(
            f"user {star}, who is followed most, is gone or has a profile of their own, which the demo would not touch;"
            " name another folder with --data"
        )
    fans = [row for row in rows if row is not None]
    if not fans:
        raise BadRequest(f"no follower of user {star} can take part; name another folder with --data")
    reader = max(fans, key=_reader_rank)
    followed = await _listed(client, f"/users/{reader['id']}/following?limit={FOLLOWEES_MAX + 1}")
    followed = [id_ for id_ in followed if id_ != star][:FOLLOWEES_MAX]
    chosen_ids = {int(row["id"]) for row in (of_star, reader)}
    followees = [
        row for row in await _profiles(client, followed) if row is not None and int(row["id"]) not in chosen_ids
    ]
    chosen_ids |= {int(row["id"]) for row in followees}
    fan_rows = [row for row in fans if int(row["id"]) not in chosen_ids][:FANS_MAX]
    everyone = [of_star, reader, *followees, *fan_rows]
    people = [person(int(row["id"]), number, star=not number) for number, row in enumerate(everyone)]
    people = [_named_person(member, row) for member, row in zip(people, everyone, strict=True)]
    new = [member for member, row in zip(people, everyone, strict=True) if row["username"] is None]
    after = 2 + len(followees)
    return Cast(people[0], people[1], people[2:after], people[after:], new)


def _reader_rank(row: Any) -> tuple[bool, int]:
    """Sort key for the choice of the reader: best is a user who follows many, but not more than FOLLOWING_MAX."""
    following = int(row["followingCount"])
    return following <= FOLLOWING_MAX, following if following <= FOLLOWING_MAX else -following


def _named_person(unnamed: Person, row: Any) -> Person:
    """The person, with the names that an earlier demo gave them."""
    return unnamed if row["username"] is None else Person(unnamed.id, row["displayName"], row["username"])


async def _listed(client: DemoClient, path: str) -> list[int]:
    return [int(item["id"]) for item in (await client.ask("GET", path, user=SYSTEM))["items"]]


async def _profiles(client: DemoClient, ids: Sequence[int]) -> list[Any]:
    """The profile of each id; None for users who are gone, or have a profile that the demo did not write."""
    rows: list[Any] = []
    for start in range(0, len(ids), READERS_MAX):
        body = {"ids": list(map(str, ids[start : start + READERS_MAX]))}
        rows += (await client.ask("POST", "/users/lookup", body, user=SYSTEM))["users"]
    return [row if row is not None and row["state"] == "normal" and _is_by_demo(row) else None for row in rows]


def _is_by_demo(row: Any) -> bool:
    """Whether the demo may write this profile: it is empty, or written by the demo."""
    return bool(row["attributes"] == MARK or not (row["username"] or row["displayName"] or row["attributes"]))
