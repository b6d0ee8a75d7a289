"""Pictures and videos over real HTTP: which files are refused, how files are served, who gets what (article 001)."""

from __future__ import annotations

import select
import socket
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from calls import code, ok, upload
from cast import People
from pictures import PLACE, animation, bomb, decoded, drawing, encoded, mp4, photo, webm
from servers import API, KEY, Server, eventually, serving

Acting = Callable[[int], httpx.Client]
ANSWER = {"id", "type", "url", "thumbnailUrl", "width", "height", "altText"}
BYTES_MAX = 300_000


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with small limits."""
    limits = {
        "KITH_MEDIA_IMAGE_BYTES_MAX": str(BYTES_MAX),
        "KITH_MEDIA_VIDEO_BYTES_MAX": str(BYTES_MAX),
        "KITH_MEDIA_PIXELS_MAX": "1000000",
        "KITH_MEDIA_SIDE_MAX": "600",
        "KITH_UPLOADS_MAX": "2",
        "KITH_UPLOAD_TIMEOUT_MS": "4000",
        "KITH_MEDIA_BASE_URL": "https://cdn.example.com/kith/",
    }
    with serving(tmp_path_factory.mktemp("media"), **limits) as running:
        yield running


def files(server: Server) -> set[str]:
    """The media files in the server's folder."""
    return {file.name for file in (server.data / "media").rglob("*") if file.is_file()}


def post_form(http: httpx.Client, data: bytes, content_type: str = "image/jpeg", name: str = "x.jpg") -> httpx.Response:
    return http.post(f"{API}/media", files={"file": (name, data, content_type)})


# --- upload --------------------------------------------------------------------------------------------------


def test_an_upload_is_answered_in_the_shape_of_the_article(
    acting: Acting, visitor: httpx.Client, people: People
) -> None:
    made = upload(acting(people.alice), photo(orientation=6), altText="a fox 🦊")
    assert set(made) == ANSWER
    assert (made["type"], made["width"], made["height"], made["altText"]) == ("image", 80, 120, "a fox 🦊")
    assert isinstance(made["id"], str)
    for url in (made["url"], made["thumbnailUrl"]):
        shown = visitor.get(url)
        assert decoded(shown.content).size == (80, 120)
        assert PLACE not in shown.content
    assert ok(acting(people.alice).get(f"{API}/media/{made['id']}")) == made


@pytest.mark.parametrize(
    ("data", "content_type", "kind"),
    [
        (photo(), "image/jpeg", "image"),
        (encoded(form="PNG"), "image/png", "image"),
        (animation(), "image/gif", "image"),
        (encoded(form="WEBP"), "image/webp", "image"),
        (mp4(), "video/mp4", "video"),
        (webm(), "video/webm", "video"),
    ],
    ids=["jpg", "png", "gif", "webp", "mp4", "webm"],
)
def test_the_kind_of_a_file_comes_from_its_bytes_not_from_its_sender(
    acting: Acting, visitor: httpx.Client, people: People, data: bytes, content_type: str, kind: str
) -> None:
    made = ok(post_form(acting(people.alice), data, "text/html", "evil.html"), 201)
    shown = visitor.get(made["url"])
    assert (made["type"], shown.headers["content-type"]) == (kind, content_type)
    assert (made["thumbnailUrl"] is None) == (kind == "video")
    assert PLACE not in shown.content


