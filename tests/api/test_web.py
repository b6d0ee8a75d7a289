"""The reader's files: what is sent, with which headers and size, and that a wheel contains all of them."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import msgspec
import pytest
from servers import Server, serving

from kith.run.api import media_origins
from kith.run.config import Settings
from kith.web.site import APP, MAP, Site, client_folder

ROOT = Path(__file__).parents[2]
BYTES_MAX = 60 * 1024
"""Bytes of the reader's code and styles, compressed."""
FILES = Site(APP, {"client": client_folder()})


@pytest.fixture(scope="module")
def visitor(server: Server) -> Iterator[httpx.Client]:
    with server.client("") as client:
        yield client


def test_the_reader_needs_no_credentials_and_runs_only_its_own_files(visitor: httpx.Client) -> None:
    answer = visitor.get("/app")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    policy = dict(one.strip().split(" ", 1) for one in answer.headers["content-security-policy"].split(";"))
    assert policy["default-src"] == policy["frame-ancestors"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["require-trusted-types-for"] == "'script'"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert "no-cache" in answer.headers["cache-control"]
    assert not re.search(r"<script(?! type=\"module\" src=)|<style|\son\w+=|\sstyle=", answer.text), "no inline code"


@pytest.mark.parametrize("name", FILES.names)
def test_every_file_of_the_reader_is_sent_with_its_type_and_only_if_it_changed(
    visitor: httpx.Client, name: str
) -> None:
    answer = visitor.get(f"/app/{name}")
    assert answer.status_code == 200, name
    assert answer.headers["content-encoding"] == "gzip"
    again = visitor.get(f"/app/{name}", headers={"If-None-Match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    plain = visitor.get(f"/app/{name}", headers={"Accept-Encoding": "identity"})
    assert plain.content == answer.content
    for refused in ("gzip;q=0", "br, gzip; q=0.0", "x-gzipped"):
        assert "content-encoding" not in visitor.get(f"/app/{name}", headers={"Accept-Encoding": refused}).headers
    kinds = {"html": "text/html", "js": "text/javascript", "map": "application/json", "css": "text/css"}
    assert plain.headers["content-type"].startswith(kinds.get(name.rsplit(".", 1)[1], "image/svg+xml"))


@pytest.mark.parametrize(
    "path", ["/app/none.js", "/app/views/../main.js/x", "/app/../pages.py", "/app/views", "/app/%2e%2e/pages.py"]
)
def test_no_other_file_is_served(visitor: httpx.Client, path: str) -> None:
    assert visitor.get(path).status_code == 404


def test_signing_out_leaves_no_picture_in_the_browser(visitor: httpx.Client) -> None:
    assert visitor.get("/app/signed-out").headers["clear-site-data"] == '"cache"'


def test_the_document_names_its_script_so_that_it_is_fetched_at_once(visitor: httpx.Client) -> None:
    assert visitor.get("/app").headers["link"] == '</app/main.js>; rel="modulepreload"'


def test_the_reader_inserts_user_content_as_text_only() -> None:
    parses = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|setHTML|DOMParser"
    )
    assert not [path.name for path in APP.rglob("*.js") if parses.search(path.read_text())]


def test_the_reader_is_small() -> None:
    sent = [FILES.find(name) for name in FILES.names if name != MAP]
    assert sum(len(file.packed) for file in sent if file) <= BYTES_MAX
    assert not [path.name for path in APP.rglob("*.js") if len(path.read_text().splitlines()) > 250], (
        "files have at most 250 lines"
    )


def test_pictures_may_come_from_this_server_or_the_apps_storage_only() -> None:
    def shown(*images: str) -> str:
        return dict(Site(APP, {"client": client_folder()}, images).headers("index.html", "/app"))[
            "content-security-policy"
        ]

    assert "img-src 'self' blob:;" in shown()
    assert "img-src 'self' blob: https://cdn.example;" in shown("https://cdn.example")


@pytest.mark.parametrize(
    ("base", "media", "bucket", "origins"),
    [
        ("", "", "", ()),
        ("", "", "http://minio:9000", ()),
        ("/files", "", "", ()),
        ("https://cdn.example/kith", "", "", ("https://cdn.example",)),
        ("", "s3://films", "", ("https:",)),
        ("", "s3://films", "https://s3.example", ("https:",)),
        ("", "s3://films", "http://localhost:9000/", ("http://localhost:9000", "https:")),
        ("http://cdn.example:81", "s3://films", "", ("http://cdn.example:81", "https:")),
    ],
)
def test_pictures_in_a_bucket_show_in_the_reader(base: str, media: str, bucket: str, origins: tuple[str, ...]) -> None:
    settings = msgspec.structs.replace(Settings(), media_base_url=base, media_url=media)
    assert media_origins(settings, bucket) == origins


def test_a_server_without_the_reader_serves_none(tmp_path: Path) -> None:
    with serving(tmp_path, KITH_WEB_APP="off") as server:
        assert server.get("/app").status_code == 404
        assert server.get("/docs").status_code == 200


def test_a_wheel_contains_the_reader_and_its_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build = pytest.importorskip("hatchling.build")
    monkeypatch.chdir(ROOT)
    with zipfile.ZipFile(tmp_path / build.build_wheel(str(tmp_path))) as wheel:
        held = set(wheel.namelist())
    for folder, name in ((APP, "app"), (client_folder(), "client")):
        assert {f"kith/web/{name}/{path.relative_to(folder).as_posix()}" for path in folder.rglob("*.*")} <= held
