"""Authenticates callers and limits their requests per second.

A server key acts for any user (`X-Kith-User: ID`), for the app's back office (`X-Kith-User: system`), or, without that
header, for an unknown visitor. A user token (a JWT signed by the app) acts only for its `sub`.

Server keys are stored as SHA-256 only; they are random, so a fast hash does not weaken them. Verified credentials are
cached for CREDENTIALS_CACHED_S seconds, so the hot path costs one dictionary lookup. An invalid credential costs a
hash: a token is decoded only if the app signed it, and a token that can never become valid is decoded once. So failed
attempts need no rate limit, which an attacker could exhaust for everyone.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

import jwt
from jwt.utils import base64url_encode

from kith.core.errors import BadRequest, Forbidden, KithError, RateLimited, Unauthorized
from kith.core.ids import NodeId, parse_id
from kith.people.privacy import SYSTEM, Viewer

BACK_OFFICE = "system"
"""The value of `X-Kith-User` that acts for the app itself."""
CREDENTIALS_CACHED_MAX = 10_000
CREDENTIALS_CACHED_S = 60.0
_BURST_S = 2.0  # seconds of requests that a bucket holds, so that short bursts pass
_BUCKETS_MAX = 100_000
_LEEWAY_S = 10  # allowed clock skew between this server and the app that signs tokens
_HASHES = {"HS256": "sha256", "HS384": "sha384", "HS512": "sha512"}
_NO_CREDENTIAL = "send `Authorization: Bearer <server key or user token>`"
_WRONG_SIGNATURE = (
    "its signature is not ours; is `jwt_secret` the same in your app, and its algorithm one of `jwt_algorithms`?"
)
_JWT_PROBLEMS: dict[type[Exception], str] = {
    jwt.InvalidSignatureError: _WRONG_SIGNATURE,
    jwt.InvalidAlgorithmError: _WRONG_SIGNATURE,
    jwt.InvalidAudienceError: "its `aud` is not `jwt_audience`",
    jwt.InvalidIssuerError: "its `iss` is not `jwt_issuer`",
    jwt.MissingRequiredClaimError: "it needs `sub`, `exp`, `iss` and `aud`",
    jwt.exceptions.InvalidSubjectError: "its `sub` must be a user's id as a string",
}


WhenInvalid = Callable[[str | None, Callable[[], object]], Callable[[], object]]
"""See `Guard.when_invalid`."""


class Caller(NamedTuple):
    """The caller of a request. `user`: the user acted for; None for the back office (`system`), and for a server key
    that names no user.
    """

    server: bool
    user: NodeId | None
    key: str  # the key of their rate limit; never a secret
    system: bool = False  # the app's back office, which sees everything

    @property
    def viewer(self) -> Viewer:
        """Whose view of people and their posts applies: the user's, the back office's, or a visitor's."""
        return SYSTEM if self.system else self.user

    def acting_user(self) -> NodeId:
        """The user acted for. BadRequest if a server key names none."""
        if self.user is None:
            raise BadRequest("this is done for a user, and none was named; name them in the X-Kith-User header")
        return self.user

    def reader(self) -> str:
        """Who a cursor is bound to: the acting user, the back office, or visitors."""
        if self.user is not None:
            return f"user {self.user}"
        return "system" if self.system else "visitor"


class RateLimits(NamedTuple):
    """Requests per second; 0 for no limit."""

    user_read: int
    user_write: int
    server_read: int
    server_write: int


class UserTokens(NamedTuple):
    """How user tokens must be signed."""

    secret: str
    algorithms: Sequence[str]
    issuer: str
    audience: str

    def signed(self, token: str) -> bool:
        """Whether the app signed this token. Far cheaper than decoding it, and no proof that it is valid.

        A signature has one spelling. Decoding would skip foreign letters, so one token would have endless variants.
        """
        signed, _, signature = token.encode().rpartition(b".")
        secret = self.secret.encode()
        digests = (hmac.digest(secret, signed, _HASHES[name]) for name in self.algorithms)
        return any(hmac.compare_digest(base64url_encode(digest), signature) for digest in digests)

    def issue(self, user: NodeId, ttl_s: int) -> str:
        """A token for `user`, as the app would sign it (for `kith token` and tests)."""
        now_s = int(time.time())
        claims = {"sub": str(user), "iss": self.issuer, "aud": self.audience, "iat": now_s, "exp": now_s + ttl_s}
        return jwt.encode(claims, self.secret, algorithm=self.algorithms[0])


def hash_key(key: str) -> bytes:
    """The hash under which a server key is stored."""
    return hashlib.sha256(key.encode()).digest()


