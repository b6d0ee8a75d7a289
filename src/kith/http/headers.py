"""Headers of a request, by lower-case name; and what is refused rather than guessed."""

from __future__ import annotations

from kith.core.errors import BadRequest

Pairs = list[tuple[str, str]]
"""Headers of an answer."""
UNREADABLE = "\x7f"
"""Stands for a header's value that is not ASCII; nothing accepts it."""


class Headers:
    """Headers of a request. `values`: the first value of each lower-case name; `repeated`: all of names sent twice."""

    __slots__ = ("repeated", "values")

    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}
        self.repeated: dict[bytes, list[bytes]] = {}

    def add(self, name: bytes, value: bytes) -> None:
        """Note one more header."""
        name = name.lower()
        if name in self.values:
            self.repeated.setdefault(name, [self.values[name]]).append(value)
        else:
            self.values[name] = value

    def __contains__(self, name: str) -> bool:
        return name.encode() in self.values

    def get(self, name: str) -> str | None:
        """The value of a header, the first where it was sent more than once; None if it was not sent."""
        value = self.values.get(name.encode())
        if value is None:
            return None
        return value.decode() if value.isascii() else UNREADABLE

    def single(self, name: str) -> str | None:
        """As `get`, of a header that says who asks. BadRequest if it was sent twice: which of both is meant?"""
        if self.repeated and (values := self.repeated.get(name.encode())):
            raise BadRequest(f"{name} was sent {len(values)} times; send it once, and have no proxy add another")
        return self.get(name)
