"""For tests of backups: the rows of a store that a restore must bring back, and an archive that fails at a step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from store_histories import content
from store_wrappers import ProcessDied

from kith.engines.blobs.archives import Archive, FolderArchive, ListedFile
from kith.engines.embedded.environment import Environment
from kith.engines.embedded.event_log import read_logged
from kith.run.backups.restoring import Restored, restore
from kith.run.config import Settings

State = dict[bytes, list[tuple[bytes, bytes]]]
_REBUILT = {b"suggestions"}
_OF_ONE_COPY = (b"format", b"history", b"graphs", b"secret/backups", b"fanout")


def state(opened: Environment) -> State:
    """Every row that a restore must bring back.

    Empty graphs are left out: they may be declared later than the point in time.
    """
    found = {name: rows for name, rows in content(opened).items() if name not in _REBUILT and rows}
    found[b"meta"] = [(key, note) for key, note in found[b"meta"] if not key.startswith(_OF_ONE_COPY)]
    found[b"objects"] = [(key, row) for key, row in found.get(b"objects", []) if key[0] < 128]
    found.pop(b"log-open", None)
    with opened.lmdb.begin() as txn:
        found[b"log"] = [
            (str(event.sequence).encode(), event.logged_ms + event.change)
            for event in read_logged(txn, opened.log, 0, 10**9)
        ]
    return found


def restored(archive: Archive, folder: Path, at: str | None = None) -> tuple[Restored, State]:
    """Restore into a new folder; returns the result and the restored rows."""
    done = restore(Settings(data=str(folder)), archive, at)
    with Environment(folder, create=False) as store:
        return done, state(store)


class DyingArchive:
    """An archive in a folder that fails at a step: before, within or right after an operation."""

    def __init__(self, folder: Path, error: Callable[[], BaseException] = ProcessDied) -> None:
        self._real, self._error = FolderArchive(folder), error
        self.where = self._real.where
        self.left = 1 << 30
        """Steps until it fails. It fails once."""

    def step(self) -> None:
        """Count one step; fail if it is the last."""
        self.left -= 1
        if not self.left:
            raise self._error()

    def put(self, name: str, chunks: Iterable[bytes]) -> None:
        self.step()
        self._real.put(name, self._watched(chunks))
        self.step()

    def read(self, name: str) -> Iterator[bytes]:
        yield from self._watched(self._real.read(name))

    def files(self, prefix: str) -> Iterator[ListedFile]:
        return self._real.files(prefix)

    def delete(self, names: Sequence[str]) -> None:
        for name in names:
            self.step()
            self._real.delete([name])
        self.step()

    def _watched(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            yield chunk
            self.step()