@pytest.mark.parametrize(
    ("data", "status", "expected"),
    [
        (b"", 400, "INVALID_CONTENT"),
        (b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>", 400, "INVALID_CONTENT"),
        (b"<!doctype html><script>alert(1)</script>", 400, "INVALID_CONTENT"),
        (encoded(form="TIFF"), 400, "INVALID_CONTENT"),
        (photo()[:-200], 400, "INVALID_CONTENT"),
        (mp4()[:-1], 400, "INVALID_CONTENT"),
        (photo() + b"PK\3\4 an archive", 400, "INVALID_CONTENT"),
        (animation() + b"=1;alert(1)", 400, "INVALID_CONTENT"),
        (bomb(), 400, "INVALID_CONTENT"),
        (bomb(1_001, 1_000), 400, "INVALID_CONTENT"),
        (animation(3, 600, 600, "WEBP"), 400, "INVALID_CONTENT"),
        (photo() + bytes(BYTES_MAX), 413, "BODY_TOO_LARGE"),
        (mp4() + bytes(BYTES_MAX), 413, "BODY_TOO_LARGE"),
        (bytes(4_000_000), 413, "BODY_TOO_LARGE"),
    ],
    ids=[
        "empty",
        "svg",
        "html",
        "tiff",
        "cut-photo",
        "cut-video",
        "photo-and-archive",
        "gif-and-script",
        "bomb",
        "too-many-pixels",
        "too-many-pixels-in-frames",
        "photo-too-large",
        "video-too-large",
        "nothing-too-large",
    ],
)
def test_a_file_that_cannot_be_shown_is_refused_and_leaves_nothing(
    small: Server, people: People, data: bytes, status: int, expected: str
) -> None:
    before = files(small)
    with small.client(acting=people.alice) as http:
        assert code(post_form(http, data), status) == expected
    assert files(small) == before


FILE = b'--b\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\n' + photo() + b"\r\n"
TEXT = b'--b\r\nContent-Disposition: form-data; name="altText"\r\n\r\n'


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("image/jpeg", photo()),
        ("application/json", b"{}"),
        ("multipart/form-data", FILE + b"--b--"),
        ("multipart/form-data; boundary=b", b""),
        ("multipart/form-data; boundary=b", b"not a form"),
        ("multipart/form-data; boundary=b", FILE),
        ("multipart/form-data; boundary=b", TEXT + b"x\r\n--b--"),
        ("multipart/form-data; boundary=b", FILE + FILE + b"--b--"),
        ("multipart/form-data; boundary=b", FILE + TEXT.replace(b"altText", b"owner") + b"1\r\n--b--"),
        ("multipart/form-data; boundary=b", FILE + TEXT + b"x\r\n" + TEXT + b"x\r\n--b--"),
        ("multipart/form-data; boundary=b", FILE + TEXT + b"\xff\xfe\r\n--b--"),
        ("multipart/form-data; boundary=b", FILE + TEXT + b"x" * 1_501 + b"\r\n--b--"),
        ("multipart/form-data; boundary=b", FILE + TEXT + b"x" * 200_000 + b"\r\n--b--"),
        ("multipart/form-data; boundary=b", FILE.replace(b"\r\n\r\n", b"\r\nX: " + b"y" * 9_000 + b"\r\n\r\n", 1)),
    ],
    ids=[
        "a-photo-itself",
        "json",
        "no-boundary",
        "empty",
        "no-form",
        "no-end",
        "no-file",
        "two-files",
        "unknown-field",
        "field-twice",
        "text-not-utf8",
        "text-too-long",
        "text-far-too-long",
        "part-header-too-long",
    ],
)
def test_an_invalid_form_is_a_400_and_leaves_nothing(
    small: Server, people: People, content_type: str, body: bytes
) -> None:
    before = files(small)
    with small.client(acting=people.alice) as http:
        answer = http.post(f"{API}/media", content=body, headers={"Content-Type": content_type})
    assert code(answer, 400)[:7] == "INVALID"
    assert files(small) == before


def open_upload(
    server: Server, sent: bytes, credential: str | None = KEY, size: int = 200_000, user: int = 1
) -> socket.socket:
    """An upload of which only the beginning is sent."""
    client = socket.create_connection(("127.0.0.1", server.port), timeout=20)
    authorization = f"Authorization: Bearer {credential}\r\n" if credential else ""
    head = f"POST {API}/media HTTP/1.1\r\nHost: x\r\n{authorization}X-Kith-User: {user}\r\nContent-Length: {size}\r\n"
    client.sendall(f"{head}Content-Type: multipart/form-data; boundary=b\r\n\r\n".encode() + sent)
    return client


