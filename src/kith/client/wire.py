"""Runs a call from its description to its answer, without I/O: requests, retries, tokens, errors.

A `Call` describes a request and how to decode its answer; a `CallPlan` is a sequence of calls with one result.
`Session.steps` turns a plan into steps for a driver, which only sends and waits (see `clients`). So all of this is the
same for sync and async. A call is retried only if a repetition cannot do anything twice.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Collection, Generator, Mapping
from typing import Any, Final, Generic, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

import httpx
import msgspec

from kith.client.answers import Page
from kith.client.errors import INVALID_ANSWER, ApiError, Unreachable
from kith.core.errors import Overloaded
from kith.core.ids import NodeId

TOKEN_HEADER = "Kith-Token"  # noqa: S105 (a name, no secret)
USER_HEADER = "X-Kith-User"
SYSTEM: Final = "system"
"""Acting for the app's back office, which sees everything, instead of a user."""
Acting: TypeAlias = NodeId | Literal["system"] | None
"""Whom a server key acts for; None: a visitor."""
TOKENS_MAX = 8
"""Tokens of concurrent writes that a session keeps. The service accepts 16."""
RETRIED = frozenset({429, 503})
_NOT_STARTED = Overloaded.code  # the only error with status 503 that guarantees that nothing was done
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
_UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError)
_DOUBLINGS_MAX = 30  # keeps the backoff within a float for any number of tries

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Form(NamedTuple):
    """A file to send (its bytes or its path), and the text fields beside it."""

    file: bytes | str | os.PathLike[str]
    fields: Mapping[str, str]


class Call(msgspec.Struct, Generic[T_co], frozen=True):
    """One request, and how to decode its answer. Used as a plan it is a sequence of one call."""

    method: str
    path: str
    parse: Callable[[bytes], T_co]
    params: Mapping[str, str | int] = {}
    body: Mapping[str, Any] | None = None
    headers: Mapping[str, str] = {}
    form: Form | None = None  # sent instead of a body
    on_503: T_co | None = None  # what the call returns on a 503, if that is an answer and not a failure
    repeatable: bool = True  # the request is idempotent; otherwise it is retried only if it was not started
    deletes: bool = False  # after a try with unknown result, a 404 counts as success

    def asking(self, **fields: str | int | None) -> Call[T_co]:
        """The call with these fields added to its query, or to its body if it has one. A field of None is left out."""
        added = {name: value for name, value in fields.items() if value is not None}
        if self.body is None:
            return msgspec.structs.replace(self, params={**self.params, **added})
        return msgspec.structs.replace(self, body={**self.body, **added})

    def cursor(self) -> object:
        """The cursor that the call sends, if any."""
        return (self.params if self.body is None else self.body).get("cursor")

    def __iter__(self) -> Generator[Call[Any], Any, T_co]:
        answer: T_co = yield self
        return answer


class CallPlan(Protocol[T_co]):
    """Yields calls, is sent their answers, returns the result."""

    def __iter__(self) -> Generator[Call[Any], Any, T_co]: ...


class Request(NamedTuple):
    """A step for the driver: send this. `path` continues the base URL."""

    method: str
    path: str
    params: Mapping[str, str | int]
    headers: Mapping[str, str]
    content: bytes | None
    form: Form | None = None


class Wait(NamedTuple):
    """A step for the driver: wait for this time."""

    seconds: float


Step: TypeAlias = Request | Wait
Outcome: TypeAlias = httpx.Response | httpx.RequestError | None
Steps: TypeAlias = Generator[Step, Outcome, T]


class Retry(msgspec.Struct, frozen=True):
    """Exponential backoff with full jitter, for 429, 503 and lost connections.

    A call waits at least as long as `Retry-After` says. If that is longer than `cap_s`, the error is raised at once,
    with `retry_after_s`, so that the caller decides about so long a wait.
    """

    tries: int = 4
    base_s: float = 0.2
    cap_s: float = 5.0

    def __post_init__(self) -> None:
        if self.tries < 1 or self.base_s < 0 or self.cap_s < 0:
            raise ValueError("a Retry needs tries >= 1, base_s >= 0 and cap_s >= 0")

    def wait_s(self, failures: int, retry_after_s: float | None, random: Callable[[], float]) -> float | None:
        """The seconds to wait after this many failures; None: give up. `random` returns 0 to 1."""
        asked_s = retry_after_s or 0.0
        if failures >= self.tries or asked_s > self.cap_s:
            return None
        backoff_s: float = self.base_s * 2 ** min(failures - 1, _DOUBLINGS_MAX)
        return min(self.cap_s, asked_s + random() * min(self.cap_s, backoff_s))


