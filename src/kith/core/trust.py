"""Chooses the certificates that an HTTP client trusts."""

from __future__ import annotations

import ssl


def tls_verify(url: str) -> ssl.SSLContext | bool:
    """The `verify` argument of httpx for `url`: the usual certificates, or an empty context for plain http, because
    loading certificates takes 60 ms.
    """
    return url[:6].lower() == "https:" or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
