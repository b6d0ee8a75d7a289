"""Request headers by lower-case name. Ambiguous ones are refused, not guessed."""

from __future__ import annotations

from kith.core.errors import BadRequest

Pairs = list[tuple[str, str]]
"""Headers of an answer."""
UNREADABLE = "\x7f"
"""Replaces a header value that is not ASCII; nothing accepts it."""


class Headers:
    """The headers of a request. They are indexed by name at the first lookup."""

    __slots__ = ("_pairs", "_repeated", "_values")

    def __init__(self) -> None:
        self._pairs: list[tuple[bytes, bytes]] = []
        self._values: dict[str, str] | None = None
        self._repeated: dict[str, list[bytes]] = {}  # of names sent twice

    def add(self, name: bytes, value: bytes) -> None:
        """Add a header."""
        self._pairs.append((name, value))

    def __len__(self) -> int:
        return len(self._pairs)

    def _sorted(self) -> dict[str, str]:
        """Index the headers: the first value of each lower-case name."""
        values = self._values = {_name(name): _text(value) for name, value in reversed(self._pairs)}
        if len(values) < len(self._pairs):
            for name, value in self._pairs:
                self._repeated.setdefault(_name(name), []).append(value)
            self._repeated = {name: repeated for name, repeated in self._repeated.items() if len(repeated) > 1}
        return values

    def __contains__(self, name: str) -> bool:
        return name in (self._values or self._sorted())

    @property
    def are_repeated(self) -> bool:
        """Whether any name was sent twice."""
        return len(self._values or self._sorted()) < len(self._pairs)

    def get(self, name: str) -> str | None:
        """The value of a header, the first if it was sent more than once; None if it was not sent."""
        return (self._values or self._sorted()).get(name)

    def single(self, name: str) -> str | None:
        """As `get`, for a header with one meaning, such as who the caller is. BadRequest if it was sent twice, because
        one of them is wrong.
        """
        value = self.get(name)
        if self._repeated and (values := self._repeated.get(name)):
            raise BadRequest(f"{name} was sent {len(values)} times; send it once, and have no proxy add another")
        return value

    def replaced(self, name: str, value: str) -> Headers:
        """The same headers with another value for one that was sent once."""
        headers = Headers()
        headers._pairs, headers._values = self._pairs, {**(self._values or self._sorted()), name: value}
        return headers

    def lines(self, without: bytes) -> list[bytes]:
        """The headers as lines again, except the one with this lower-case name."""
        return [b"%b: %b" % (name, value.strip()) for name, value in self._pairs if name.lower() != without]


def _name(raw: bytes) -> str:
    return raw.lower().decode("latin-1")


def _text(raw: bytes) -> str:
    return raw.strip().decode() if raw.isascii() else UNREADABLE
