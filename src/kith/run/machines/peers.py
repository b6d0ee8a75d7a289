"""Whether this machine is still the primary: what the other machines of the setting `peers` say of their epoch.

Asked before a primary serves, and by its commit queue after a pause: while it was away, another may have been promoted
and unable to tell it.
"""

from __future__ import annotations

import structlog

from kith.core.errors import KithError
from kith.engines.embedded import store_role
from kith.engines.embedded.environment import Environment
from kith.run.config import Settings

_ANSWERED_S = 1.0
_log = structlog.get_logger("kith.standby")


def ask(settings: Settings, environment: Environment) -> None:
    """Take no more writes if a peer has a newer epoch. One that does not answer says nothing: it may be down."""
    for url in settings.peers:
        try:
            if environment.is_closed() or _ask(url, environment):
                return
        except KithError as error:
            _log.warning("a peer does not say whether it is the primary", peer=url, error=error.message)


def _ask(url: str, environment: Environment) -> bool:
    """Ask one, and be fenced where it is the primary by now; whether it is."""
    from kith.run.machines.primary import Primary, machine_key_of  # noqa: PLC0415 - a client of HTTP, which few processes need

    with Primary(url, machine_key_of(environment), answered_s=_ANSWERED_S) as peer:
        theirs = peer.epoch()
    if not store_role.is_newer(theirs, store_role.epoch_of(environment)):
        return False
    store_role.fence(environment, theirs, url)
    _log.error("another machine was made the primary", primary=url)
    return True
