"""The parts of a backup: their manifests, names, and verified files.

parts/<part>.json    SHA-256 of the rest, in hex | line feed | JSON of a Part
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Literal, NamedTuple

import msgspec

from kith.core.errors import StoreMismatch, StoreUnavailable
from kith.engines.blobs.archives import Archive

VERSION = 1
PARTS, FILES = "parts", "files"
STORE, MEDIA = "store.mdb", "media"
_END = ".json"
_READ_AT_ONCE = 16
PartKind = Literal["whole", "increment"]


class StoredFile(msgspec.Struct, frozen=True):
    """Size and digest of a file in an archive, as it was written."""

    bytes: int
    sha256: str


class Part(msgspec.Struct, frozen=True):
    """Manifest of a whole or an increment. Times are in ms since the epoch; 0 where there was no event yet.

    A whole is copied while other processes write: it has all events up to `until`, and none after `until_most`. An
    increment has the events after `after`, up to `until` (= `until_most`). All parts of a `line` belong to one history
    of one store; its increments follow each other across its wholes.
    """

    version: int
    id: str
    kind: PartKind
    line: str
    store: str
    history: Sequence[tuple[int, int]]  # the restores that the store had been through: see `engines.embedded.history`
    after: int
    until: int
    until_most: int
    mark: str  # SHA-256 of the event `until`, to recognize a log that continues from here
    identity: str  # digest of the graphs and keys, which the log does not hold
    began_ms: int
    first_ms: int
    last_ms: int  # when its newest event was logged
    files: Mapping[str, StoredFile]

    @property
    def reached_ms(self) -> int:
        """The earliest time to which this whole can restore a store."""
        return max(self.began_ms, self.last_ms)


class Parts(NamedTuple):
    """The parts of an archive in order. `damaged`: ids of parts whose manifest cannot be read, each with the reason."""

    whole: Sequence[Part]
    damaged: Mapping[str, str]


def manifest_of(part: str) -> str:
    """The name of a part's manifest in the archive."""
    return f"{PARTS}/{part}{_END}"


def file_of(part: str, name: str) -> str:
    """The name of a part's file in the archive."""
    return f"{FILES}/{part}/{name}"


def next_id(parts: Parts, kind: PartKind) -> str:
    """An id for the next part."""
    last = max([part.id for part in parts.whole] + list(parts.damaged), default="0")
    return f"{int(last.split('-')[0]) + 1:08}-{secrets.token_hex(4)}-{kind}"


def encode_manifest(part: Part) -> bytes:
    """The content of a part's manifest file."""
    raw = msgspec.json.format(msgspec.json.encode(part))
    return hashlib.sha256(raw).hexdigest().encode() + b"\n" + raw


def decode_manifest(raw: bytes, name: str) -> Part:
    """Read what `encode_manifest` made. Errors: StoreMismatch, if the bytes were changed, or a newer Kith wrote
    them.
    """
    digest, _, body = raw.partition(b"\n")
    if hashlib.sha256(body).hexdigest().encode() != digest:
        raise StoreMismatch(f"{name} is damaged: its bytes are not those that were written")
    if msgspec.json.decode(body, type=_Versioned).version > VERSION:
        raise StoreMismatch(f"{name} was written by a newer Kith; upgrade this one first")
    return msgspec.json.decode(body, type=Part)


class _Versioned(msgspec.Struct):
    version: int


def read_parts(archive: Archive) -> Parts:
    """All parts of an archive. Errors: StoreUnavailable."""
    with ThreadPoolExecutor(_READ_AT_ONCE) as threads:
        parts = list(threads.map(lambda id_: _read(archive, id_), _ids(archive)))
    return Parts(
        [part for part in parts if isinstance(part, Part)], dict(pair for pair in parts if isinstance(pair, tuple))
    )


def read_latest(archive: Archive, cached: dict[str, Part]) -> Parts:
    """The parts of an archive that the next part needs: back to the newest whole and the newest increment.

    `cached`: a cache of parts by id; afterwards it holds the parts of this answer.
    """
    whole, damaged = list[Part](), dict[str, str]()
    for id_ in reversed(_ids(archive)):
        part = cached[id_] if id_ in cached else _read(archive, id_)
        if isinstance(part, Part):
            cached[id_] = part
            whole.append(part)
        else:
            damaged[id_] = part[1]
        if {part.kind for part in whole} == {"whole", "increment"}:
            break
    for id_ in cached.keys() - {part.id for part in whole}:
        del cached[id_]
    return Parts(whole[::-1], damaged)


def _ids(archive: Archive) -> list[str]:
    names = (file.name.removeprefix(f"{PARTS}/") for file in archive.files(PARTS))
    return sorted(name.removesuffix(_END) for name in names if name.endswith(_END))


def _read(archive: Archive, id_: str) -> Part | tuple[str, str]:
    """A part; or its id, and the reason why it cannot be read."""
    name = manifest_of(id_)
    try:
        return decode_manifest(b"".join(archive.read(name)), f"{archive.where}/{name}")
    except StoreMismatch as error:
        return id_, error.message


def put_verified(archive: Archive, name: str, chunks: Iterable[bytes]) -> StoredFile:
    """Write a file, read it back, and compare. Errors: StoreUnavailable if it differs from what was written."""
    digest = _Digest()
    archive.put(name, digest.of(chunks))
    if digest_of(archive.read(name)) != digest.file:
        raise StoreUnavailable(f"{archive.where} did not keep {name} as it was written; look at it, and try again")
    return digest.file


def read_verified(archive: Archive, name: str, file: StoredFile) -> Iterator[bytes]:
    """The content of a file; after the last chunk StoreMismatch, if it differs from what was written."""
    digest = _Digest()
    yield from digest.of(archive.read(name))
    if digest.file != file:
        raise StoreMismatch(f"{archive.where}/{name} is damaged: its bytes are not those that were written")


def digest_of(chunks: Iterable[bytes]) -> StoredFile:
    """The size and digest of a file with this content."""
    digest = _Digest()
    for _ in digest.of(chunks):
        pass
    return digest.file


class _Digest:
    """Computes size and digest of chunks as they pass through."""

    def __init__(self) -> None:
        self._sha256, self._bytes = hashlib.sha256(), 0

    def of(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            self._sha256.update(chunk)
            self._bytes += len(chunk)
            yield chunk

    @property
    def file(self) -> StoredFile:
        return StoredFile(self._bytes, self._sha256.hexdigest())
