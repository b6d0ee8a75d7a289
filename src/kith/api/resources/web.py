"""/app: the reader, for browsers. It takes no credentials: the page is the same for everyone and calls the API with a
token of the user.
"""

from __future__ import annotations

import re
from typing import Annotated

from msgspec import Meta

from kith.api.answers import RawAnswer
from kith.api.call import Call
from kith.api.operations import get
from kith.core.errors import NotFound
from kith.web.site import DOCUMENT, Site

APP_PATH = "/app"
FileName = Annotated[str, Meta(description="File of a page.")]
_GZIP = re.compile(r"(^|,)\s*gzip\s*(;\s*q=(1|0\.0*[1-9])|,|$)", re.IGNORECASE)  # named, and not with a quality of 0
_CLEARED = ("clear-site-data", '"cache"')


class WebResource:
    """The files of the reader."""

    def __init__(self, app: Site) -> None:
        self._app = app

    @get(APP_PATH, "The reader", absolute=True, callers="anyone", documented=False)
    async def app(self, call: Call) -> RawAnswer:
        """The HTML document of the page."""
        return page_file(self._app, call, APP_PATH, DOCUMENT)

    @get(APP_PATH + "/signed-out", "The reader, for the next person", absolute=True, callers="anyone", documented=False)
    async def signed_out(self, call: Call) -> RawAnswer:
        """The same document, with a header that makes the browser clear its cache of pictures."""
        answer = page_file(self._app, call, APP_PATH, DOCUMENT)
        return RawAnswer(answer.body, [*answer.headers, _CLEARED], answer.status)

    @get(APP_PATH + "/{file}", "A file of the reader", absolute=True, callers="anyone", documented=False)
    async def app_file(self, call: Call, file: FileName) -> RawAnswer:
        """A script or style sheet."""
        return page_file(self._app, call, APP_PATH, file)


def page_file(site: Site, call: Call, base: str, name: str) -> RawAnswer:
    """A file of the page at `base`; 304 if the browser has this version."""
    file = site.find(name)
    if file is None:
        raise NotFound(f"there is nothing at {base}/{name}; the page is at {base}")
    headers = site.headers(name, base)
    if file.tag in (call.header("if-none-match") or ""):
        return RawAnswer(b"", headers, 304)
    if _GZIP.search(call.header("accept-encoding") or ""):
        return RawAnswer(file.packed, [*headers, ("content-encoding", "gzip")])
    return RawAnswer(file.body, headers)
