"""Both clients upload pictures and videos, from bytes or a file: whole in every try, with a longer timeout."""

from __future__ import annotations

from collections.abc import Callable
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import HTTP
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from fake_service import Connect, Service, ask

from kith.client import ApiError, Media, Retry, Unreachable

PICTURE = bytes(range(256)) * 1000
ANSWER = {"id": "7", "type": "image", "url": "/media/x", "thumbnailUrl": None, "width": 3, "height": 4, "altText": "a"}
OF_PICTURE = Media(id=7, type="image", url="/media/x", width=3, height=4, alt_text="a")
NO_WAIT = Retry(base_s=0)


class Part(NamedTuple):
    name: str
    filename: str | None
    data: bytes


def parts(request: httpx.Request) -> list[Part]:
    """The parts of a form, parsed by another library than the one that wrote it."""
    head = f"Content-Type: {request.headers['Content-Type']}\r\n\r\n".encode()
    form = BytesParser(EmailMessage, policy=HTTP).parsebytes(head + request.content)
    return [
        Part(
            str(part.get_param("name", header="content-disposition")),
            part.get_filename(),
            bytes(part.get_payload(decode=True)),  # type: ignore[arg-type]
        )
        for part in form.iter_parts()
    ]


@pytest.fixture(params=["bytes", "str", "Path"])
def picture(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A picture in every form that an upload accepts."""
    path = tmp_path / "private name.jpg"
    path.write_bytes(PICTURE)
    return {"bytes": PICTURE, "str": str(path), "Path": path}[request.param]


def test_a_picture_is_sent_as_a_form_with_its_text_and_without_its_path(connect: Connect, picture: Any) -> None:
    service = Service(httpx.Response(201, json=ANSWER))
    assert ask(connect(service, user=1), "upload_media", picture, alt_text="a föx") == OF_PICTURE
    (asked,) = service.asked
    assert (asked.method, asked.url.path) == ("POST", "/api/v1/media")
    sent = {part.name: part for part in parts(asked)}
    assert sent["file"] == ("file", "file", PICTURE)
    assert sent["altText"].data.decode() == "a föx"
    assert int(asked.headers["Content-Length"]) == len(asked.content)
    assert asked.headers["X-Kith-User"] == "1"


def test_an_upload_that_was_not_started_is_retried_whole(connect: Connect, picture: Any) -> None:
    overloaded = httpx.Response(503, json={"error": {"code": "OVERLOADED", "message": "wait", "details": {}}})
    service = Service(httpx.Response(429), overloaded, httpx.Response(201, json=ANSWER))
    assert ask(connect(service, retry=NO_WAIT), "upload_media", picture) == OF_PICTURE
    assert [{part.name: part.data for part in parts(asked)}["file"] for asked in service.asked] == [PICTURE] * 3


def timed_out(request: httpx.Request) -> httpx.Response:
    raise httpx.ReadTimeout("slow", request=request)


@pytest.mark.parametrize(
    ("failure", "error"), [(lambda _: httpx.Response(503), ApiError), (timed_out, Unreachable)], ids=["503", "timeout"]
)
def test_an_upload_that_may_have_been_accepted_is_not_retried(
    connect: Connect, failure: Callable[[httpx.Request], httpx.Response], error: type[Exception]
) -> None:
    asked: list[httpx.Request] = []

    def service(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return failure(request)

    with pytest.raises(error):
        ask(connect(service, retry=NO_WAIT), "upload_media", PICTURE)
    assert len(asked) == 1


def test_an_upload_waits_for_its_answer_as_long_as_the_service_allows(connect: Connect) -> None:
    service = Service(ANSWER, ANSWER)
    client = connect(service, timeout_s=0.5)
    ask(client, "upload_media", PICTURE)
    ask(client, "media", 7)
    waits = [(asked.extensions["timeout"]["connect"], asked.extensions["timeout"]["read"]) for asked in service.asked]
    assert waits == [(0.5, 130.0), (0.5, 0.5)]


def test_a_missing_file_is_the_callers_error_and_nothing_is_sent(connect: Connect, tmp_path: Path) -> None:
    service = Service()
    with pytest.raises(FileNotFoundError):
        ask(connect(service), "upload_media", tmp_path / "none.jpg")
    assert service.asked == []


def test_the_text_of_a_picture_is_changed(connect: Connect) -> None:
    service = Service(ANSWER)
    assert ask(connect(service), "edit_media", 7, alt_text="a") == OF_PICTURE
    assert (service.asked[0].method, service.asked[0].url.path) == ("PATCH", "/api/v1/media/7")
    assert service.bodies() == [{"altText": "a"}]
