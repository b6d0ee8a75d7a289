"""Requests to addresses of users, over real connections: only to checked addresses, bounded, with distinct errors."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from authority import Authority
from coroutines import run_coroutine
from webhook_receiver import Answer, Endpoint, endpoint

from kith.outbound import pinned
from kith.outbound.addresses import networks_of
from kith.outbound.circuits import OPEN_AFTER
from kith.outbound.errors import SendFailed, SendFault
from kith.outbound.outbound import ANSWER_BYTES_MAX, CONNECT_S, CONNECTIONS_MAX, Outbound, retry_after_s

LIMIT_S = 60.0
LOCAL = networks_of(["127.0.0.1/32"])


@pytest.fixture
def app() -> Iterator[Endpoint]:
    with endpoint() as running:
        yield running


class Resolver:
    """Returns the answers of a test, and records the names that it is asked for."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self._answers, self.asked = list(answers), list[str]()

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


def with_outbound(act: Callable[[Outbound], Awaitable[Any]], allowed: Any = LOCAL, **options: Any) -> Any:
    """What `act` returns, or the error that ended it."""

    async def answered() -> Any:
        outbound = Outbound(allowed, **options)
        try:
            return await act(outbound)
        except SendFailed as error:
            return error
        finally:
            await outbound.close()

    return run_coroutine(answered())


def sent(url: str, allowed: Any = LOCAL, **options: Any) -> Any:
    return with_outbound(lambda outbound: outbound.send("POST", url, {"X-Asked": "yes"}, b"body"), allowed, **options)


def test_a_request_arrives_as_it_was_made_and_its_answer_comes_back(app: Endpoint) -> None:
    app.answer = lambda _: Answer(418, {"Retry-After": "7", "X-Told": "tea"}, b"short and stout")
    answer = sent(app.url + "?q=1")
    assert (answer.status, answer.body, answer.headers["x-told"], answer.retry_after_s) == (
        418, b"short and stout", "tea", 7.0
    )  # fmt: skip
    (got,) = app.got
    assert (got.path, got.body, got.headers["x-asked"]) == ("/hook?q=1", b"body", "yes")
    assert got.headers["host"] == f"127.0.0.1:{app.port}"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.1", "2130706433", "0x7f.1", "0.0.0.0"])
def test_this_machine_is_not_called_however_its_address_is_written(app: Endpoint, host: str) -> None:
    failed = sent(f"http://{host}:{app.port}/hook", allowed=())
    assert failed.fault is SendFault.REFUSED
    assert "outbound_networks" in failed.message
    assert not app.got


@pytest.mark.parametrize("host", ["[::1]", "[::ffff:127.0.0.1]", "[64:ff9b::7f00:1]"])
def test_this_machine_is_not_called_by_ipv6_either(app: Endpoint, host: str) -> None:
    assert sent(f"http://{host}:{app.port}/hook").fault in (SendFault.REFUSED, SendFault.UNRESOLVED)
    assert not app.got


def test_a_name_is_resolved_once_and_the_checked_address_is_called(app: Endpoint) -> None:
    """The name resolves to an allowed address first and to a forbidden one from then on, as in DNS rebinding."""
    rebinding = Resolver(["127.0.0.1"], ["127.0.0.2"])
    url = f"http://app.example:{app.port}/hook"
    assert sent(url, resolve=rebinding).status == 200
    assert rebinding.asked == ["app.example"]
    assert app.got[0].headers["host"] == f"app.example:{app.port}"
    assert sent(url, resolve=rebinding).fault is SendFault.REFUSED
    assert len(app.got) == 1


def test_one_forbidden_address_refuses_its_host(app: Endpoint) -> None:
    assert (
        sent(f"http://app.example:{app.port}/", resolve=Resolver(["127.0.0.1", "10.0.0.1"])).fault is SendFault.REFUSED
    )
    assert not app.got


def test_after_an_address_that_refuses_connections_the_next_is_tried(app: Endpoint) -> None:
    both = networks_of(["127.0.0.0/8"])
    found = Resolver(["127.0.0.2", "127.0.0.1"])
    assert sent(f"http://app.example:{app.port}/", allowed=both, resolve=found).status == 200


