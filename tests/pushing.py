"""Push services and devices of tests: what they were sent, opened as a device opens it, and what they answer."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

from cast import ALICE, BOB, SECRET
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from desk import Desk
from reference_leases import ReferenceLeases

from kith.core.ids import NodeId
from kith.leases.holding import Leases
from kith.notifications.push.apns import Apns, ApnsKey
from kith.notifications.push.device import Address, Device, DeviceKind, token_address
from kith.notifications.push.devices import Devices
from kith.notifications.push.due import Dues
from kith.notifications.push.fcm import Fcm, ServiceAccount
from kith.notifications.push.owed import OwedKept
from kith.notifications.push.provider import Provider
from kith.notifications.push.push import Push
from kith.notifications.push.vapid import Vapid, point_of
from kith.notifications.push.webpush import WebPush
from kith.notifications.rules import NoticeRules
from kith.outbound.outbound import Answer

CONTACT = "mailto:ops@app.example"
PUSH_HOST = "push.example"
APNS_URL, FCM_URL = "https://apns.example", "https://fcm.example"
TOKEN_URL = "https://oauth.example/token"


@cache
def apns_key() -> ApnsKey:
    return ApnsKey(_pem(ec.generate_private_key(ec.SECP256R1())), "KEY1", "TEAM1", "example.app")


@cache
def account() -> ServiceAccount:
    pem = _pem(rsa.generate_private_key(65_537, 2_048))
    return ServiceAccount("project-1", "kith@project-1.example", pem, "key-1", TOKEN_URL)


def _pem(key: Any) -> str:
    return str(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode())


class Browser:
    """A subscription of a browser, which opens what it is sent: written from RFC 8291 and 8188 alone."""

    def __init__(self, name: str, host: str = f"https://{PUSH_HOST}") -> None:
        self.key, self.auth = ec.generate_private_key(ec.SECP256R1()), hashlib.sha256(name.encode()).digest()[:16]
        self.endpoint = f"{host}/{name}"

    @property
    def address(self) -> Address:
        return Address("webpush", self.endpoint, point_of(self.key), self.auth)

    def opened(self, body: bytes) -> dict[str, Any]:
        """The message in a request."""
        return dict(json.loads(opened(body, self.key, self.auth)))


def opened(body: bytes, key: ec.EllipticCurvePrivateKey, auth: bytes) -> bytes:
    """What is in the body of a Web Push request; the HKDF of RFC 5869 is by HMAC, step by step."""
    salt, size, length = body[:16], int.from_bytes(body[16:20], "big"), body[20]
    theirs, sealed = body[21 : 21 + length], body[21 + length :]
    assert len(sealed) <= size, "one record"
    shared = key.exchange(ec.ECDH(), ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), theirs))

    def expand(secret: bytes, info: bytes, count: int) -> bytes:
        return hmac.digest(secret, info + b"\x01", "sha256")[:count]

    combined = expand(hmac.digest(auth, shared, "sha256"), b"WebPush: info\0" + point_of(key) + theirs, 32)
    secret = hmac.digest(salt, combined, "sha256")
    content_key = expand(secret, b"Content-Encoding: aes128gcm\0", 16)
    plain = AESGCM(content_key).decrypt(expand(secret, b"Content-Encoding: nonce\0", 12), sealed, None)
    assert plain.rstrip(b"\0")[-1:] == b"\x02", "the last record"
    return plain.rstrip(b"\0")[:-1]


class Asked(NamedTuple):
    """A request to a push service."""

    url: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def topic(self) -> str:
        """What a repetition replaces it by: the id of the notice."""
        headers = {name.lower(): value for name, value in self.headers.items()}
        found = headers.get("topic") or headers.get("apns-collapse-id")
        return found or str(json.loads(self.body)["message"]["android"]["collapse_key"])


Say = Callable[[Asked], Any]


class Clouds:
    """All push services at once. `say`: a status, an Answer, an error, or something to wait for, by the request."""

    def __init__(self) -> None:
        self.got: list[Asked] = []
        self.taken: list[Asked] = []
        self.say: Say = lambda _: 200
        self.tokens = 0

    async def send(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """See `outbound.Send`."""
        asked = Asked(url, headers, body)
        said = self.say(asked)
        if isinstance(said, Awaitable):
            said = await said
        if url == TOKEN_URL:
            self.tokens += 1
            if said == 200:
                return Answer(200, {}, b'{"access_token": "t%d", "expires_in": 3600}' % self.tokens)
        else:
            self.got.append(asked)
        if isinstance(said, Exception):
            raise said
        answer = said if isinstance(said, Answer) else Answer(said, {}, b"")
        if answer.status < 300 and url != TOKEN_URL:
            self.taken.append(asked)
        return answer

    def rang(self, device: Device) -> list[str]:
        """The notices that a device was sent and its service took, in their order."""
        return [asked.topic for asked in self.taken if is_for(asked, device)]


def is_for(asked: Asked, device: Device) -> bool:
    """Whether a request is for a device."""
    endpoint = device.address.endpoint
    return endpoint == asked.url or asked.url.endswith("/" + endpoint) or endpoint.encode() in asked.body


class PushDesk:
    """A desk whose notices ring."""

    def __init__(self, desk: Desk) -> None:
        self.desk, self.clouds = desk, Clouds()
        services = desk.services
        self.clock = services.clock
        self.devices = Devices(desk.posts.store, services.graph.clock, SECRET)
        self._leases = ReferenceLeases(self.clock)
        self.browser = Browser("a-browser")
        self.restart()

    def restart(self, without: str = "") -> None:
        """Another process: it knows nothing but what is stored. `without`: a provider that is set up no more."""
        desk, graph, send = self.desk, self.desk.services.graph, self.clouds.send
        rules = NoticeRules(graph, desk.posts.store)
        dues = Dues(graph, desk.notices, rules, desk.preferences, self.devices)
        self.owed = OwedKept(graph.store, lambda: 0.5)
        providers: dict[DeviceKind, Provider] = {
            "webpush": WebPush(send, Vapid(SECRET, CONTACT)),
            "apns": Apns(send, apns_key(), APNS_URL, APNS_URL),
            "fcm": Fcm(send, account(), FCM_URL),
        }
        self.push = Push(
            desk.notices, dues, self.devices, self.owed,
            {kind: provider for kind, provider in providers.items() if kind != without},
            Leases(self._leases, lambda: self.clock() / 1000),
            now_ms=self.clock,
        )  # fmt: skip

    async def add(self, user: NodeId, kind: str = "apns", name: str = "") -> Device:
        """A device of a user; `webpush`: the browser of this desk."""
        address = self.browser.address if kind == "webpush" else app_address(kind, name or str(user))
        return (await self.devices.add(user, self.desk.services.snowflakes.next(), address))[0]

    async def follow_log(self, times: int = 1) -> None:
        """Let all that happened be told and ring; `times`: each batch so often, backwards every other time."""
        await self.desk.handle(times)
        log = self.desk.whole.log
        end = await log.end()
        at = getattr(self, "_at", self.desk.began)
        while not log.covers(at, end):
            batch = await log.read(at, 50)
            for time in range(times):
                await self.push.handle(batch.events[:: -1 if time % 2 else 1])
            at = batch.next
        self._at = at

    def rewind(self) -> None:
        """Follow the log from its beginning, as after a crash before any checkpoint."""
        self._at = self.desk.began

    async def pass_time(self, seconds: float) -> None:
        """Let this time pass, in steps of a second or some more, and what is owed be tried."""
        until = self.clock.ms + int(seconds * 1000)
        while self.clock.ms < until:
            self.clock.ms = min(until, self.clock.ms + 15_000)
            while await self.push.work_backlog():
                pass


def app_address(kind: Any, name: str) -> Address:
    """Where an app is reached, by a name."""
    digits = hashlib.sha256(f"{kind} {name}".encode()).hexdigest()
    return token_address(kind, digits if kind == "apns" else f"fcm-{digits}")


async def mention(ringing: PushDesk, who: NodeId = ALICE, by: NodeId = BOB, text: str = "look") -> None:
    """Somebody mentions somebody in a post."""
    await ringing.desk.services.write(by, text=text, mentions=(who,))
