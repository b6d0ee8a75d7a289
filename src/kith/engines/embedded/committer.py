"""The committer: a child process that commits the writes of an API process.

Merging edges is Python code, and so is answering requests. As two threads of one process they wait for each other at
Python's global lock, some forty times a commit (docs/decisions/0049-committers.md). So an API process forks a committer
before it opens anything. It sends each job that is a value (`jobs.WriteJob`) to the committer over a socket. The
committer runs the jobs in its own `CommitQueue`, and sends an answer when the job is durable. The API process commits
all other jobs itself. The store's turns (see `turns`) order the commits of all processes.

Messages, both ways:  length u32 | msgpack

    request   [[number, job, writes], ...]      the first message is empty: open the store; a later empty one: the last
    response  [outcomes, commits, failures]     outcomes  [number, answer or nil, pickled error or nil]
                                                commits   [jobs, writes, seconds] · failures  pickled errors

The committer ends with its parent. If the parent closes it, it finishes all submitted jobs first. If the parent is
killed, jobs that have not begun are dropped, as the jobs of the parent's own queue are. If the committer ends first, it
is unknown what it stored: waiting callers get StoreUnavailable, and the parent has to be replaced.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import pickle
import queue
import select
import signal
import socket
import struct
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import Any, NamedTuple

import msgspec
import structlog

from kith.core.errors import KithError, StoreUnavailable
from kith.engines.embedded.commits import CommitObserver, CommitQueue
from kith.engines.embedded.jobs import JobOutcome, SubmitterGone, WaitingJob, WriteJob
from kith.engines.embedded.merging import MergeEdges
from kith.engines.embedded.record_store import PutMany, PutRecords
from kith.engines.embedded.transaction import Transaction
from kith.graph.edge import EdgeChange
from kith.records.store import Put

_LENGTH = struct.Struct("<I")
_RECEIVED_BYTES = 1 << 20
_BEAT_S = 1.0
"""Seconds between signs of life of a committer, and between the parent's checks for them."""
_PR_SET_PDEATHSIG = 1
_log = structlog.get_logger("kith.store")
_COMMITTER_GONE = "the committer ended before it answered, so this may or may not be stored; repeat it"
_ANSWER_TYPES: dict[type[WriteJob], Any] = {MergeEdges: list[EdgeChange], PutRecords: Put, PutMany: list[Put]}
"""The kinds of jobs that are sent to a committer, with the type of each one's answer."""
_read_answer: dict[type[WriteJob], Callable[[msgspec.Raw], Any]] = {
    job: msgspec.msgpack.Decoder(answer).decode for job, answer in _ANSWER_TYPES.items()
}
_encode = msgspec.msgpack.Encoder().encode


class _Request(NamedTuple):
    number: int
    job: msgspec.Raw
    writes: int


class _Outcome(NamedTuple):
    number: int
    answer: msgspec.Raw
    error: bytes | None


class _Response(NamedTuple):
    outcomes: list[_Outcome]
    commits: list[tuple[int, int, float]]
    failures: list[bytes]


_read_job = msgspec.msgpack.Decoder(MergeEdges | PutRecords | PutMany).decode
_read_requests = msgspec.msgpack.Decoder(list[_Request]).decode
_read_response = msgspec.msgpack.Decoder(_Response).decode
_NO_ANSWER = msgspec.Raw(_encode(None))


class _Messages:
    """Splits a stream of bytes into messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def of(self, data: bytes) -> Iterator[bytes]:
        """The messages that are complete once `data` has come."""
        buffer = self._buffer
        buffer += data
        start = 0
        while len(buffer) - start >= _LENGTH.size:
            end = start + _LENGTH.size + _LENGTH.unpack_from(buffer, start)[0]
            if len(buffer) < end:
                break
            yield bytes(buffer[start + _LENGTH.size : end])
            start = end
        del buffer[:start]


def _message(value: Any) -> bytes:
    raw = _encode(value)
    return _LENGTH.pack(len(raw)) + raw


def run_committer(commits: CommitQueue, jobs: ReceivedJobs) -> None:
    """Run a committer until its jobs end, with a beat each second. `commits`: the queue whose source is `jobs`."""
    while commits.join(_BEAT_S):
        jobs.beat()
    commits.close()


def start(commit: Callable[[ReceivedJobs], None]) -> Committer:
    """Fork a committer. Call this before the process has a second thread.

    `commit`: what the child runs; it returns when the jobs end.
    """
    parents_end, childs_end = socket.socketpair()
    sys.stdout.flush()
    sys.stderr.flush()
    parent, pid = os.getpid(), os.fork()
    if pid:
        childs_end.close()
        return Committer(parents_end, pid)
    parents_end.close()
    status = 1
    try:
        _kill_with_parent(parent)
        commit(ReceivedJobs(childs_end))
        status = 0
    except KithError as error:
        print(f"kith: a committer ended: {error.message}", file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _kill_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent dies, even while this process is stopped.

    Only Linux can do that. Elsewhere the process ends once it sees that its socket is closed.
    """
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


