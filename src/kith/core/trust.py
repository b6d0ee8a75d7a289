"""Which certificates an HTTP client trusts."""

from __future__ import annotations

import ssl


def trusted(url: str) -> ssl.SSLContext | bool:
    """`verify` of httpx for clients of `url`: the usual certificates. None for plain http: reading them takes 60 ms."""
    return url.startswith("https:") or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
