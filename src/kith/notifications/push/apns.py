"""Apple's push service: HTTP/2 requests with a token that is signed with our key (ES256)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jwt
import msgspec

from kith.notifications.push.device import Device
from kith.notifications.push.message import PushMessage, fitting
from kith.notifications.push.provider import GONE, Verdict, usual
from kith.outbound.urls import check_url

if TYPE_CHECKING:
    from kith.outbound.outbound import Answer, Send

URL, SANDBOX_URL = "https://api.push.apple.com", "https://api.sandbox.push.apple.com"
PAYLOAD_BYTES_MAX = 4_096
SIGNED_AGAIN_S = 2_400
"""Age at which a token is replaced. Apple refuses tokens older than an hour, and new ones within 20 minutes."""


class ApnsKey(NamedTuple):
    """Our key with Apple: the content of the .p8 file, the key's id, the team's id. `topic`: the app's bundle id."""

    pem: str
    key_id: str
    team_id: str
    topic: str


class _Said(msgspec.Struct):
    reason: str = ""
    timestamp: int | None = None


_said = msgspec.json.Decoder(_Said).decode


class Apns:
    """See `provider.Provider`."""

    def __init__(self, send: Send, key: ApnsKey, url: str = URL, sandbox_url: str = SANDBOX_URL) -> None:
        self._send, self._key, self._url, self._sandbox_url = send, key, url, sandbox_url
        self._token, self._signed_s = "", 0

    def lane(self, device: Device) -> str:
        """See `provider.Provider`."""
        return check_url(self._base(device)).authority

    async def send(self, device: Device, message: PushMessage, now_ms: int) -> Verdict:
        """See `provider.Provider`."""
        token = self._bearer(now_ms // 1000)
        headers = {
            "authorization": f"bearer {token}",
            "apns-topic": self._key.topic,
            "apns-push-type": "alert",
            "apns-priority": "10" if message.urgency == "high" else "5",
            "apns-expiration": str(now_ms // 1000 + message.ttl_s(now_ms)),
            "apns-collapse-id": message.topic,
        }
        body = fitting(_payload, message, PAYLOAD_BYTES_MAX)
        answer = await self._send("POST", f"{self._base(device)}/3/device/{device.address.endpoint}", headers, body)
        if answer.status == 403 and token == self._token:  # a late answer says nothing of a newer token
            self._token = ""  # whatever is wrong with it
        return verdict_of(self.lane(device), answer, device.registered_ms)

    def _base(self, device: Device) -> str:
        return self._sandbox_url if device.address.sandbox else self._url

    def _bearer(self, now_s: int) -> str:
        if not self._token or not 0 <= now_s - self._signed_s < SIGNED_AGAIN_S:
            claims, names = {"iss": self._key.team_id, "iat": now_s}, {"kid": self._key.key_id}
            self._token, self._signed_s = jwt.encode(claims, self._key.pem, "ES256", names), now_s
        return self._token


def verdict_of(host: str, answer: Answer, registered_ms: int) -> Verdict:
    """What Apple's answer means. A device that registered after Apple last found it gone is not gone."""
    refusal = _reason(answer.body)
    if answer.status == 410:
        if refusal.timestamp is None or registered_ms <= refusal.timestamp:
            return GONE
        return Verdict("later", f"{host} answered 410, of before the device was registered")
    verdict = usual(host, answer, refusal.reason)
    if refusal.reason == "ExpiredProviderToken":
        return Verdict("later", verdict.error)
    if answer.status == 403 or refusal.reason == "TooManyProviderTokenUpdates":
        return verdict._replace(whole=True)
    return verdict


def _payload(message: PushMessage) -> dict[str, Any]:
    alert = {"title": message.title, **({"body": message.body} if message.body else {})}
    return {"aps": {"alert": alert, "sound": "default", "mutable-content": 1}, "kith": message.parts}


def _reason(body: bytes) -> _Said:
    try:
        return _said(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return _Said()
