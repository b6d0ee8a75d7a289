"""Fences an old primary that did not answer when this machine was promoted, as soon as it answers again.

The old primary may answer that another machine fenced it before. Then there are two primaries: this one notes the other
as its rival and notifies it, so both report the conflict (`/readyz`, `kith doctor`). The primary also looks for rivals
among its peers.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import structlog

from kith.core.errors import Conflict, KithError, Unauthorized, Unavailable
from kith.engines.embedded import store_role
from kith.engines.embedded.environment import Environment
from kith.engines.embedded.store_role import SuccessorNotice
from kith.leases.holding import Leases
from kith.run.machines import peers

_TIMEOUT_S, _EVERY_S = 2.0, 1.0
_RIVAL_SEARCH_S = 10.0
"""Seconds between two searches for rivals."""
_log = structlog.get_logger("kith.standby")


async def keep_fencing(store: Environment, leases: Leases, peer_urls: Sequence[str]) -> None:
    """Notify the old primary that it was replaced, until it has answered; and look for rivals.

    A lease ensures that only one process of a folder does this.
    """
    looked_s = -_RIVAL_SEARCH_S
    while True:
        looks = time.monotonic() - looked_s >= _RIVAL_SEARCH_S and bool(peer_urls or store_role.rival(store))
        if looks or store_role.pending_notice(store) is not None:
            try:
                async with leases.hold("tell-the-old-primary") as lease:
                    if lease is not None:
                        await asyncio.to_thread(_fence_and_look_for_rival, store, peer_urls if looks else None)
            except KithError as error:
                _log.warning("other machines are notified later", error=error.message)
            looked_s = time.monotonic() if looks else looked_s
        await asyncio.sleep(_EVERY_S)


def _fence_and_look_for_rival(store: Environment, peer_urls: Sequence[str] | None) -> None:
    """Notify the old primary, where that is pending; with addresses of peers, look for a rival."""
    _notify_old_primary(store)
    if peer_urls is not None:
        peers.look_for_rival(store, peer_urls)


def _notify_old_primary(store: Environment) -> None:
    """Try once to notify the old primary, where that is pending."""
    pending_notice = store_role.pending_notice(store)
    if pending_notice is None:
        return
    try:
        last = _fence(store, pending_notice.old, pending_notice)
    except Unavailable:
        return
    except (Conflict, Unauthorized) as error:  # it is another store, or was fenced by another machine
        rival = error.details.get("primary", "")
        if rival and not _notify_rival(store, rival, pending_notice):
            return
        _log.error("the old primary refuses to be fenced", error=error.message)
    else:
        _log.info("the old primary takes no more writes", last=last)
    store_role.clear_notice(store)


def _notify_rival(store: Environment, url: str, pending_notice: SuccessorNotice) -> bool:
    """Note a rival, and notify it of this machine; whether it answered."""
    if url != store_role.rival(store):
        store_role.note_rival(store, url)
        _log.error("two machines are the primary", what=store_role.rival_message(url))
    try:
        _fence(store, url, pending_notice)
    except Unavailable:
        return False
    except KithError:  # it refuses to be fenced, but has noted this machine as its rival
        pass
    return True


def _fence(store: Environment, url: str, pending_notice: SuccessorNotice) -> int:
    from kith.run.machines.primary import Primary, machine_key_of  # noqa: PLC0415 - a client of HTTP, which few processes need

    with Primary(url, machine_key_of(store), answer_timeout_s=_TIMEOUT_S) as old_primary:
        return old_primary.fence(store_role.epoch_of(store), pending_notice.new)