class Committer(asyncio.Protocol):
    """The parent's side of a committer, in an event loop. See `jobs.RemoteCommitter`."""

    def __init__(self, connection: socket.socket, pid: int) -> None:
        self._connection, self.pid = connection, pid
        self._messages = _Messages()
        self._pending: dict[int, tuple[type[WriteJob], int, asyncio.Future[Any]]] = {}
        self._unsent: list[_Request] = []
        self._number = self.waiting = self._silent = 0
        self._closing, self._ended = False, asyncio.Event()
        self._graphs = frozenset[int]()
        self._transport: asyncio.WriteTransport | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def open(
        self, graphs: Collection[int], observer: CommitObserver, on_fatal: Callable[[], None], silent_s: int
    ) -> None:
        """Have the committer open the store; this process has it open already.

        `graphs`: the graphs declared so far; this process writes edges of any other graph itself. `observer`: called
        for the committer's commits. `on_fatal`: called when the committer ends before it is closed. `silent_s`: the
        committer is killed if it sends nothing for this long.
        """
        self._silent_s = silent_s
        self._graphs, self._observer, self._on_fatal = frozenset(graphs), observer, on_fatal
        loop = self._loop = asyncio.get_running_loop()
        transport, _ = await loop.create_unix_connection(lambda: self, sock=self._connection)
        self._transport = transport
        transport.write(_message([]))
        self._watch = loop.call_later(_BEAT_S, self._kill_if_hanging)

    def ask(self, job: WriteJob, writes: int) -> asyncio.Future[Any] | None:
        loop = asyncio.get_running_loop()
        if loop is not self._loop or type(job) not in _ANSWER_TYPES or not self._graphs.issuperset(job.graphs()):
            return None
        try:
            encoded = msgspec.Raw(_encode(job))
        except (TypeError, OverflowError):  # a NumPy number, or one of more than 64 bits
            return None
        future: asyncio.Future[Any] = loop.create_future()
        if self._closing or self._ended.is_set():
            future.set_exception(StoreUnavailable("the store is closing; repeat the request on another instance"))
            return future
        if not self._unsent:
            loop.call_soon(self._send)  # in one message with all other jobs of this turn of the loop
        self._number += 1
        self.waiting += writes
        self._pending[self._number] = type(job), writes, future
        self._unsent.append(_Request(self._number, encoded, writes))
        return future

    async def close(self) -> None:
        """Have the committer finish all submitted jobs, and wait until it has ended."""
        self._closing = True
        if self._transport is None:
            self._connection.close()
        elif not self._ended.is_set():
            self._send()
            self._transport.write(_message([]))
            await self._ended.wait()
        await asyncio.to_thread(self._reap)

    def _send(self) -> None:
        if self._unsent and self._transport is not None and not self._ended.is_set():
            self._transport.write(_message(self._unsent))
            self._unsent.clear()

    def _kill_if_hanging(self) -> None:
        """Kill a committer that hangs. As in `run.serving.heartbeats`, silence is counted in calls of this method, so a
        pause of this process does not count as the committer's silence.
        """
        self._silent += 1
        if self._silent * _BEAT_S > self._silent_s:
            _log.error("a committer hangs; it is replaced with its process", pid=self.pid, silent_s=self._silent_s)
            os.kill(self.pid, signal.SIGKILL)
        elif self._loop is not None:
            self._watch = self._loop.call_later(_BEAT_S, self._kill_if_hanging)

    def data_received(self, data: bytes) -> None:
        self._silent = 0
        for message in self._messages.of(data):
            response = _read_response(message)
            for commit in response.commits:
                self._observer.committed(*commit)
            for error in response.failures:
                self._observer.failed(pickle.loads(error))  # noqa: S301 - from our own fork
            for number, answer, pickled_error in response.outcomes:
                kind, writes, future = self._pending[number]
                result = _read_answer[kind](answer) if pickled_error is None else pickle.loads(pickled_error)  # noqa: S301
                del self._pending[number]
                self.waiting -= writes
                if future.done():  # the caller was cancelled; the write stays committed
                    continue
                if pickled_error is None:
                    future.set_result(result)
                else:
                    future.set_exception(result)

    def connection_lost(self, error: Exception | None) -> None:
        self._ended.set()
        pending, self._pending, self.waiting = self._pending, {}, 0
        self._watch.cancel()
        for *_, future in pending.values():
            if not future.done():
                future.set_exception(StoreUnavailable(_COMMITTER_GONE))
        if not self._closing:
            self._on_fatal()

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)


