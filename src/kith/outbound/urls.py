"""Which URLs may be called, judged by the URL alone. The addresses of hosts are checked when they are called."""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import IPv6Address
from typing import NamedTuple
from urllib.parse import quote, urlsplit

from kith.core.errors import BadRequest

URL_CHARS_MAX = 2_048
PORT_MAX = (1 << 16) - 1
_KNOWN_MAX = 1_000
"""URLs whose parsed parts are cached, as each is checked several times in a row."""
_PATH_SAFE = "/%:@!$&'()*+,;=-._~"
_BRACKETED = re.compile(r"\[[0-9A-Fa-f:.]+\](:[0-9]*)?")
"""An IPv6 address and perhaps a port. Python also accepts a scope, or text around it, which parsers disagree on."""


class Target(NamedTuple):
    """A parsed URL, as a request carries it: all ASCII. `port`: None for the scheme's default."""

    scheme: str
    host: str
    port: int | None
    authority: str  # host and port, as in the Host header
    path: str  # path and query


@lru_cache(_KNOWN_MAX)
def check_url(url: str) -> Target:
    """Parse a URL that may be called; BadRequest says what is wrong with one that may not."""
    try:
        parts = _parts(url) if len(url) <= URL_CHARS_MAX and url.isprintable() and " " not in url else None
    except ValueError:  # of brackets, a port, or a label of the host name
        parts = None
    if parts is None or parts.scheme not in ("http", "https") or not parts.host or not _is_port(parts.port):
        raise BadRequest(f"url must be http:// or https:// with a host, {URL_CHARS_MAX} characters at most")
    if "@" in urlsplit(url).netloc or "#" in url:
        raise BadRequest("url must have no user, password or fragment; a delivery is known by its signature")
    return parts


def _is_port(port: int | None) -> bool:
    return port is None or 1 <= port <= PORT_MAX  # None: the scheme's default


def _parts(url: str) -> Target:
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port
    if "[" in parts.netloc:
        if not _BRACKETED.fullmatch(parts.netloc):
            raise ValueError
        shown = f"[{IPv6Address(host)}]"
    else:
        shown = host = host.encode("idna").decode()
    query = "?" + quote(parts.query, safe=_PATH_SAFE + "?") if parts.query else ""
    path = quote(parts.path or "/", safe=_PATH_SAFE) + query
    return Target(parts.scheme, host, port, shown if port is None else f"{shown}:{port}", path)