class Guard:
    """Authenticates callers and limits their requests. `server_keys` are hashes."""

    def __init__(
        self,
        server_keys: Iterable[bytes],
        tokens: UserTokens,
        rates: RateLimits,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._server_keys, self._tokens, self._rates, self._now_s = frozenset(server_keys), tokens, rates, now_s
        self._when_revoked: dict[bytes, set[Callable[[], object]]] = {}  # by the hash of a server key
        self._cached_callers: dict[str, tuple[Caller, float]] = {}
        self._refused: dict[str, str] = {}  # tokens that the app signed and that can never be valid, and why
        self._buckets: dict[tuple[str, bool], tuple[float, float]] = {}

    def accept(self, server_keys: Iterable[bytes]) -> None:
        """Accept exactly these server keys, given as hashes. What runs under another one ends (`when_invalid`)."""
        before, self._server_keys = self._server_keys, frozenset(server_keys)
        if revoked := before - self._server_keys:
            self._cached_callers.clear()
            for hashed in revoked:
                for call in list(self._when_revoked.pop(hashed, ())):
                    call()

    def caller(self, authorization: str | None, acting: str | None) -> Caller:
        """The caller who sends these headers. Unauthorized or Forbidden, with the reason."""
        if authorization is None:
            raise Unauthorized(_NO_CREDENTIAL)
        cached_caller = self._cached_callers.get(authorization)
        if cached_caller is not None and cached_caller[1] > self._now_s():
            caller = cached_caller[0]
        else:
            caller = self._verify(authorization)
        if acting is None:
            return caller
        if acting == BACK_OFFICE:
            if not caller.server:
                raise Forbidden("only a server key acts for the app; leave X-Kith-User out")
            return Caller(True, None, caller.key, system=True)
        user = parse_id(acting, "X-Kith-User")
        if caller.server:
            return Caller(True, user, caller.key, False)
        if user != caller.user:
            raise Forbidden("a user token acts only for its own user; leave X-Kith-User out")
        return caller

    def admit(self, caller: Caller, *, write: bool) -> None:
        """Count one request. RateLimited says when to retry."""
        rate = self._rates[2 * caller.server + write]
        if not rate:
            return
        now_s, burst = self._now_s(), rate * _BURST_S
        tokens, filled_at_s = self._buckets.pop((caller.key, write), (burst, now_s))
        tokens = min(burst, tokens + (now_s - filled_at_s) * rate)
        if len(self._buckets) >= _BUCKETS_MAX:  # evict the longest unused bucket: its caller gets a full one
            del self._buckets[next(iter(self._buckets))]
        self._buckets[(caller.key, write)] = (tokens - 1 if tokens >= 1 else tokens, now_s)
        if tokens < 1:
            raise RateLimited(
                f"more than {rate} {'writes' if write else 'reads'} a second; try again after Retry-After",
                retry_after_s=(1 - tokens) / rate,
                limit=rate,
                window_s=1,
            )

    def when_invalid(self, authorization: str | None, call: Callable[[], object]) -> Callable[[], object]:
        """Call `call` once a credential is no longer valid: a user token expires, a server key is revoked. For answers
        that go on, such as streams. Returns a function that cancels this. Errors: Unauthorized.
        """
        if authorization is None:
            raise Unauthorized(_NO_CREDENTIAL)
        credential = _credential(authorization)
        hashed = hash_key(credential)
        if hashed not in self._server_keys:
            _, expires_in_s = self._verify_user(credential)
            return asyncio.get_running_loop().call_later(expires_in_s, call).cancel
        calls = self._when_revoked.setdefault(hashed, set())
        calls.add(call)
        return partial(calls.discard, call)

    def _verify(self, authorization: str) -> Caller:
        credential = _credential(authorization)
        hashed = hash_key(credential)
        until = self._now_s() + CREDENTIALS_CACHED_S
        if hashed in self._server_keys:
            caller = Caller(True, None, "server " + hashed[:6].hex())
        elif credential.count(".") == 2:
            caller, expires_in_s = self._verify_user(credential)
            until = min(until, self._now_s() + expires_in_s)
        else:
            raise Unauthorized(
                "this key is not known here; take the one that `kith serve` or `kith demo` printed, or make one with "
                "`kith token --server`, run with the settings of this server (its --data, where it has one)"
            )
        if len(self._cached_callers) >= CREDENTIALS_CACHED_MAX:
            self._cached_callers.clear()
        self._cached_callers[authorization] = (caller, until)
        return caller

    def _verify_user(self, token: str) -> tuple[Caller, float]:
        if not self._tokens.signed(token):
            raise Unauthorized(f"this user token is not valid: {_WRONG_SIGNATURE}")
        if token in self._refused:
            raise Unauthorized(self._refused[token])
        try:
            return self._read_user(token)
        except jwt.ImmatureSignatureError:
            raise Unauthorized("this user token is not valid: its `nbf` or `iat` is in the future") from None
        except jwt.ExpiredSignatureError:
            why = "this user token has expired; have your app sign a new one"
        except jwt.InvalidTokenError as error:
            why = (
                f"this user token is not valid: {_JWT_PROBLEMS.get(type(error), 'it is not a token that we can read')}"
            )
        except OverflowError:
            why = "this user token is not valid: its `exp` is no time in seconds"
        except (KithError, ValueError, RecursionError):
            why = "this user token is not valid: its `sub` must be a user's id"
        if len(self._refused) >= CREDENTIALS_CACHED_MAX:
            self._refused.clear()
        self._refused[token] = why
        raise Unauthorized(why)

    def _read_user(self, token: str) -> tuple[Caller, float]:
        claims = jwt.decode(
            token,
            self._tokens.secret,
            algorithms=list(self._tokens.algorithms),
            issuer=self._tokens.issuer,
            audience=self._tokens.audience,
            leeway=_LEEWAY_S,
            options={"require": ["sub", "exp", "iss", "aud"]},
        )
        user = parse_id(claims["sub"], "sub")
        expires_in_s = float(claims["exp"]) + _LEEWAY_S - time.time()
        return Caller(False, user, f"user {user}"), max(0.0, expires_in_s)


def _credential(authorization: str) -> str:
    """The credential in an Authorization header. Unauthorized for other schemes."""
    scheme, _, credential = authorization.partition(" ")
    if scheme.lower() != "bearer" or not credential:
        raise Unauthorized(_NO_CREDENTIAL)
    return credential
