"""What `kith standby` and `kith promote` do to a data folder: start or resume a standby, and promote it.

A snapshot is fetched beside the store and renamed into place last, so a folder has a whole store or none. A promotion
notes its epoch first, fences the old primary if it answers, fetches the events that this store lacks, and then opens
the store to writes. An interrupted promotion is repeated with the same epoch.

    standby.url   in the data folder while `kith standby` serves it: its address, for a promotion (text)
"""

from __future__ import annotations

import contextlib
import shutil
import socket
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

import structlog

from kith.core.errors import BadRequest, Conflict, KithError, StoreMismatch, TokenTooOld, Unauthorized, Unavailable
from kith.engines.embedded import fanout_state, store_role
from kith.engines.embedded.closed_note import ClosedNote
from kith.engines.embedded.environment import Environment
from kith.engines.embedded.folder_locks import alone, in_use, publish_text, published_text
from kith.engines.embedded.journal import JOURNAL_FILE
from kith.engines.embedded.retention import LEASE_PREFIX
from kith.engines.embedded.store_file import RESTORING, STORE_FILE, sync_folder
from kith.engines.embedded.store_role import SuccessorNotice
from kith.graph.graphs import BUILT_IN
from kith.home.fanout import consumer as fanout
from kith.run.config import Settings
from kith.run.machines import peers
from kith.run.machines.following import MEDIA_MISSING, StandbyFollower
from kith.run.machines.primary import Primary, machine_key_of, name_of
from kith.standby.source import Epoch

_FENCE_TIMEOUT_S, _QUERY_TIMEOUT_S = 2.0, 30.0
_URL_FILE = "standby.url"
_ALL_ADDRESSES, _THIS_MACHINE = ("0.0.0.0", "::"), ("127.0.0.1", "::1", "localhost")  # noqa: S104
_log = structlog.get_logger("kith.standby")


def prepare(settings: Settings, url: str, key: str) -> None:
    """Make the data folder a standby of the primary at `url`: resume the store in it, or start from a snapshot.

    `key`: a server key of the primary; needed where there is no store yet. Errors: Conflict where the folder holds a
    store that is no standby, or has events of its own; Unavailable where there is no store and the primary is down.
    """
    folder = Path(settings.data)
    with alone(folder) as is_alone:
        if not is_alone:
            raise Conflict(in_use(folder))
        if not (folder / STORE_FILE).exists() or not _resumed(settings, url):
            _install(settings, url, key or _key_of(folder))
        _check(settings)


def _key_of(folder: Path) -> str:
    if not (folder / STORE_FILE).exists():
        raise BadRequest("a standby needs a server key of its primary to begin: KITH_PRIMARY_KEY, or --api-key")
    with Environment(folder, create=False) as store:
        return machine_key_of(store)


def _resumed(settings: Settings, url: str) -> bool:
    """Resume a folder that has a store, if the primary's log reaches back to it; False where it needs a snapshot."""
    with Environment(Path(settings.data), bytes_max=settings.store_bytes_max, create=False) as store:
        closed = store_role.read_closed_note(store) or _replaced_by(store, url)
        key = machine_key_of(store)
    with (
        Environment(Path(settings.data), bytes_max=settings.store_bytes_max, create=False, follows=True) as store,
        Primary(url, key, name=name_of(store.folder)) as primary,
    ):
        try:
            StandbyFollower(settings, store, primary).step(0)
        except TokenTooOld as error:
            if closed.why == "fenced":
                raise Conflict(f"{error.message}; begin with an empty folder") from None
            _log.warning("the standby starts over from a snapshot", error=error.message)
            return False
        except Unavailable as error:
            if closed.why == "fenced":
                raise
            _log.warning("the primary does not answer; what is here is served", error=error.message)
        if closed != ClosedNote("standby", url):
            store_role.drop_promotion(store)  # one that was started against an earlier primary
            store_role.close_to_writes(store, ClosedNote("standby", url))
    return True


def _replaced_by(store: Environment, url: str) -> ClosedNote:
    """Fence a store that still takes writes, if the machine at `url` was promoted in its place without notifying it.

    Returns why the store is closed. Errors: Conflict where that machine was not promoted in its place; Unavailable
    where it does not answer.
    """
    reason = f"{url} was not made the primary in its place"
    try:
        peers.fenced_by(url, store, _QUERY_TIMEOUT_S)
    except Unavailable:
        raise
    except KithError as error:
        reason = error.message
    closed = store_role.read_closed_note(store)
    if closed is None:
        raise Conflict(
            f"{store.folder} holds a store that takes writes, and is no standby: {reason}; to give it up move it away, "
            "or name another folder"
        )
    return closed


def _install(settings: Settings, url: str, key: str) -> None:
    """Install a snapshot of the primary's store in the folder, closed as a standby's."""
    folder = Path(settings.data)
    building = folder / RESTORING
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir(parents=True)
    with Primary(url, key, name=name_of(folder)) as primary:
        primary.snapshot(building / STORE_FILE)
    with Environment(building, bytes_max=settings.store_bytes_max, create=False) as store:
        store.put_note(fanout_state.NAME_NOTE, b"0")  # timelines in this folder belong to another state
        store.put_note(f"group/{fanout.NAME}", None)  # so homes are read from outboxes until fan-out restarts
        for lease in store.notes(LEASE_PREFIX):
            store.put_note(LEASE_PREFIX + lease, None)  # the leases' holders follow the primary
        store.put_note(MEDIA_MISSING, b"1")
        store_role.close_to_writes(store, ClosedNote("standby", url))
        store.sync()  # the store file moves without its journal
    (building / STORE_FILE).replace(folder / STORE_FILE)
    (folder / JOURNAL_FILE).unlink(missing_ok=True)  # the journal of the previous store
    (folder / STORE_FILE).chmod(0o600)
    sync_folder(folder)
    shutil.rmtree(building)


