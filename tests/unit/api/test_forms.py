"""The form of an upload is parsed as it arrives, and only up to its limits."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from coroutines import Run

from kith.api.forms import read_upload_form
from kith.core.errors import BodyTooLarge, InvalidContent, KithError, StoreFull

KIND = "multipart/form-data; boundary=b"
CHUNK = bytes(10_000)


def head(name: str) -> bytes:
    return f'--b\r\nContent-Disposition: form-data; name="{name}"; filename="x"\r\n\r\n'.encode()


class Body:
    """Chunks, and how many of them were read."""

    def __init__(self, *chunks: bytes) -> None:
        self.chunks, self.taken = chunks, 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self.chunks:
            self.taken += 1
            yield chunk


def refused(run: Run, body: Body, bytes_max: int) -> type[KithError]:
    """The type of the error that refuses a body."""

    async def read() -> None:
        async with read_upload_form(KIND, aiter(body), bytes_max):
            pass

    with pytest.raises(KithError) as error:
        run(read())
    return error.type


@pytest.mark.parametrize(("field", "error"), [("file", BodyTooLarge), ("altText", InvalidContent)])
def test_a_part_that_never_ends_is_read_only_up_to_its_limit(run: Run, field: str, error: type[KithError]) -> None:
    body = Body(head(field), *[CHUNK] * 1_000)
    assert refused(run, body, 50_000) is error
    assert body.taken < 10


def test_parts_may_be_split_into_chunks_anywhere(run: Run) -> None:
    whole = head("altText") + "a fox 🦊".encode() + b"\r\n" + head("file") + CHUNK + b"\r\n--b--\r\n"

    async def read(step: int) -> tuple[int, str, bytes]:
        body = Body(*(whole[at : at + step] for at in range(0, len(whole), step)))
        async with read_upload_form(KIND, aiter(body), 10_000) as sent:
            sent.file.seek(0)
            return sent.size, sent.alt_text, sent.file.read()

    for step in (1, 7, 100, len(whole)):
        assert run(read(step)) == (len(CHUNK), "a fox 🦊", CHUNK)


def test_a_file_may_have_any_name(run: Run) -> None:
    named = head("file").replace(b'"x"', '"fête.jpg"'.encode("latin-1"))

    async def read() -> int:
        async with read_upload_form(KIND, aiter(Body(named + CHUNK + b"\r\n--b--\r\n")), 10_000) as sent:
            return sent.size

    assert run(read()) == len(CHUNK)


def test_the_temporary_file_is_closed_at_the_end_of_the_request(run: Run) -> None:
    async def read() -> bool:
        async with read_upload_form(KIND, aiter(Body(head("file") + b"x\r\n--b--")), 10) as sent:
            kept = sent.file
        return kept.closed

    assert run(read())


def test_a_full_disk_for_temporary_files_is_reported(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("kith.api.forms._Form.take", full)
    assert refused(run, Body(head("file") + b"x\r\n--b--"), 10) is StoreFull
