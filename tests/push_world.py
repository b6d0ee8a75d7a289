"""Fake push services and devices: they record and decrypt requests, and answer as a test sets."""

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
from notification_world import NotificationWorld
from reference_leases import ReferenceLeases

from kith.core.ids import NodeId
from kith.leases.holding import Leases
from kith.notifications.push.apns import Apns, ApnsKey
from kith.notifications.push.device import Address, Device, DeviceKind, token_address
from kith.notifications.push.devices import Devices
from kith.notifications.push.due import PushSelector
from kith.notifications.push.fcm import Fcm, ServiceAccount
from kith.notifications.push.pending import PendingPushStore
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
    """A browser's push subscription. It decrypts messages by RFC 8291 and 8188, without Kith's code."""

    def __init__(self, name: str, host: str = f"https://{PUSH_HOST}") -> None:
        self.key, self.auth = ec.generate_private_key(ec.SECP256R1()), hashlib.sha256(name.encode()).digest()[:16]
        self.endpoint = f"{host}/{name}"

    @property
    def address(self) -> Address:
        return Address("webpush", self.endpoint, point_of(self.key), self.auth)

    def opened(self, body: bytes) -> dict[str, Any]:
        """The message in the body of a request."""
        return dict(json.loads(opened(body, self.key, self.auth)))


def opened(body: bytes, key: ec.EllipticCurvePrivateKey, auth: bytes) -> bytes:
    """Decrypt the body of a Web Push request. HKDF (RFC 5869) is done in steps of HMAC."""
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


class PushRequest(NamedTuple):
    """A request to a push service."""

    url: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def topic(self) -> str:
        """The key by which a repeated message replaces the first: the id of the notice."""
        headers = {name.lower(): value for name, value in self.headers.items()}
        found = headers.get("topic") or headers.get("apns-collapse-id")
        return found or str(json.loads(self.body)["message"]["android"]["collapse_key"])


Say = Callable[[PushRequest], Any]


class PushServices:
    """All push services in one. `got`: all requests. `taken`: those that were accepted.

    `say`: decides the answer to a request: a status, an Answer, an error to raise, or an awaitable of one.
    """

    def __init__(self) -> None:
        self.got: list[PushRequest] = []
        self.taken: list[PushRequest] = []
        self.say: Say = lambda _: 200
        self.tokens = 0

    async def send(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """See `outbound.Send`."""
        request = PushRequest(url, headers, body)
        said = self.say(request)
        if isinstance(said, Awaitable):
            said = await said
        if url == TOKEN_URL:
            self.tokens += 1
            if said == 200:
                return Answer(200, {}, b'{"access_token": "t%d", "expires_in": 3600}' % self.tokens)
        else:
            self.got.append(request)
        if isinstance(said, Exception):
            raise said
        answer = said if isinstance(said, Answer) else Answer(said, {}, b"")
        if answer.status < 300 and url != TOKEN_URL:
            self.taken.append(request)
        return answer

    def accepted_by(self, device: Device) -> list[str]:
        """The notices for a device that its push service accepted, in order."""
        return [request.topic for request in self.taken if is_for(request, device)]


def is_for(request: PushRequest, device: Device) -> bool:
    """Whether a request is for a device."""
    endpoint = device.address.endpoint
    return endpoint == request.url or request.url.endswith("/" + endpoint) or endpoint.encode() in request.body


class PushWorld:
    """A world with push, devices and push services."""

    def __init__(self, world: NotificationWorld) -> None:
        self.world, self.push_services = world, PushServices()
        services = world.services
        self.clock = services.clock
        self.devices = Devices(world.posts.store, services.graph.clock, SECRET)
        self._leases = ReferenceLeases(self.clock)
        self.browser = Browser("a-browser")
        self.restart()

    def restart(self, without: str = "") -> None:
        """Start a new push process over the same stores. `without`: a provider that is no longer configured."""
        world, graph, send = self.world, self.world.services.graph, self.push_services.send
        rules = NoticeRules(graph, world.posts.store)
        dues = PushSelector(graph, world.notices, rules, world.preferences, self.devices)
        self.owed = PendingPushStore(graph.store, lambda: 0.5)
        providers: dict[DeviceKind, Provider] = {
            "webpush": WebPush(send, Vapid(SECRET, CONTACT)),
            "apns": Apns(send, apns_key(), APNS_URL, APNS_URL),
            "fcm": Fcm(send, account(), FCM_URL),
        }
        self.push = Push(
            world.notices, dues, self.devices, self.owed,
            {kind: provider for kind, provider in providers.items() if kind != without},
            Leases(self._leases, lambda: self.clock() / 1000),
            now_ms=self.clock,
        )  # fmt: skip

    async def add(self, user: NodeId, kind: str = "apns", name: str = "") -> Device:
        """Register a device of a user. Kind `webpush` is the browser of this world."""
        address = self.browser.address if kind == "webpush" else app_address(kind, name or str(user))
        return (await self.devices.add(user, self.world.services.snowflakes.next(), address))[0]

    async def follow_log(self, times: int = 1) -> None:
        """Handle the log to its end: intake, then push. `times`: how often each batch, every other time backwards."""
        await self.world.handle(times)
        log = self.world.whole.log
        end = await log.end()
        at = getattr(self, "_handled_to", self.world.log_start)
        while not log.covers(at, end):
            batch = await log.read(at, 50)
            for time in range(times):
                await self.push.handle(batch.events[:: -1 if time % 2 else 1])
            at = batch.next
        self._handled_to = at

    def rewind(self) -> None:
        """Follow the log from the start again, as after a crash before any checkpoint."""
        self._handled_to = self.world.log_start

    async def pass_time(self, seconds: float) -> None:
        """Let time pass in steps of at most 15 s, and do the due pushes after each."""
        until = self.clock.ms + int(seconds * 1000)
        while self.clock.ms < until:
            self.clock.ms = min(until, self.clock.ms + 15_000)
            while await self.push.work_backlog():
                pass


def app_address(kind: Any, name: str) -> Address:
    """The address of an app on a device. The same name gives the same address."""
    digits = hashlib.sha256(f"{kind} {name}".encode()).hexdigest()
    return token_address(kind, digits if kind == "apns" else f"fcm-{digits}")


async def mention(push_world: PushWorld, who: NodeId = ALICE, by: NodeId = BOB, text: str = "look") -> None:
    """Have `by` mention `who` in a post."""
    await push_world.world.services.write(by, text=text, mentions=(who,))
