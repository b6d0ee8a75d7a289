"""URLs that may be called, judged by the URL alone, and the form in which they are sent."""

from __future__ import annotations

import pytest

from kith.core.errors import BadRequest
from kith.outbound.urls import check_url


@pytest.mark.parametrize(
    ("url", "host", "authority", "path"),
    [
        ("https://a.example", "a.example", "a.example", "/"),
        ("http://A.example:8080/x?y=1", "a.example", "a.example:8080", "/x?y=1"),
        ("https://bücher.example/ü", "xn--bcher-kva.example", "xn--bcher-kva.example", "/%C3%BC"),
        ("http://[2606:4700::1111]/", "2606:4700::1111", "[2606:4700::1111]", "/"),
        ("http://[2606:4700:0::1111]:81/", "2606:4700:0::1111", "[2606:4700::1111]:81", "/"),
    ],
)
def test_a_url_is_sent_as_ascii(url: str, host: str, authority: str, path: str) -> None:
    target = check_url(url)
    assert (target.host, target.authority, target.path) == (host, authority, path)


@pytest.mark.parametrize(
    "url",
    [
        "", "a.example", "ftp://a.example/", "http:///x", "http://a b/", "http://x..y/", "https://a:99999/", "http://a:0/",
        "http://a\n/", "http://u@a.example/", "http://a.example/#top", "https://a.example/" + "x" * 2_048,
        "http://[v1.a]/", "http://[::1]x/", "http://x[::1]/", "http://[::1/", "http://[fe80::1%25eth0]/", "http://[1.2.3.4]/",
    ],
)  # fmt: skip
def test_a_url_that_cannot_be_called_as_written_is_refused(url: str) -> None:
    with pytest.raises(BadRequest):
        check_url(url)
