"""CORS: pages of the origins named in the settings may use the API, and no others."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import httpx
import pytest
from calls import ok, upload
from cast import People, people_of
from pictures import photo
from servers import API, Server, refused, serving

APP, DEVELOPING, STRANGER = "https://app.example", "http://localhost:5173", "https://evil.example"
_numbers = itertools.count()


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that names two origins."""
    with serving(tmp_path_factory.mktemp("named"), KITH_CORS_ORIGINS=f"{APP},{DEVELOPING}") as running:
        yield running


@pytest.fixture
def page(named: Server) -> Iterator[httpx.Client]:
    """A page of the app."""
    with named.client(acting=people_of(next(_numbers)).alice, headers={"Origin": APP}) as http:
        yield http


def allowed(answer: httpx.Response) -> str | None:
    found: str | None = answer.headers.get("access-control-allow-origin")
    return found


def words(answer: httpx.Response, header: str) -> set[str]:
    return {word.strip().lower() for word in answer.headers[header].split(",")}


def preflight(server: Server, path: str, origin: str = APP) -> httpx.Response:
    asked = {"Origin": origin, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "kith-token"}
    return httpx.options(server.url + path, headers=asked, trust_env=False)


@pytest.mark.parametrize("path", ["/posts", "/feed", "/feed/stream", "/media", "/there/is/no/such/path"])
def test_a_preflight_allows_every_method_of_the_api(named: Server, path: str) -> None:
    """Also on unknown paths: the page must see the 404, not an error of CORS."""
    answer = preflight(named, API + path)
    assert answer.status_code == 204
    assert allowed(answer) == APP
    assert words(answer, "vary") == {"origin"}
    assert {"get", "head", "post", "put", "patch", "delete"} <= words(answer, "access-control-allow-methods")
    assert int(answer.headers["access-control-max-age"]) > 0
    assert "access-control-allow-credentials" not in answer.headers


def test_every_header_that_an_operation_takes_is_allowed(named: Server) -> None:
    taken = words(preflight(named, f"{API}/posts"), "access-control-allow-headers")
    assert {"authorization", "content-type", "kith-token", "x-kith-user", "range", "if-none-match"} <= taken
    for operations in named.get("/openapi.json").json()["paths"].values():
        for operation in operations.values():
            named_here = {one["name"].lower() for one in operation["parameters"] if one["in"] == "header"}
            assert named_here <= taken
    assert "last-event-id" in taken


def test_a_page_reads_answers_errors_and_their_headers(page: httpx.Client) -> None:
    made = page.post(f"{API}/posts", json={"content": {"text": "from a page"}})
    ok(made, 201)
    for answer in (made, page.get(f"{API}/posts/1"), page.get("/nope"), page.post(f"{API}/posts", content=b"{")):
        assert allowed(answer) == APP
        assert words(answer, "vary") == {"origin"}
        assert {"kith-token", "retry-after", "ratelimit", "ratelimit-policy", "location", "etag"} <= words(
            answer, "access-control-expose-headers"
        )
    assert made.headers["kith-token"]


def test_a_page_reads_streams_and_files(page: httpx.Client) -> None:
    with page.stream("GET", f"{API}/feed/stream") as stream:
        assert (stream.status_code, allowed(stream)) == (200, APP)
        assert next(stream.iter_bytes())
    file = page.get(upload(page, photo())["url"])
    assert (file.status_code, allowed(file)) == (200, APP)
    part = page.get(file.request.url, headers={"Range": "bytes=0-9"})
    assert (part.status_code, allowed(part)) == (206, APP)


def test_other_origins_get_no_headers_and_caches_keep_origins_apart(named: Server, people: People) -> None:
    assert allowed(preflight(named, f"{API}/posts", STRANGER)) is None
    for headers in ({"Origin": STRANGER}, {"Origin": "null"}, {}):
        with named.client(headers=headers) as http:
            answer = http.get(f"{API}/users/{people.alice}")
            assert (answer.status_code, allowed(answer), words(answer, "vary")) == (200, None, {"origin"})
    with named.client(headers={"Origin": DEVELOPING}) as http:
        assert allowed(http.get(f"{API}/users/{people.alice}")) == DEVELOPING


def test_plain_options_requests_still_name_the_methods(named: Server) -> None:
    with named.client(headers={"Origin": APP}) as http:
        answer = http.options(f"{API}/posts")
    assert (answer.status_code, allowed(answer)) == (204, APP)
    assert "post" in words(answer, "allow")


def test_without_the_setting_no_origin_is_allowed(server: Server, people: People) -> None:
    with server.client(headers={"Origin": APP}) as http:
        for answer in (http.get(f"{API}/users/{people.alice}"), preflight(server, f"{API}/posts")):
            assert answer.is_success
            assert not any(name.startswith("access-control") or name == "vary" for name in answer.headers)


def test_every_origin_is_allowed_only_if_the_setting_says_so(tmp_path_factory: pytest.TempPathFactory) -> None:
    with serving(tmp_path_factory.mktemp("open"), KITH_CORS_ORIGINS="*") as server:
        assert allowed(preflight(server, f"{API}/posts", STRANGER)) == "*"
        with server.client(headers={"Origin": STRANGER}) as http:
            assert allowed(http.get("/healthz")) == "*"
        assert allowed(server.get("/healthz")) is None


@pytest.mark.parametrize(
    "origin", ["app.example", "https://app.example/", "https://App.example", "https://*.example", "null"]
)
def test_an_origin_that_no_browser_sends_is_refused_at_the_start(
    tmp_path_factory: pytest.TempPathFactory, origin: str
) -> None:
    assert "cors_origins" in refused(tmp_path_factory.mktemp("bad"), KITH_CORS_ORIGINS=origin)
