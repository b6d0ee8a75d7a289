"""A machine that was promoted while the old primary did not answer tells the old one as soon as it answers."""

from __future__ import annotations

import asyncio

import structlog

from kith.core.errors import Conflict, Unauthorized, Unavailable
from kith.engines.embedded import store_role
from kith.engines.embedded.environment import Environment
from kith.engines.embedded.store_role import ToTell
from kith.leases.holding import Leases

_ANSWERED_S, _EVERY_S = 2.0, 1.0
_log = structlog.get_logger("kith.standby")


async def keep_telling(store: Environment, leases: Leases) -> None:
    """Tell the old primary that it was replaced, until it has heard it. One process of a folder does this."""
    to_tell = store_role.to_tell(store)
    while to_tell is not None:
        async with leases.hold("tell-the-old-primary") as held:
            if held is not None and await asyncio.to_thread(_tell, store, to_tell):
                return
        await asyncio.sleep(_EVERY_S)
        to_tell = store_role.to_tell(store)


def _tell(store: Environment, to_tell: ToTell) -> bool:
    """Tell it once; whether that is over."""
    from kith.run.machines.primary import Primary, machine_key_of  # noqa: PLC0415 - a client of HTTP, which few processes need

    with Primary(to_tell.old, machine_key_of(store), answered_s=_ANSWERED_S) as old:
        try:
            last = old.fence(store_role.epoch_of(store), to_tell.new)
        except Unavailable:
            return False
        except (Conflict, Unauthorized) as error:  # it is another store, or knows better
            _log.error("the old primary does not take our word", error=error.message)
        else:
            _log.info("the old primary takes no more writes", last=last)
    store_role.note_told(store)
    return True
