"""Google's push service (HTTP v1). Requests carry an access token that is requested for a service account (OAuth 2)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import jwt
import msgspec

from kith.notifications.push.device import Device
from kith.notifications.push.message import PushMessage, fitting
from kith.notifications.push.provider import GONE, Verdict, usual
from kith.outbound.errors import SendFailed
from kith.outbound.urls import check_url

if TYPE_CHECKING:
    from kith.outbound.outbound import Answer, Send

URL = "https://fcm.googleapis.com"
PAYLOAD_BYTES_MAX = 4_096
QUOTA_WAIT_S = 60.0
"""Shortest pause after FCM answers that it got too many requests."""
_SCOPE = "https://www.googleapis.com/auth/firebase.messaging"
_GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_LIFETIME_S, _RENEW_BEFORE_S = 3_600, 300
"""Requested lifetime of an access token, and how long before its end it is replaced."""


class ServiceAccount(msgspec.Struct, frozen=True):
    """The parts of a service account's JSON file that are used here."""

    project_id: str
    client_email: str
    private_key: str
    private_key_id: str
    token_uri: str = "https://oauth2.googleapis.com/token"  # noqa: S105 - a URL, no secret


class _Token(msgspec.Struct):
    access_token: str
    expires_in: int = _LIFETIME_S


class _Detail(msgspec.Struct, rename="camel"):
    error_code: str = ""


class _Error(msgspec.Struct):
    status: str = ""
    details: list[_Detail] = []


class _Refusal(msgspec.Struct):
    error: _Error


_token = msgspec.json.Decoder(_Token).decode
_refusal = msgspec.json.Decoder(_Refusal).decode


class Fcm:
    """See `provider.Provider`."""

    def __init__(self, send: Send, account: ServiceAccount, url: str = URL) -> None:
        self._send, self._account, self._url = send, account, url
        self._bearer, self._until_s = "", 0
        self._token_lock, self._requests = asyncio.Lock(), 0
        self._refused: Verdict | None = None  # why the last request for a token got none

    def lane(self, device: Device) -> str:
        """See `provider.Provider`."""
        return check_url(self._url).authority

    async def send(self, device: Device, message: PushMessage, now_ms: int) -> Verdict:
        """See `provider.Provider`."""
        refused = await self._sign_in(now_ms // 1000)
        if refused is not None:
            return refused
        ttl, bearer = f"{message.ttl_s(now_ms)}s", self._bearer

        def payload(cut: PushMessage) -> dict[str, Any]:
            return _payload(cut, device.address.endpoint, ttl)

        headers = {"Authorization": f"Bearer {bearer}", "Content-Type": "application/json"}
        body = fitting(payload, message, PAYLOAD_BYTES_MAX)
        answer = await self._send(
            "POST", f"{self._url}/v1/projects/{self._account.project_id}/messages:send", headers, body
        )
        if answer.status == 401 and bearer == self._bearer:  # a late answer says nothing of a newer token
            self._bearer = ""
        return verdict_of(self.lane(device), answer)

    async def _sign_in(self, now_s: int) -> Verdict | None:
        """Request an access token if the last one ends soon; returns why there is none, or None.

        Messages that wait for one request share its failure, so a silent host costs them one deadline and not many.
        """
        requests = self._requests
        async with self._token_lock:
            if self._bearer and now_s < self._until_s - _RENEW_BEFORE_S:
                return None
            if self._requests == requests or self._refused is None:
                try:
                    self._refused = await self._request_token(now_s)
                except SendFailed as error:
                    self._refused = Verdict("later", error.message, error.retry_after_s)
                self._requests += 1
            return self._refused

    async def _request_token(self, now_s: int) -> Verdict | None:
        """Request an access token; returns why there is none, or None."""
        account = self._account
        claims = {
            "iss": account.client_email, "scope": _SCOPE, "aud": account.token_uri,
            "iat": now_s, "exp": now_s + _LIFETIME_S,
        }  # fmt: skip
        assertion = jwt.encode(claims, account.private_key, "RS256", {"kid": account.private_key_id})
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        form = urlencode({"grant_type": _GRANT, "assertion": assertion}).encode()
        answer = await self._send("POST", account.token_uri, headers, form)
        if answer.status != 200:
            refusal = usual(check_url(account.token_uri).authority, answer)
            again = refusal.what == "fault"  # with this account nothing can be sent at all
            return refusal._replace(whole=True, again=again)
        try:
            token = _token(answer.body)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return Verdict("later", f"{check_url(account.token_uri).authority} answered no token", whole=True)
        self._bearer, self._until_s = token.access_token, now_s + token.expires_in
        return None


def verdict_of(host: str, answer: Answer) -> Verdict:
    """What Google's answer means. 404 means a gone device only with UNREGISTERED; an unknown project is 404 too."""
    codes = _codes(answer.body)
    if "UNREGISTERED" in codes:
        return GONE
    verdict = usual(host, answer, codes[0] if codes else "")
    if answer.status == 429:
        return verdict._replace(whole=True, wait_s=max(QUOTA_WAIT_S, verdict.wait_s))
    return verdict._replace(whole=True) if answer.status == 401 else verdict


def _payload(message: PushMessage, token: str, ttl: str) -> dict[str, Any]:
    shown = {"title": message.title, **({"body": message.body} if message.body else {})}
    android = {
        "collapse_key": message.topic, "ttl": ttl, "notification": {"tag": message.topic},
        "priority": "HIGH" if message.urgency == "high" else "NORMAL",
    }  # fmt: skip
    return {"message": {"token": token, "notification": shown, "data": message.parts, "android": android}}


def _codes(body: bytes) -> list[str]:
    """The codes of a refusal, the most specific first."""
    try:
        error = _refusal(body).error
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return []
    return [code for code in (*(detail.error_code for detail in error.details), error.status) if code]