def _check(settings: Settings) -> None:
    """Raise StoreMismatch where the settings differ from the primary's, as far as the store shows."""
    with Environment(Path(settings.data), bytes_max=settings.store_bytes_max, create=False) as store:
        missing = sorted({*BUILT_IN, *settings.graphs} - set(store.graph_numbers()))
        if missing:
            raise StoreMismatch(f"the primary has no graph {', '.join(missing)}; give both the same Kith and `graphs`")
        if not settings.jwt_secret and store.get_note("secret/jwt") is None:
            raise StoreMismatch("the primary signs by a `jwt_secret` of its settings; give the standby the same")


def served(settings: Settings) -> AbstractContextManager[None]:
    """Note in the data folder, while the context is open, the address at which its standby is served."""
    return publish_text(Path(settings.data) / _URL_FILE, address(settings.host, settings.port))


def address(host: str, port: int) -> str:
    """The URL at which other machines reach this server; with this machine's name, if it listens on all addresses."""
    hostname = socket.gethostname() if host in _ALL_ADDRESSES else host
    return f"http://[{hostname}]:{port}" if ":" in hostname else f"http://{hostname}:{port}"


def _served_at(folder: Path, old: str) -> str:
    """The URL at which the folder's standby is served, which the old primary will give to clients.

    Errors: BadRequest where it is not known, or reaches this machine only while the old primary is on another.
    """
    url = published_text(folder / _URL_FILE)
    if not url:
        raise BadRequest(
            f"no standby is being served from {folder}: say with --url where clients will reach it, for the old "
            "primary to tell them, such as http://10.0.0.2:7400"
        )
    if urlsplit(url).hostname in _THIS_MACHINE and urlsplit(old).hostname not in _THIS_MACHINE:
        raise BadRequest(f"{url} is reached from this machine only: say with --url where clients reach the standby")
    return url


class Promotion(NamedTuple):
    """Result of `promote`. `at`: address of the old primary; `old`: whether it was fenced, or did not answer (`why`).

    `last`: the last event of the old primary that this store has. `media_missing`: media files are still missing.
    """

    at: str
    old: Literal["fenced", "silent"]
    why: str
    last: int
    media_missing: bool


def promote(settings: Settings, url: str = "", *, force: bool = False) -> Promotion | None:
    """Make the standby in the data folder the primary, whether it is being served or not.

    Returns None if it is the primary already; then a noted rival is forgotten. `url`: the address that the old primary
    gives to clients; empty: where this standby is served now. `force`: promote even if another machine was promoted
    already. Errors: BadRequest where the address is not known; Conflict where another machine was promoted in place of
    the same primary.
    """
    with Environment(Path(settings.data), bytes_max=settings.store_bytes_max, create=False) as store:
        closed = store_role.read_closed_note(store)
        if closed is None:
            if store_role.rival(store):  # the operator chose this machine; a rival that still serves is noted again
                store_role.note_rival(store, "")
            return None
        key = machine_key_of(store)
    url = url or _served_at(Path(settings.data), closed.primary)
    with (
        Environment(Path(settings.data), bytes_max=settings.store_bytes_max, create=False, follows=True) as store,
        Primary(closed.primary, key, answer_timeout_s=_FENCE_TIMEOUT_S) as primary,
    ):
        epoch = store_role.begin_promotion(store)
        silent, fenced = "", False
        try:
            if not force:
                _refuse_second(settings, store, epoch)
            last, fenced = primary.fence(epoch, url), True
            StandbyFollower(settings, store, primary).catch_up(last)
        except (Conflict, Unauthorized) as error:
            if not force:
                if isinstance(error, Conflict) and not fenced:  # this epoch fenced nothing, and must never fence
                    store_role.drop_promotion(store)
                raise Conflict(
                    f"{error.message}; promote all the same with --force, if you know that it is gone"
                ) from None
            silent = error.message
        except (Unavailable, StoreMismatch) as error:
            silent = error.message
        missing = store.get_note(MEDIA_MISSING) is not None
        promoted = store_role.promote(store, SuccessorNotice(closed.primary, url) if silent else None)
        return Promotion(closed.primary, "silent" if silent else "fenced", silent, promoted.shared, missing)


def _refuse_second(settings: Settings, store: Environment, epoch: Epoch) -> None:
    """Raise Conflict if a peer was promoted already, or follows a machine that was; a silent peer is ignored."""
    for peer in settings.peers:
        with contextlib.suppress(Unavailable, Unauthorized, StoreMismatch):
            if store_role.is_forked(peers.epoch_at(peer, store), epoch):
                raise Conflict(
                    f"{peer} was made the primary already, or follows a machine that was; start this one as its standby"
                )
