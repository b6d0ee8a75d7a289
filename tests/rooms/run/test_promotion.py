"""The address that a promotion tells the old primary: where clients reach the standby, or nothing is done."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest
from coroutines import Run

from kith.commands.doctor import examine
from kith.core.errors import BadRequest, Conflict
from kith.engines.embedded import segments, store_role
from kith.engines.embedded.closed import Closed
from kith.run.config import Settings
from kith.run.machines import standby
from kith.run.opening import folders, wiring
from kith.run.serving import supervisor
from kith.standby.source import Epoch

OLD = "http://127.0.0.1:9"  # where nobody answers


def standby_of(settings: Settings, primary: str) -> Settings:
    """The folder, as the standby of that one."""
    supervisor.prepare(settings)
    with folders.open_environment(settings) as store:
        store.secret("signing")
        store_role.close_to_writes(store, Closed("standby", primary))
    return settings


def told(settings: Settings) -> str:
    """What the old primary is to be told."""
    with folders.open_environment(settings) as store:
        to_tell = store_role.to_tell(store)
    assert to_tell is not None
    return to_tell.new


@pytest.mark.parametrize("host", ["127.0.0.1", "10.0.0.2", "::1", "db.example"])
def test_it_is_the_one_on_which_the_standby_is_served(settings: Settings, host: str) -> None:
    with standby.served(msgspec.structs.replace(standby_of(settings, OLD), host=host, port=7411)):
        assert standby.promote(settings) is not None
    assert told(settings) == (f"http://[{host}]:7411" if ":" in host else f"http://{host}:7411")


def test_where_none_is_served_it_is_asked_for(settings: Settings) -> None:
    standby_of(settings, OLD)
    with standby.served(settings):
        pass
    with pytest.raises(BadRequest, match=r"no standby is being served.*--url"):
        standby.promote(settings)
    assert standby.promote(settings, "http://new.example") is not None
    assert told(settings) == "http://new.example"
    assert standby.promote(settings) is None


def test_one_that_was_killed_is_not_taken_for_served(settings: Settings) -> None:
    standby_of(settings, OLD)
    killed = subprocess.run([sys.executable, "-c", _KILLED, settings.data], check=False)
    assert killed.returncode == -signal.SIGKILL
    with pytest.raises(BadRequest, match=r"no standby is being served.*--url"):
        standby.promote(settings)
    with standby.served(settings):
        assert standby.promote(settings) is not None


_KILLED = """
import os, signal, sys
from kith.run.config import Settings
from kith.run.machines import standby
with standby.served(Settings(data=sys.argv[1])):
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_one_that_other_machines_cannot_reach_is_not_told_to_another_machine(settings: Settings) -> None:
    standby_of(settings, "http://10.0.0.1:7400")
    with standby.served(settings), pytest.raises(BadRequest, match="from this machine only: say with --url"):
        standby.promote(settings)
    assert not (Path(settings.data) / "standby.url").exists()


def test_a_standby_of_the_new_primary_is_told_again_what_it_knows(settings: Settings) -> None:
    """As where it became that before it was told as the old primary."""
    with folders.open_environment(standby_of(settings, OLD)) as store:
        epoch = store_role.epoch_of(store)
        assert store_role.fence(store, epoch, OLD) == segments.last_event(store)
        with pytest.raises(Conflict, match="not newer"):
            store_role.fence(store, epoch, "http://other.example")
        assert store_role.why_closed(store) == Closed("standby", OLD)


async def told_of(settings: Settings) -> Mapping[str, float]:
    """What /metrics says of a folder."""
    async with wiring.open_stores(settings, "api") as stores:
        return await stores.metrics.gauges()


def test_of_two_that_were_promoted_neither_fences_the_other_and_both_say_so(
    run: Run, settings: Settings, tmp_path: Path
) -> None:
    other = msgspec.structs.replace(settings, data=str(tmp_path / "other"))
    for each in (settings, other):
        assert standby.promote(standby_of(each, OLD), f"http://{Path(each.data).name}.example") is not None
    with folders.open_environment(other) as store:
        theirs = store_role.epoch_of(store)
    with folders.open_environment(settings) as store:
        with pytest.raises(Conflict, match="not newer"):
            store_role.fence(store, Epoch([]), OLD)
        assert store_role.rival(store) == ""
        with pytest.raises(Conflict, match="not newer"):
            store_role.fence(store, theirs, "http://other.example")
        assert (store_role.rival(store), store_role.why_closed(store)) == ("http://other.example", None)
    assert [run(told_of(each))["rival_primary"] for each in (settings, other)] == [True, False]
    (finding,) = [one for one in examine(settings) if one.what == "role"]
    assert (finding.ok, "http://other.example was made the primary, too" in finding.detail) == (False, True)
    assert standby.promote(settings) is None, "it is chosen, and the other gone"
    assert [one.ok for one in examine(settings) if one.what == "role"] == [True]
