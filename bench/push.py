"""Web Push: messages encrypted and sent to a server on this machine, per CPU second of the sender."""

from __future__ import annotations

import asyncio
import datetime
import hashlib
import multiprocessing
import ssl
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import h2.config
import h2.connection
import h2.events
import uvloop
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from bench.figures import SECONDS, Figure
from kith.core.clock import wall_ms
from kith.core.ids import EPOCH_MS, TIME_SHIFT
from kith.notifications.notice import NoticeDraft, notice_from
from kith.notifications.push.device import Address, Device
from kith.notifications.push.message import PushMessage, message_of
from kith.notifications.push.push import SENDING_MAX
from kith.notifications.push.vapid import Vapid, point_of
from kith.notifications.push.webpush import WebPush, encrypted
from kith.outbound.addresses import networks_of
from kith.outbound.outbound import Outbound

_DEVICES = 1_000
_TEXT = "What the post is about that somebody liked, as long as a preview is. " * 3
_HOST = "push.example"


def push(folder: Path) -> list[Figure]:
    """Messages to 1,000 browsers, 64 in flight at once; then their encryption alone."""
    context = multiprocessing.get_context("spawn")
    receive, send = context.Pipe(duplex=False)
    certificate = _certificate(folder)
    server = context.Process(target=_serve, args=(str(certificate), send), daemon=True)
    server.start()
    port = receive.recv()
    devices = [_device(number, port) for number in range(_DEVICES)]
    message = _message()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            number, cpu_s = runner.run(_send(devices, message, certificate))
    finally:
        server.terminate()
    plain = b"x" * 500

    def ours(device: Device) -> Any:
        return encrypted(plain, device.address.key, device.address.auth)

    per_message_s = _cpu_s(ours, devices)
    says = f"{number:,} messages of {len(plain)} bytes over HTTP/2 to a server in another process, of the sender's time"
    theirs = _http_ece()
    peer_s = None if theirs is None else _cpu_s(lambda one: theirs(plain, one), devices)
    return [
        Figure("push", number / cpu_s, "messages/s of a core", ">= 1,000", data=says),
        Figure("push-encryption-share", 100 * per_message_s * number / cpu_s, "%", "told", data=says),
        Figure(
            "push-encrypt", 1 / per_message_s, "messages/s of a core", "told",
            peer=None if peer_s is None else "http-ece",
            peer_value=None if peer_s is None else 1 / peer_s,
            ratio=None if peer_s is None else peer_s / per_message_s,
            data=f"{len(plain)} bytes each",
        ),
    ]  # fmt: skip


async def _send(devices: list[Device], message: PushMessage, certificate: Path) -> tuple[int, float]:
    """How many messages were accepted, and the CPU seconds of this process for them."""
    tls = ssl.create_default_context(cafile=str(certificate))
    outbound = Outbound(networks_of(["127.0.0.1/32"]), resolve=_here, tls=tls, http2=True)
    provider = WebPush(outbound.send, Vapid(b"a secret only for measurements, 32", "mailto:ops@app.example"))
    taken, until, began = 0, time.monotonic() + SECONDS, time.process_time()

    async def one_after_another(first: int) -> None:
        nonlocal taken
        at = first
        while time.monotonic() < until:
            verdict = await provider.send(devices[at % _DEVICES], message, wall_ms())
            if verdict.what != "taken":
                raise RuntimeError(f"a message was not taken: {verdict.error}")
            taken, at = taken + 1, at + SENDING_MAX

    await asyncio.gather(*(one_after_another(first) for first in range(SENDING_MAX)))
    cpu_s = time.process_time() - began
    await outbound.close()
    return taken, cpu_s


async def _here(host: str, port: int) -> list[str]:
    return ["127.0.0.1"]


def _cpu_s(do: Callable[[Device], Any], devices: list[Device]) -> float:
    """CPU seconds of this process for one message."""
    began = time.process_time()
    for device in devices:
        do(device)
    return (time.process_time() - began) / len(devices)


def _http_ece() -> Callable[[bytes, Device], Any] | None:
    """The same encryption by the library that Python's Web Push clients use; None if it is not installed."""
    try:
        import http_ece  # type: ignore[import-not-found]
    except ImportError:
        return None

    def theirs(plain: bytes, device: Device) -> Any:
        key = ec.generate_private_key(ec.SECP256R1())
        address = device.address
        return http_ece.encrypt(plain, private_key=key, dh=address.key, auth_secret=address.auth, version="aes128gcm")

    return theirs


def _device(number: int, port: int) -> Device:
    key, auth = point_of(ec.generate_private_key(ec.SECP256R1())), hashlib.sha256(b"%d" % number).digest()[:16]
    return Device(number, 0, Address("webpush", f"https://{_HOST}:{port}/{number}", key, auth))


def _message() -> PushMessage:
    now_ms = wall_ms()
    notice = notice_from((now_ms - EPOCH_MS) << TIME_SHIFT, NoticeDraft("like", 2, 1, now_ms, 3))
    return message_of(notice, 1, "Somebody with a name", "", _TEXT)


def _serve(certificate: str, port: Connection) -> None:
    """Accept every request, until the process is ended."""

    async def serve() -> None:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificate)
        tls.set_alpn_protocols(["h2"])
        server = await asyncio.start_server(_answer, "127.0.0.1", 0, ssl=tls)
        port.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve())


async def _answer(reading: asyncio.StreamReader, writing: asyncio.StreamWriter) -> None:
    """Answer 201 to each request of an HTTP/2 connection."""
    connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
    connection.initiate_connection()
    while True:
        writing.write(connection.data_to_send())
        data = await reading.read(1 << 16)
        if not data:
            writing.close()
            return
        for event in connection.receive_data(data):
            if isinstance(event, h2.events.DataReceived):
                connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, h2.events.StreamEnded):
                connection.send_headers(event.stream_id, [(":status", "201")], end_stream=True)


def _certificate(folder: Path) -> Path:
    """A key and a self-signed certificate for the server."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _HOST)])
    now = datetime.datetime.now(datetime.UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(_HOST)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    plain, pem = serialization.NoEncryption(), serialization.Encoding.PEM
    file = folder / "push-server.pem"
    file.write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain) + signed.public_bytes(pem))
    return file
