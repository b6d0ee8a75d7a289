"""Checks whether this machine is still the primary, and the only one, by the epochs of the machines in `peers`.

A primary queries its peers before it serves, and in its commit queue after a pause: while it was away, another machine
may have been promoted that could not notify it. While it serves, it queries them for rivals: two standbys may have been
promoted in place of one primary that did not answer.
"""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from kith.core.errors import KithError
from kith.engines.embedded import store_role
from kith.engines.embedded.environment import Environment
from kith.run.config import Settings
from kith.standby.source import Epoch

_TIMEOUT_S = 1.0
_log = structlog.get_logger("kith.standby")


def ask(settings: Settings, environment: Environment) -> None:
    """Close this store to writes if a peer has a newer epoch. A silent peer is ignored, because it may be down."""
    for url in settings.peers:
        try:
            if environment.is_closed() or fenced_by(url, environment):
                return
        except KithError as error:
            _log.warning("a peer does not say whether it is the primary", peer=url, error=error.message)


def fenced_by(url: str, environment: Environment, answer_timeout_s: float = _TIMEOUT_S) -> bool:
    """Query a machine's epoch; if it was promoted in place of this one, close this store. Returns whether it was.

    Errors: those of `Primary`.
    """
    their_epoch = epoch_at(url, environment, answer_timeout_s)
    if not store_role.is_newer(their_epoch, store_role.epoch_of(environment)):
        return False
    store_role.fence(environment, their_epoch, url)
    _log.error("another machine was made the primary", primary=url)
    return True


def look_for_rival(environment: Environment, urls: Sequence[str]) -> None:
    """Check whether one of these, or the noted rival, is a primary too, and note it. A silent rival stays noted."""
    noted = store_role.rival(environment)
    for url in dict.fromkeys([noted, *urls] if noted else urls):
        try:
            is_rival = store_role.is_forked(epoch_at(url, environment), store_role.epoch_of(environment))
        except KithError:
            is_rival = url == noted
        if is_rival:
            if url != noted:
                store_role.note_rival(environment, url)
                _log.error("two machines are the primary", what=store_role.rival_message(url))
            return
    if noted:
        store_role.note_rival(environment, "")


def epoch_at(url: str, environment: Environment, answer_timeout_s: float = _TIMEOUT_S) -> Epoch:
    """The epoch of another machine of this store. Errors: those of `Primary`."""
    from kith.run.machines.primary import Primary, machine_key_of  # noqa: PLC0415 - a client of HTTP, which few processes need

    with Primary(url, machine_key_of(environment), answer_timeout_s=answer_timeout_s) as peer:
        return peer.epoch()
