"""Client of a primary's routes under /standby, for the other machines of its store. It authenticates with their key."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self, TypeVar

import httpx
import msgspec

from kith.api.operations import BASE
from kith.api.resources.files import FILES_PATH
from kith.api.resources.standby import FencedAt, Fencing
from kith.core.errors import BadRequest, Conflict, KithError, StoreMismatch, TokenTooOld, Unauthorized, Unavailable
from kith.core.trust import tls_verify
from kith.engines.embedded.driver_errors import translate_errors
from kith.engines.embedded.environment import Environment
from kith.engines.embedded.history import ORIGINAL
from kith.engines.embedded.shipping import SNAPSHOT_END
from kith.engines.embedded.store_file import sync_folder
from kith.run.opening.keys import machine_key
from kith.run.serving import heartbeats
from kith.standby.source import Epoch

_CONNECT_TIMEOUT_S, _TIMEOUT_S = 2.0, 10.0
_ENDING_BYTES = len(SNAPSHOT_END) + hashlib.sha256().digest_size
_MIB = 1 << 20
T = TypeVar("T")
_NAME_FILE = "standby.name"
_ERRORS: tuple[type[KithError], ...] = (TokenTooOld, Unauthorized, Conflict)


class Primary:
    """A primary at an address. Errors: Unavailable where it does not answer, or answers that it cannot."""

    def __init__(self, url: str, key: str, *, name: str = "", answer_timeout_s: float = _TIMEOUT_S) -> None:
        """`name`: of the standby that asks; the primary keeps the log for it. Empty: the log is kept for nobody."""
        no_address = BadRequest(f"{url} is no address of a primary; name one such as http://10.0.0.1:7400")
        if not url.startswith(("http://", "https://")):
            raise no_address
        if "@" in url.split("/")[2]:  # addresses are logged; and httpx would send these in place of the key
            raise BadRequest(
                "the address of a primary holds no user or password, because machines know each other's key"
            )
        self.url = url.rstrip("/")
        self._name_params = {"name": name} if name else {}
        timeout = httpx.Timeout(answer_timeout_s, connect=min(_CONNECT_TIMEOUT_S, answer_timeout_s))
        headers = {b"authorization": f"Bearer {key}".encode()}  # bytes, because httpx refuses text that is not ASCII
        try:
            self._http = httpx.Client(
                base_url=self.url, headers=headers, timeout=timeout, trust_env=False, verify=tls_verify(url)
            )
            self._http.base_url.host.encode("idna")  # as name lookup does; refuse invalid names now
        except (httpx.InvalidURL, UnicodeError):
            raise no_address from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._http.close()

    def log(
        self, after: int, has: int | None, wait_ms: int, *, with_places: bool = False, history: int = ORIGINAL
    ) -> bytes | None:
        """The events after `after`; None if none came in time. See `standby.source.Source.log`."""
        params = {"after": after, "wait_ms": wait_ms, "places": int(with_places)}
        if has is not None:
            params |= {"has": has, "history": history}
        answer = self._request("GET", f"{BASE}/standby/log", params=params | self._name_params)
        return None if answer.status_code == 204 else answer.content

    def fence(self, epoch: Epoch, primary: str) -> int:
        """Fence it: it was replaced. Returns the number of its last event. Errors: Conflict, see `store_role.fence`."""
        body = msgspec.json.encode(Fencing(primary, epoch))
        answer = self._request("POST", f"{BASE}/standby/fence", content=body)
        return self._read(answer, FencedAt).last

    def epoch(self) -> Epoch:
        """The epoch of its store."""
        return self._read(self._request("GET", f"{BASE}/standby/epoch"), Epoch)

    def snapshot(self, file: Path) -> None:
        """Download its store into a file, whole, durable and private. After an error no such file exists."""
        part = file.with_name(f"{file.name}.part")
        with (
            translate_errors(f"write {file}", file.parent),
            open(part, "wb", opener=partial(os.open, mode=0o600)) as output,
        ):
            if not self._stream(f"{BASE}/standby/snapshot", output, ending=_ENDING_BYTES, params=self._name_params):
                raise Unavailable(f"{self.url} gives no snapshots; is it the address of a Kith?")
            output.flush()
            os.fsync(output.fileno())
        part.replace(file)

    def media_file(self, key: str, folder: Path) -> bool:
        """Download a media file into its folder, durable; False where the primary no longer has it."""
        file = folder / key
        part = file.with_name(f"{file.name}#0")  # the media folder's name for an unfinished file
        with translate_errors(f"write {file}", folder):
            for directory in (folder, file.parent):  # not the data folder, which may have been moved away
                directory.mkdir(exist_ok=True)
            with part.open("wb") as output:
                exists = self._stream(f"{FILES_PATH}/{key}", output)
                output.flush()
                os.fsync(output.fileno())
            if exists:
                part.replace(file)
                for directory in (file.parent, folder):
                    sync_folder(directory)
            else:
                part.unlink()
        return exists

    def _stream(self, path: str, into: IO[bytes], ending: int = 0, params: Mapping[str, str] | None = None) -> bool:
        """Write an answer's body as it arrives, and verify its last `ending` bytes, the checksum.

        False where a Kith says that it has nothing there.
        """
        digest, tail = hashlib.sha256(), b""
        try:
            with self._http.stream("GET", path, params=params) as answer:
                if answer.status_code != 200:
                    answer.read()
                    if answer.status_code == 404 and _is_of_kith(answer):
                        return False
                    raise self._error(answer)
                for chunk in answer.iter_bytes(_MIB):
                    heartbeats.beat()
                    tail += chunk
                    whole, tail = (tail[:-ending], tail[-ending:]) if ending else (tail, b"")
                    digest.update(whole)
                    into.write(whole)
        except httpx.HTTPError as error:
            raise self._no_answer(error) from None
        if ending and tail != SNAPSHOT_END + digest.digest():
            raise Unavailable(f"the snapshot of {self.url} was cut off; it is fetched again")
        return True

    def _request(self, method: str, path: str, **options: Any) -> httpx.Response:
        try:
            answer = self._http.request(method, path, **options)
        except httpx.HTTPError as error:
            raise self._no_answer(error) from None
        if answer.is_success:
            return answer
        raise self._error(answer)

    def _read(self, answer: httpx.Response, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(answer.content, type=kind)
        except msgspec.DecodeError:  # for example a proxy's maintenance page
            raise Unavailable(f"{self.url} answers {answer.status_code}, and not as a Kith does") from None

    def _no_answer(self, error: Exception) -> Unavailable:
        return Unavailable(f"{self.url} does not answer ({str(error) or type(error).__name__})")

    def _error(self, answer: httpx.Response) -> KithError:
        """Its error as one of ours; never with the key in it."""
        if answer.status_code == 307:
            return StoreMismatch(f"{self.url} keeps media in a bucket; give the standby the same `media_url`")
        try:
            body = answer.json()["error"]
            code, message, details = str(body["code"]), str(body["message"]), dict(body.get("details", {}))
        except (ValueError, LookupError, TypeError):
            return Unavailable(f"{self.url} answers {answer.status_code}, and not as a Kith does")
        for kind in _ERRORS:
            if kind.code == code:
                return kind(f"{self.url} says: {message}", **details)
        return Unavailable(f"{self.url} says {code}: {message}")


def _is_of_kith(answer: httpx.Response) -> bool:
    """Whether an error is Kith's, and not for example a proxy's."""
    try:
        return bool(answer.json()["error"]["code"])
    except (ValueError, LookupError, TypeError):
        return False


def name_of(folder: Path) -> str:
    """The name of the standby in a data folder, by which its primary knows it; made on first use and stored."""
    file = folder / _NAME_FILE
    with contextlib.suppress(FileNotFoundError):
        if re.fullmatch("[0-9a-f]{16}", name := file.read_text(errors="replace")):
            return name
    with translate_errors(f"write {file}", folder):
        file.write_text(secrets.token_hex(8))
    return file.read_text()


def machine_key_of(store: Environment) -> str:
    """The key with which this store's machines authenticate to each other. Errors: StoreMismatch if there is none."""
    secret = store.get_note("secret/signing")
    if secret is None:
        raise StoreMismatch(f"{store.folder} was never served, so it knows no other machine; use a new folder")
    return machine_key(secret)
