"""The error for a body that does not fit names the allowed words or fields."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
import pytest

from kith.api.bodies import BodyDecoder
from kith.core.errors import BadRequest

Mood = Literal["calm", "wild"]


class Part(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    mood: Annotated[Mood, msgspec.Meta(description="how it is")] = "calm"
    all_moods: list[Mood] | None = None
    moods_by_day: dict[str, Mood] = {}


class Draft(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    part: Part
    more_parts: list[Part] | msgspec.UnsetType | None = msgspec.UNSET


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"part": {"mood": "cold"}}, "at `$.part.mood`; it must be one of calm, wild; see /docs"),
        ({"part": {"allMoods": ["calm", "cold"]}}, "at `$.part.allMoods[1]`; it must be one of calm, wild; see /docs"),
        ({"part": {"moodsByDay": {"monday": "cold"}}}, "it must be one of calm, wild; see /docs"),
        ({"part": {}, "moreParts": [{}, {"mood": "cold"}]}, "at `$.moreParts[1].mood`; it must be one of calm, wild;"),
        ({"part": {"text": ""}}, "at `$.part`; its fields are mood, allMoods, moodsByDay; see /docs"),
        ({"parts": {}}, "unknown field `parts`; its fields are part, moreParts; see /docs"),
        ({"part": {"mood": 1}}, "Expected `str`, got `int` - at `$.part.mood`; see /docs"),
        ({}, "missing required field `part`; see /docs"),
    ],
)
def test_the_error_for_a_wrong_word_or_field_names_the_right_ones(body: dict[str, Any], says: str) -> None:
    with pytest.raises(BadRequest) as refused:
        BodyDecoder(Draft, numbers_as_strings=False).decode(msgspec.json.encode(body))
    assert says in str(refused.value)