class ReceivedJobs:
    """The committer's side: the `jobs.RemoteJobSource` of its `CommitQueue`, the queue's observer, and the submitter of
    each job.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection, self._messages = connection, _Messages()
        self._poll = select.poll()
        self._poll.register(connection, select.POLLIN)
        self._waiting = deque[WaitingJob]()
        self._is_open = self._is_over = False
        self._send_lock = threading.Lock()
        """Held while sending: the queue's thread, the thread of confirmations, and the main thread (beats) all send."""
        self._commits: list[tuple[int, int, float]] = []
        self._failures: list[bytes] = []

    def wait_for_first(self) -> bool:
        """Wait for the message to open the store. False if the parent ended, or closed the committer, instead."""
        while not (self._is_open or self._is_over):
            self._receive()
        return self._is_open

    def get(self, block: bool = True, timeout: float | None = None) -> WaitingJob | None:
        if not self._waiting and not self._is_over:
            self._poll.poll(None if timeout is None else 1000 * timeout)
        self._receive_all()  # before each commit: if the parent was killed, no more jobs are done
        return self._next()

    def get_nowait(self) -> WaitingJob | None:
        if not self._waiting:
            self._receive_all()
        return self._next()

    def empty(self) -> bool:
        return not self._waiting and not self._poll.poll(0)

    def _next(self) -> WaitingJob | None:
        if self._waiting:
            return self._waiting.popleft()
        if self._is_over:
            return None
        raise queue.Empty

    def _receive_all(self) -> None:
        while not self._is_over and self._poll.poll(0):
            self._receive()

    def put(self, job: WaitingJob | None) -> None:
        """Do nothing: jobs come over the socket. `CommitQueue.close` calls this."""

    def check(self) -> None:
        if any(event & select.POLLHUP for _, event in self._poll.poll(0)):
            raise SubmitterGone

    def beat(self) -> None:
        """Tell the parent that this process runs, and report commits that no job caused."""
        self.answer([])

    def committed(self, jobs: int, writes: int, seconds: float) -> None:
        with self._send_lock:
            self._commits.append((jobs, writes, seconds))

    def failed(self, error: KithError) -> None:
        with self._send_lock:
            self._failures.append(_pickled(error))

    def answer(self, outcomes: list[JobOutcome]) -> None:
        encoded = [_Outcome(job.ticket, *_outcome(answer, error)) for job, answer, error in outcomes]
        with self._send_lock:
            commits, self._commits = self._commits, []
            failures, self._failures = self._failures, []
            with contextlib.suppress(OSError):  # the parent is gone
                self._connection.sendall(_message(_Response(encoded, commits, failures)))

    def _receive(self) -> None:
        try:
            data = self._connection.recv(_RECEIVED_BYTES)
        except ConnectionResetError:
            data = b""
        if not data:
            self._waiting.clear()
            self._is_over = True
        for message in self._messages.of(data):
            requests = _read_requests(message)
            self._waiting += [
                WaitingJob(_job_of(request.job), request.writes, self, request.number) for request in requests
            ]
            if not requests:
                self._is_open, self._is_over = True, self._is_open


def _outcome(answer: Any, error: BaseException | None) -> tuple[msgspec.Raw, bytes | None]:
    return (msgspec.Raw(_encode(answer)), None) if error is None else (_NO_ANSWER, _pickled(error))


def _job_of(encoded: msgspec.Raw) -> Callable[[Transaction], Any]:
    """Decode a job. If that fails, return a job that raises the error, so that it fails alone."""
    try:
        job: WriteJob = _read_job(encoded)
    except msgspec.MsgspecError as error:
        return partial(_raise, error)
    return job


def _raise(error: Exception, _: Transaction) -> None:
    raise error


def _pickled(error: BaseException) -> bytes:
    """An error as bytes. An error that is a bug of Kith carries its traceback."""
    if not isinstance(error, KithError):
        error.add_note("".join(traceback.format_tb(error.__traceback__)))
    try:
        raw = pickle.dumps(error)
        pickle.loads(raw)  # noqa: S301 - as the parent will
    except Exception:  # it holds something that cannot be pickled
        raw = pickle.dumps(RuntimeError("".join(traceback.format_exception(error))))
    return raw
