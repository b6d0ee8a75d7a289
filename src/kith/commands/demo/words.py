"""Names and texts of the people in the demo, deterministic by seed. The lists are short, so texts look alike.

No real person's words: every list was written for this file.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

STAR = "Dana"
"""First name of the most followed user."""
_FIRST = (
    "Alice", "Bob", "Carol", "Erin", "Frank", "Grace", "Heidi", "Ivan", "Judy", "Karl", "Lena", "Milo", "Nina",
    "Oscar", "Peggy", "Quinn", "Ruth", "Sven", "Tara", "Uma", "Victor", "Wendy", "Xenia", "Yusuf", "Zoe",
)  # fmt: skip
_LAST = ("Brook", "Field", "Marsh", "Stone", "Wood", "Hill", "Lake", "Reed", "Frost", "Vale")
_WENT = (
    "Walked to", "Spent the morning at", "Took the long way past", "Finally saw", "Went back to", "Drew a map of",
    "Got lost near", "Cycled around", "Had lunch at", "Missed the last tram from",
)  # fmt: skip
_PLACES = (
    "the old harbour", "the glass market", "the north pier", "the clock museum", "the hill garden", "the night bakery",
    "the river baths", "the empty cinema", "the upper lock", "the salt works", "the paper mill", "the tram depot",
)  # fmt: skip
_HOW = (
    "The light was all gold", "Not a soul about", "It rained sideways", "Worth every step", "My shoes disagree",
    "Nobody believes me", "The tea was terrible, the view was not", "I would do it again", "Three dogs, no owners",
    "Closed, of course",
)  # fmt: skip
_MADE = ("Baked", "Repaired", "Painted", "Planted", "Knitted", "Took apart", "Finished", "Gave up on")
_THINGS = (
    "a loaf with walnuts", "the kitchen radio", "a very small boat", "eleven tomatoes", "a scarf for a tall friend",
    "the hall clock", "a chair with four equal legs", "the second chapter", "a kite from bin bags", "a drum",
)  # fmt: skip
_FELT = (
    "Better than the last one", "Only one part left over", "The neighbours are kind about it", "It hums now",
    "Ask me again tomorrow", "Photos when it stands", "Two days instead of one", "It even works",
)  # fmt: skip
_ASKED = ("Does anybody know", "Who can explain", "I keep wondering about", "Strong opinions wanted:", "Help me with")
_ABOUT = (
    "why trams ring twice", "how to keep basil alive", "the best pen for left hands", "what owls do in June",
    "a good book about bridges", "how long is too long for soup", "where the blue benches went", "a name for a cat",
    "the rules of this card game", "what to read on a slow train",
)  # fmt: skip
_WITH = (
    "With @{}.",
    "Thanks, @{}!",
    "@{}, you should have been there.",
    "Your turn, @{}.",
    "@{} said so from the start.",
)
_REPLIES = (
    "Same here", "I knew it", "Take me along next time", "This made my morning", "Are you sure", "Number four is mine",
    "More of this, please", "We have to talk about the soup", "Told you so", "I laughed on the tram", "Beautiful",
    "How long did it take", "My cat disagrees", "I want to see that",
)  # fmt: skip
_ENDS = (".", "!", "?", " :)", " ...", ", really.", ", as ever.")
_BIOS = ("tea before talk", "slow trains", "maps and bread", "mostly harmless", "collects clocks", "always outdoors")


class Person(NamedTuple):
    """A person in the demo."""

    id: int
    name: str
    username: str


def person(id_: int, number: int, *, star: bool = False) -> Person:
    """The person with this id. `number` chooses their name. Usernames are unique because they contain the id."""
    first = STAR if star else _FIRST[number % len(_FIRST)]
    return Person(id_, f"{first} {_LAST[(number + number // len(_FIRST)) % len(_LAST)]}", f"{first.lower()}_{id_}")


class Words:
    """Draws texts from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def post(self, mentioned: Sequence[str] = ()) -> str:
        """A post of two sentences, and one more for each mentioned username."""
        choose = self._random.choice
        text = choose((
            f"{choose(_WENT)} {choose(_PLACES)}. {choose(_HOW)}.",
            f"{choose(_MADE)} {choose(_THINGS)} near {choose(_PLACES)}. {choose(_FELT)}.",
            f"{choose(_ASKED)} {choose(_ABOUT)}? {choose(_HOW)} at {choose(_PLACES)}.",
        ))  # fmt: skip
        return " ".join([text, *(choose(_WITH).format(name) for name in mentioned)])

    def comment(self) -> str:
        """A comment of one sentence."""
        return self._random.choice(_REPLIES) + self._random.choice(_ENDS)

    def story(self) -> str:
        """A story of one sentence."""
        return f"At {self._random.choice(_PLACES)} now. {self._random.choice(_HOW)}."

    def bio(self) -> str:
        """The text of a profile."""
        return self._random.choice(_BIOS)