@pytest.mark.parametrize("silent", [["127.0.0.2"], ["127.0.0.2", "127.0.0.3"]])
def test_an_address_that_is_silent_leaves_time_for_the_next(silent: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    tried = list[str]()

    async def play() -> None:
        loop, now_s = asyncio.get_running_loop(), [0.0]
        monkeypatch.setattr(loop, "time", lambda: now_s[0])

        async def connect(address: str, port: int) -> Any:
            tried.append(address)
            while address in silent:
                now_s[0] += 0.1
                await asyncio.sleep(0)
            return address

        monkeypatch.setattr(pinned, "connected", connect)
        backend = pinned.PinnedBackend(networks_of(["127.0.0.0/8"]), Resolver([*silent, "127.0.0.1"]))
        assert await backend.connect_tcp("app.example", 80, CONNECT_S) == "127.0.0.1"
        assert now_s[0] < CONNECT_S

    run_coroutine(play())
    assert tried == [*silent, "127.0.0.1"]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_an_answer_and_is_not_followed(app: Endpoint, status: int) -> None:
    app.answer = lambda _: Answer(status, {"Location": f"http://169.254.169.254:{app.port}/meta"})
    assert sent(app.url).status == status
    assert len(app.got) == 1


def test_no_proxy_of_the_machine_is_used(app: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    with endpoint() as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        assert sent(app.url).status == 200
        assert not proxy.got


def test_a_host_that_hangs_is_left_after_the_deadline(app: Endpoint) -> None:
    app.answer = lambda _: Answer(hangs=True)
    assert sent(app.url, total_s=0.2).fault is SendFault.TIMEOUT


def test_a_host_that_never_connects_is_left_after_the_deadline_to_connect() -> None:
    async def never(host: str, port: int) -> Sequence[str]:
        await asyncio.Event().wait()
        raise AssertionError

    assert sent("http://app.example/", resolve=never, connect_s=0.1).fault is SendFault.TIMEOUT


def test_the_configured_number_of_connections_is_there_whichever_hosts_hang(app: Endpoint) -> None:
    hang = CONNECTIONS_MAX
    app.answer = lambda got: Answer(hangs="stuck" in got.path)

    async def act(outbound: Outbound) -> Any:
        stuck = [asyncio.create_task(outbound.send("POST", f"{app.url}/stuck", {})) for _ in range(hang)]
        try:
            while len(app.got) < hang and not any(task.done() for task in stuck):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            assert len(app.got) == hang, next(task for task in stuck if task.done()).exception()
            return await outbound.send("POST", app.url, {})
        finally:
            app.ending.set()
            await asyncio.wait(stuck)

    assert with_outbound(act, connections_max=hang + 1, total_s=LIMIT_S).status == 200


def test_names_whose_servers_hang_block_no_other_name(app: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    look_up, ending, hanging = socket.getaddrinfo, threading.Event(), threading.Semaphore(0)

    def hangs(host: Any, *arguments: Any, **options: Any) -> Any:
        if str(host).startswith("hangs"):
            hanging.release()
            ending.wait(LIMIT_S)
        return look_up("127.0.0.1", *arguments, **options)

    async def act(outbound: Outbound) -> Any:
        urls = [f"http://hangs{number}.example/" for number in range(40)]
        stuck = [asyncio.create_task(outbound.send("POST", url, {})) for url in urls]
        await asyncio.sleep(0)
        try:
            return await outbound.send("POST", f"http://app.example:{app.port}/hook", {})
        finally:
            ending.set()
            await asyncio.wait(stuck)

    monkeypatch.setattr(socket, "getaddrinfo", hangs)
    assert with_outbound(act, connect_s=LIMIT_S, total_s=LIMIT_S).status == 200


def test_a_host_that_answers_a_byte_at_a_time_is_left_after_the_deadline() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:

        def drip() -> None:
            connection, _ = server.accept()
            with contextlib.suppress(OSError):
                connection.sendall(b"HTTP/1.1 200 OK\r\n")
                while True:
                    connection.sendall(b"X-More: yes\r\n")

        thread = threading.Thread(target=drip, daemon=True)
        thread.start()
        failed = sent(f"http://127.0.0.1:{server.getsockname()[1]}/", total_s=0.5)
        assert failed.fault in (SendFault.TIMEOUT, SendFault.BROKEN)  # broken: the head is too large
        thread.join(LIMIT_S)


def test_an_answer_without_end_is_cut_at_a_bound(app: Endpoint) -> None:
    app.answer = lambda _: Answer(body=b"x" * (3 * ANSWER_BYTES_MAX), cut=True)
    assert len(sent(app.url).body) == ANSWER_BYTES_MAX


def test_an_answer_that_is_cut_off_is_an_error(app: Endpoint) -> None:
    app.answer = lambda _: Answer(body=b"the first half", cut=True)
    assert sent(app.url).fault is SendFault.BROKEN


@pytest.mark.parametrize("said", [b"", b"SSH-2.0-OpenSSH\r\n", b"HTTP/1.1 9999 what\r\n\r\n", b"HTTP/1.1 200 OK\r\nx"])
def test_an_answer_that_is_no_http_is_an_error(said: bytes) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:

        def answer() -> None:
            connection, _ = server.accept()
            connection.recv(65_536)
            connection.sendall(said)
            connection.close()

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        assert sent(f"http://127.0.0.1:{server.getsockname()[1]}/").fault is SendFault.BROKEN
        thread.join()


def test_a_closed_port_and_an_unknown_name_have_distinct_errors() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        port = server.getsockname()[1]
    assert sent(f"http://127.0.0.1:{port}/").fault is SendFault.UNREACHED
    assert sent("http://app.example/", resolve=Resolver([])).fault is SendFault.UNRESOLVED
    assert sent("http://nothing.invalid/").fault is SendFault.UNRESOLVED


@pytest.mark.parametrize(
    "url", ["", "app", "ftp://app.example/", "http://", "http://me:secret@app.example/", "http://app.example/#x",
            "file:///etc/passwd", "http://app.example:99999/", "http://app.example:0/", "https://" + "x" * 3_000]
)  # fmt: skip
def test_a_url_that_cannot_be_called_is_refused_before_any_call(url: str) -> None:
    assert sent(url).fault is SendFault.URL


def test_a_failing_host_rests_and_its_path_is_never_revealed(app: Endpoint) -> None:
    app.answer = lambda _: Answer(500)
    url = app.url + "/secret-path?token=secret-query"

    async def act(outbound: Outbound) -> None:
        for _ in range(OPEN_AFTER):
            assert (await outbound.send("POST", url, {})).status == 500
        await outbound.send("POST", url, {})

    failed = with_outbound(act)
    assert failed.fault is SendFault.RESTING
    assert failed.retry_after_s > 0
    assert "secret" not in failed.message
    assert len(app.got) == OPEN_AFTER


def test_an_unreachable_host_rests_and_a_forbidden_one_does_not() -> None:
    async def faults(outbound: Outbound, url: str) -> list[SendFault]:
        found = []
        for _ in range(OPEN_AFTER + 2):
            with pytest.raises(SendFailed) as failed:
                await outbound.send("POST", url, {})
            found.append(failed.value.fault)
        return found

    gone, private = "http://gone.invalid/", "http://10.0.0.1/"
    assert (
        with_outbound(lambda outbound: faults(outbound, gone))
        == [SendFault.UNRESOLVED] * OPEN_AFTER + [SendFault.RESTING] * 2
    )
    assert with_outbound(lambda outbound: faults(outbound, private)) == [SendFault.REFUSED] * (OPEN_AFTER + 2)


def test_a_host_that_refuses_a_request_does_not_rest(app: Endpoint) -> None:
    app.answer = lambda _: Answer(400)

    async def act(outbound: Outbound) -> Any:
        return [(await outbound.send("POST", app.url, {})).status for _ in range(2 * OPEN_AFTER)]

    assert with_outbound(act) == [400] * (2 * OPEN_AFTER)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("", 0.0), ("12", 12.0), (" 12 ", 12.0), ("-1", 0.0), ("soon", 0.0), ("9" * 30, 86_400.0), ("١٢", 0.0),
        ("Thu, 01 Jan 1970 00:01:00 GMT", 50.0), ("Thu, 01 Jan 1970 00:00:01 GMT", 0.0), ("Thu, 99 Jan", 0.0),
        ("Fri, 01 Jan 2100 00:00:00 GMT", 86_400.0), ("Fri, 01 Jan 99999999999 00:00:00 GMT", 0.0),
        (f"Fri, 01 Jan 2100 00:00:00 +{10**20}", 0.0),
    ],
)  # fmt: skip
def test_retry_after_is_seconds_or_a_date(text: str, seconds: float) -> None:
    assert retry_after_s({"retry-after": text}, now_s=10) == seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("Thu, 01 Jan 1970 12:00:10 -0000", 43_200.0), ("Thu, 01 Jan 1970 12:00:10", 43_200.0),
        ("Fri, 31 Dec 9999 23:59:59 -0000", 86_400.0),
    ],
)  # fmt: skip
def test_a_date_without_a_zone_is_of_utc_wherever_this_machine_is(
    text: str, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert retry_after_s({"retry-after": text}, now_s=10) == seconds
    finally:
        monkeypatch.undo()
        time.tzset()


# TLS


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def test_tls_is_made_with_the_name_of_the_host_at_the_address_that_was_checked(authority: Authority) -> None:
    named: list[str | None] = []
    context = authority.serving("app.example")
    context.sni_callback = lambda _socket, name, _context: named.append(name)
    with endpoint(tls=context) as app:
        url = f"https://app.example:{app.port}/hook"
        answer = sent(url, resolve=Resolver(["127.0.0.1"]), tls=authority.trusted())
        assert answer.status == 200
        assert named == ["app.example"]


@pytest.mark.parametrize("trusts", [True, False])
def test_a_host_with_another_name_or_an_untrusted_certificate_gets_nothing(
    authority: Authority, *, trusts: bool
) -> None:
    named = "another.example" if trusts else "app.example"
    with endpoint(tls=authority.serving(named)) as app:
        url = f"https://app.example:{app.port}/hook"
        trusted = {"tls": authority.trusted()} if trusts else {}
        failed = sent(url, resolve=Resolver(["127.0.0.1"]), **trusted)
        assert failed.fault is SendFault.TLS
        assert not app.got


def test_a_host_without_tls_has_its_own_error(app: Endpoint) -> None:
    assert sent(f"https://127.0.0.1:{app.port}/").fault is SendFault.TLS
