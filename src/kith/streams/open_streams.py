"""The streams that are sent changes, by reader, and the only way out for messages and heartbeats.

Nothing is queued here: `Stream.send` does not wait, and its implementation bounds what a slow reader costs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Protocol

from kith.streams.messages import EncodedMessage, Message, encode
from kith.streams.positions import Step, StreamPosition, StreamProgress
from kith.streams.stream import Stream


class Observer(Protocol):
    """Counts what streams do."""

    def messages_sent(self, name: str, streams: int) -> None:
        """One message was sent to this many streams."""
        ...

    def stream_lag(self, lag_s: float) -> None:
        """The age of the oldest event of the last read; 0 if it read none."""
        ...


class OpenStreams:
    """Streams that have joined and not left."""

    def __init__(self, observer: Observer, progress: StreamProgress, now_s: Callable[[], float]) -> None:
        self._observer, self._progress, self._now_s = observer, progress, now_s
        self._by_reader: dict[int, list[Stream]] = {}

    def add(self, stream: Stream) -> None:
        """Send a stream changes from now on."""
        self._by_reader.setdefault(stream.user, []).append(stream)

    def remove(self, stream: Stream) -> None:
        """Remove a stream, if it is here."""
        streams = self._by_reader.get(stream.user, [])
        if stream in streams:
            streams.remove(stream)
            if not streams:
                del self._by_reader[stream.user]

    @property
    def readers(self) -> Collection[int]:
        """Users with streams here."""
        return self._by_reader

    def of(self, reader: int) -> Sequence[Stream]:
        """The streams of one reader."""
        return self._by_reader.get(reader, ())

    def all(self) -> list[Stream]:
        """Every stream."""
        return [stream for streams in self._by_reader.values() for stream in streams]

    def unsent_streams(self, readers: Iterable[int], step: Step) -> list[Stream]:
        """The readers' streams that were not sent a change yet: neither while they joined nor before an error."""
        covers, position = self._progress.covers, step.log_position
        return [stream for reader in readers for stream in self.of(reader) if not covers(stream.sent_up_to, position)]

    def send(self, streams: Sequence[Stream], message: Message) -> None:
        """Send one message to some streams, each with its own place."""
        if streams:
            encoded, position_of = encode(message), self._progress.position_of
            for stream in streams:
                self._write(stream, position_of(stream.sent_up_to), encoded.name, encoded.data)
            self._observer.messages_sent(encoded.name, len(streams))

    def send_at(self, stream: Stream, place: StreamPosition, message: Message) -> None:
        """Send a message to one stream, with this place."""
        encoded = encode(message)
        self._write(stream, place, encoded.name, encoded.data)
        self._observer.messages_sent(encoded.name, 1)

    def send_encoded(self, stream: Stream, message: EncodedMessage) -> None:
        """Send a message to one stream."""
        self._write(stream, self._progress.position_of(stream.sent_up_to), message.name, message.data)
        self._observer.messages_sent(message.name, 1)

    def send_heartbeat(self, stream: Stream, place: StreamPosition | None = None) -> None:
        """Send a heartbeat, which carries only a place: by default the stream's own."""
        self._write(stream, place or self._progress.position_of(stream.sent_up_to), "", b"")

    def _write(self, stream: Stream, place: StreamPosition, name: str, data: bytes) -> None:
        stream.sent_at_s = self._now_s()
        stream.send(place, name, data)
