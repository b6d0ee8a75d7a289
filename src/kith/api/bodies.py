"""How bodies of requests are decoded, and what is said of one that does not fit: where, and what may stand there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import inspect

from kith.core.errors import BadRequest

_NOT_WHOLE = re.compile(rb"(?<!:[0-9]{2}:[0-9])[0-9][.eE]|\\")
"""Numbers with a point or an exponent, which the lax decoder would take for whole ones, and backslashes, which could
hide one. Seconds of a time may have a fraction."""
_DIGITS_AND_ENDS = bytes.maketrans(b"123456789eE", b"000000000..")
_PLACE = re.compile(r" - at `\$(.*)`$")
_STEP = re.compile(r"\.(\w+)|\[(?:\d+|\.\.\.)\]")


class BodyDecoder:
    """Reads the body of an operation. `numbers_as_strings`: numbers are whole ones, which may come as strings."""

    def __init__(self, type_: Any, *, numbers_as_strings: bool) -> None:
        self._decoder = msgspec.json.Decoder(type_, strict=not numbers_as_strings)
        self._only_whole = numbers_as_strings

    def decode(self, raw: bytes) -> Any:
        """The decoded body; BadRequest says what is wrong with it, where, and what may stand there."""
        if self._only_whole and not _all_whole(raw):
            raise BadRequest("ids, positions and updatedAt are plain decimal numbers, without points and exponents")
        try:
            return self._decoder.decode(raw)
        except msgspec.ValidationError as error:
            hint = _hint(str(error), self._decoder.type)
            raise BadRequest(f"the body is not what this takes: {error}{hint}; see /docs") from None
        except UnicodeDecodeError:
            raise BadRequest("the body is not JSON that we can read: it is not UTF-8") from None
        except RecursionError:
            raise BadRequest("the body is not JSON that we can read: it is nested too deeply") from None
        except msgspec.DecodeError as error:
            raise BadRequest(f"the body is not JSON that we can read: {error}") from None


def _all_whole(raw: bytes) -> bool:
    """Whether a body has nothing that a lax decoder would take for a whole number though it is none.

    Most have none of what the expression looks for, and it takes ten times as long to say so.
    """
    suspect = b"0." in raw.translate(_DIGITS_AND_ENDS) or b"\\" in raw
    return not suspect or _NOT_WHOLE.search(raw) is None


def _hint(said: str, type_: Any) -> str:
    """What may stand where `said`, the decoder's message, found a wrong word or field; empty where it says enough."""
    at = _PLACE.search(said)
    kinds = [*_kinds_at(_described(type_), at[1] if at else "")]
    if said.startswith("Invalid enum value"):
        words = [str(word) for kind in kinds if isinstance(kind, inspect.LiteralType) for word in kind.values]
        return f"; it must be one of {', '.join(words)}"
    if said.startswith("Object contains unknown field"):
        fields = [field.encode_name for kind in kinds if isinstance(kind, inspect.StructType) for field in kind.fields]
        return f"; its fields are {', '.join(fields)}"
    return ""


_described = lru_cache(maxsize=None)(inspect.type_info)  # of the bodies of operations, so not many


def _kinds_at(kind: inspect.Type, place: str) -> Iterator[inspect.Type]:
    """The types of what may stand at `place`, such as `.edges[2].op`, in something of this type."""
    step = _STEP.match(place)
    match kind:
        case inspect.Metadata(type=of):
            yield from _kinds_at(of, place)
        case inspect.UnionType(types=types):
            for one in types:
                yield from _kinds_at(one, place)
        case _ if step is None:
            yield kind
        case inspect.StructType(fields=fields):
            for field in fields:
                if field.encode_name == step[1]:
                    yield from _kinds_at(field.type, place[step.end() :])
        case inspect.CollectionType(item_type=of) | inspect.DictType(value_type=of):
            yield from _kinds_at(of, place[step.end() :])