class Session:
    """Whom a client acts for, and its read-your-writes token. Only the HTTP client holds the key."""

    def __init__(self, url: str, user: Acting, token: str | None, retry: Retry, random: Callable[[], float]) -> None:
        self.url = url
        self.user = user
        self.token = token
        self.retry = retry
        self.random = random
        self._carrying = threading.Lock()

    def as_user(self, user: Acting, token: str | None) -> Session:
        """A session for `user` that starts with `token`, or with this session's token."""
        return Session(self.url, user, token or self.token, self.retry, self.random)

    def steps(self, plan: CallPlan[T]) -> Steps[T]:
        """Yield all steps of a plan; returns its result. Raises ApiError or Unreachable."""
        calls = iter(plan)
        answer = None
        while True:
            try:
                call = calls.send(answer)
            except StopIteration as stop:
                result: T = stop.value
                return result
            answer = yield from self._exchange(call)

    def _exchange(self, call: Call[T]) -> Steps[T]:
        failures, perhaps_done = 0, False
        while True:
            token = self.token
            outcome = yield self.request(call)
            failures += 1
            if isinstance(outcome, httpx.Response):
                self._carry(outcome.headers.get(TOKEN_HEADER), token)
                if outcome.status_code == 503 and call.on_503 is not None:
                    return call.on_503
                if outcome.status_code == 404 and call.deletes and perhaps_done:
                    return call.parse(b"")
                if outcome.status_code not in RETRIED:
                    return self._answer(call, outcome, token)
            not_started = _was_not_started(outcome)
            perhaps_done |= not not_started
            yield Wait(self.wait_or_raise(outcome, failures, may_repeat=call.repeatable or not_started))

    def wait_or_raise(
        self,
        outcome: Outcome,
        failures: int,
        *,
        may_repeat: bool = True,
        retry: Retry | None = None,
        retried: Collection[int] = RETRIED,
    ) -> float:
        """The seconds to wait after a refusal or a lost connection; raises ApiError or Unreachable to give up.

        `may_repeat`: false to give up at once. `retry`: the session's by default. `retried`: statuses to retry on.
        """
        retry = retry or self.retry
        if isinstance(outcome, httpx.Response):
            refused = _refusal(outcome)
            repeats = may_repeat and outcome.status_code in retried
            wait_s = retry.wait_s(failures, refused.retry_after_s, self.random) if repeats else None
            if wait_s is None:
                raise refused
            return wait_s
        wait_s = retry.wait_s(failures, None, self.random) if may_repeat else None
        if wait_s is None:
            raise Unreachable(self.url, failures, _reason(outcome)) from outcome
        return wait_s

    def request(self, call: Call[Any]) -> Request:
        """The request of a call, with this session's user and token."""
        headers = dict(call.headers)
        if self.user is not None:
            headers[USER_HEADER] = str(self.user)
        if self.token is not None:
            headers[TOKEN_HEADER] = self.token
        content = None
        if call.body is not None:
            headers["Content-Type"] = "application/json"
            content = msgspec.json.encode(call.body)
        return Request(call.method, call.path, call.params, headers, content, call.form)

    def _answer(self, call: Call[T], response: httpx.Response, token: str | None) -> T:
        if not response.is_success:
            raise _refusal(response)
        try:
            answer = call.parse(response.content)
        except _UNDECODABLE as error:
            raise unreadable(f"{call.method} {call.path}: {error}", response.status_code) from error
        if TOKEN_HEADER not in response.headers:
            self._carry(getattr(answer, "token", None), token)
        return answer

    def _carry(self, token: str | None, sent_tokens: str | None) -> None:
        """Keep the token of an answer in place of `sent_tokens`, those that its request sent, which it covers.

        It does not cover concurrent writes, whose answers came meanwhile. Their tokens are kept beside it.
        """
        if not token:
            return
        with self._carrying:
            covered = (sent_tokens or "").split(".")
            kept = [part for part in (self.token or "").split(".") if part and part not in covered]
            self.token = ".".join([*kept, token][-TOKENS_MAX:])


def _was_not_started(outcome: Outcome) -> bool:
    """Whether a failed try certainly had no effect."""
    if isinstance(outcome, httpx.Response):
        return outcome.status_code == 429 or _refusal(outcome).code == _NOT_STARTED
    return isinstance(outcome, _NOT_SENT)


def next_call(call: Call[Page[T]], page: Page[T]) -> Call[Page[T]] | None:
    """The call for the page after `page`, or None at the end. ApiError if the cursor did not advance."""
    if page.next_cursor is None or not page.has_more:
        return None
    if page.next_cursor == call.cursor():
        raise unreadable(f"{call.method} {call.path}: the next page has the same cursor as this one")
    return call.asking(cursor=page.next_cursor)


def unreadable(problem: str, status: int = 200) -> ApiError:
    """The error for a successful answer that breaks the contract."""
    return ApiError(status, INVALID_ANSWER, f"{problem}; is this the URL of a Kith server, and no older one?")


class _ErrorBody(msgspec.Struct):
    code: str
    message: str
    details: dict[str, Any] | None = None


class _ErrorAnswer(msgspec.Struct):
    error: _ErrorBody


_decode_error = msgspec.json.Decoder(_ErrorAnswer).decode


def _refusal(response: httpx.Response) -> ApiError:
    status, retry_after_s = response.status_code, retry_after_of(response)
    try:
        error = _decode_error(response.content).error
    except _UNDECODABLE:
        message = "the answer is not Kith's; check the URL and what stands in front of the service"
        return ApiError(status, f"HTTP_{status}", message, retry_after_s=retry_after_s)
    return ApiError(status, error.code, error.message, error.details, retry_after_s)


def retry_after_of(response: httpx.Response) -> float | None:
    """Retry-After in seconds; None if it is missing or a date. The backoff alone then decides."""
    try:
        seconds = float(response.headers.get("Retry-After", ""))
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def _reason(outcome: httpx.RequestError | None) -> str:
    if isinstance(outcome, httpx.PoolTimeout):
        return "all connections of this client are in use, and each stream holds one"
    return f"{type(outcome).__name__}: {outcome}".removesuffix(": ")
