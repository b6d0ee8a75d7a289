"""Checks of the fields that several kinds of records have: texts, and the app's own JSON object (attributes)."""

from __future__ import annotations

from typing import Any

import msgspec

from kith.core.errors import InvalidContent

ATTRIBUTES_BYTES_MAX = 4_096
ATTRIBUTES_DEPTH_MAX = 32
NO_ATTRIBUTES = b"{}"


def check_text(text: str, *, needed: bool, chars_max: int, field: str = "text") -> None:
    """InvalidContent if `text` is too long, empty although `needed`, or not valid UTF-8."""
    if len(text) > chars_max:
        raise InvalidContent(
            f"{field} has {len(text)} characters; at most {chars_max} are stored", field=field, max=chars_max
        )
    if needed and not text.strip():
        raise InvalidContent(f"{field} is empty; write something", field=field)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidContent(f"{field} is not valid UTF-8", field=field) from None


def pack_attributes(attributes: dict[str, Any]) -> bytes:
    """The app's own JSON object as stored bytes, keys sorted; InvalidContent if it is too large or too deep."""
    if _nested(attributes, ATTRIBUTES_DEPTH_MAX):
        raise InvalidContent(
            f"attributes are nested more than {ATTRIBUTES_DEPTH_MAX} deep; store them flatter", max=ATTRIBUTES_DEPTH_MAX
        )
    try:
        packed = msgspec.json.encode(attributes, order="sorted")
    except (OverflowError, RecursionError, UnicodeEncodeError):
        raise InvalidContent("attributes hold a number or a text that JSON cannot carry") from None
    if len(packed) > ATTRIBUTES_BYTES_MAX:
        raise InvalidContent(
            f"attributes have {len(packed)} bytes as JSON; at most {ATTRIBUTES_BYTES_MAX} are stored",
            max=ATTRIBUTES_BYTES_MAX,
        )
    return packed


def _nested(value: Any, depth: int) -> bool:
    """Whether objects and lists are nested more than `depth` deep."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return depth < 0 or any(_nested(part, depth - 1) for part in parts if isinstance(part, dict | list))