def test_an_upload_without_credentials_is_refused_before_its_body(small: Server) -> None:
    with open_upload(small, b"", credential=None) as client:
        assert client.recv(20).startswith(b"HTTP/1.1 401")


def test_an_endless_body_is_cut_off_at_the_limit(small: Server) -> None:
    client = socket.create_connection(("127.0.0.1", small.port), timeout=20)
    head = f"POST {API}/media HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\nX-Kith-User: 1\r\n"
    form = "Content-Type: multipart/form-data; boundary=b\r\nTransfer-Encoding: chunked\r\n\r\n"
    client.sendall((head + form).encode())
    with client:
        client.sendall(b"%x\r\n%s\r\n" % (len(FILE[:80]), FILE[:80]))
        for _ in range(4 * BYTES_MAX // 10_000):
            if select.select([client], [], [], 0.01)[0]:
                break
            client.sendall(b"%x\r\n%s\r\n" % (10_000, bytes(10_000)))
        answer = client.recv(30)
    assert answer.startswith(b"HTTP/1.1 413")


def test_uploads_beyond_the_limit_are_refused_and_an_idle_one_times_out(small: Server, people: People) -> None:
    with small.client(acting=people.alice) as http:

        def refused() -> bool:
            answer = post_form(http, photo())
            return answer.status_code == 503 and code(answer, 503) == "OVERLOADED"

        idle = [open_upload(small, FILE[:-10], user=user) for user in (1, 1, 2)]
        assert idle[1].recv(20).startswith(b"HTTP/1.1 503"), "one user gets at most half of the upload slots"
        eventually(refused)
        assert idle[0].recv(20).startswith(b"HTTP/1.1 503")
        for client in idle:
            client.close()
        eventually(lambda: post_form(http, photo()).status_code == 201)


def test_a_large_photo_is_scaled_down(small: Server, people: People) -> None:
    with small.client(acting=people.alice) as http:
        made = upload(http, encoded(drawing(1_200, 800), quality=60))
    assert (made["width"], made["height"]) == (600, 400)
    assert made["url"].startswith("https://cdn.example.com/kith/")
    assert made["thumbnailUrl"].startswith("https://cdn.example.com/kith/")


# --- owners, posts and profiles ------------------------------------------------------------------------------


def test_only_the_owner_describes_and_deletes_media(acting: Acting, visitor: httpx.Client, people: People) -> None:
    alice, bob = acting(people.alice), acting(people.bob)
    made = upload(alice, photo())
    path = f"{API}/media/{made['id']}"
    for answer in (bob.get(path), bob.patch(path, json={"altText": "mine"}), bob.delete(path)):
        assert code(answer, 404) == "MEDIA_NOT_FOUND"
    assert ok(alice.patch(path, json={"altText": "a fox"})) == {**made, "altText": "a fox"}
    for body in ({"altText": "x" * 1_501}, {"altText": None}, {}, {"url": "x"}):
        assert code(alice.patch(path, json=body), 400)[:7] == "INVALID"
    assert visitor.get(made["url"]).status_code == 200
    assert [alice.delete(path).status_code for _ in range(2)] == [204, 204]
    assert code(alice.get(path), 404) == "MEDIA_NOT_FOUND"
    for url in (made["url"], made["thumbnailUrl"]):
        assert code(visitor.get(url), 404) == "MEDIA_NOT_FOUND"


def test_the_files_of_a_removed_account_are_gone_at_once(acting: Acting, visitor: httpx.Client, people: People) -> None:
    made = upload(acting(people.alice), photo())
    assert visitor.get(made["url"]).status_code == 200
    ok(acting(people.alice).delete(f"{API}/users/{people.alice}"), 202)
    for address in (made["url"], made["thumbnailUrl"]):
        assert code(visitor.get(address), 404) == "MEDIA_NOT_FOUND"


def test_a_post_shows_media_of_its_author_and_loses_deleted_media(acting: Acting, people: People) -> None:
    alice, bob = acting(people.alice), acting(people.bob)
    image, film, other = upload(alice, photo(), altText="fox"), upload(alice, mp4()), upload(bob, photo())
    made = ok(alice.post(f"{API}/posts", json={"content": {"mediaIds": [image["id"], film["id"]]}}), 201)
    assert made["content"] == {"type": "video", "text": "", "link": None, "media": [image, film]}
    path = f"{API}/posts/{made['id']}"
    assert ok(bob.get(path))["content"] == made["content"]
    assert ok(bob.get(f"{API}/users/{people.alice}/posts"))["items"][0]["content"] == made["content"]
    assert ok(alice.get(f"{API}/feed"))["posts"][0]["content"] == made["content"]
    for bad in ([other["id"]], [image["id"], other["id"]], ["5"]):
        answer = alice.post(f"{API}/posts", json={"content": {"mediaIds": bad}})
        assert code(answer, 400) == "INVALID_CONTENT"
        assert code(alice.patch(path, json={"content": {"mediaIds": bad}}), 400) == "INVALID_CONTENT"
    ok(alice.patch(f"{API}/media/{image['id']}", json={"altText": "a fox"}))
    assert alice.delete(f"{API}/media/{film['id']}").status_code == 204
    assert ok(bob.get(path))["content"]["media"] == [{**image, "altText": "a fox"}]


def test_null_removes_link_and_media_and_omitted_fields_stay(acting: Acting, people: People) -> None:
    alice = acting(people.alice)
    image = upload(alice, photo())
    said = {"text": "hi", "link": "https://example.com/", "mediaIds": [image["id"]]}
    path = f"{API}/posts/{ok(alice.post(f'{API}/posts', json={'content': said}), 201)['id']}"

    def edit(**content: Any) -> Any:
        return ok(alice.patch(path, json={"content": content}))["content"]

    whole = {"type": "image", "text": "hi", "link": "https://example.com/", "media": [image]}
    assert edit() == whole
    assert edit(link=None) == {**whole, "link": None}
    assert edit(mediaIds=None) == {"type": "text", "text": "hi", "link": None, "media": []}
    assert edit(link="https://example.com/a")["type"] == "link"
    assert edit(mediaIds=[image["id"]], link=None) == {**whole, "link": None}
    assert edit(mediaIds=[])["type"] == "text"
    for body in ({"content": {"text": None}}, {"visibility": None}, {"attributes": None}, {"content": None}):
        assert code(alice.patch(path, json=body), 400) == "INVALID_REQUEST"


def test_an_avatar_is_shown_with_everything_that_its_user_writes(acting: Acting, people: People) -> None:
    alice, bob = acting(people.alice), acting(people.bob)
    image, film, other = upload(alice, photo()), upload(alice, mp4()), upload(bob, photo())
    path = f"{API}/users/{people.alice}"
    for bad in (film["id"], other["id"], "5"):
        for method in ("PATCH", "PUT"):
            assert code(alice.request(method, path, json={"avatar": bad}), 400) == "INVALID_CONTENT"
    ok(alice.patch(path, json={"avatar": image["id"]}))
    post = ok(alice.post(f"{API}/posts", json={"content": {"text": "x"}}), 201)["id"]
    ok(alice.post(f"{API}/posts/{post}/comments", json={"text": "x"}), 201)

    def shown() -> list[Any]:
        (comment,) = ok(bob.get(f"{API}/posts/{post}/comments"))["items"]
        authors = [comment["author"], ok(bob.get(f"{API}/posts/{post}"))["author"]]
        return [ok(bob.get(path))["avatarUrl"], *(author["avatarUrl"] for author in authors)]

    assert shown() == [image["thumbnailUrl"]] * 3
    assert alice.delete(f"{API}/media/{image['id']}").status_code == 204
    assert shown() == [None] * 3
    assert ok(alice.get(path))["avatar"] is None
