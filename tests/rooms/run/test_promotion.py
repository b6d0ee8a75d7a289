"""The address that a promotion sends to the old primary: where clients reach the standby, or else nothing is done."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from coroutines import Run

from kith.commands.doctor import examine
from kith.core.errors import BadRequest, Conflict
from kith.engines.embedded import segments, store_role
from kith.engines.embedded.closed_note import ClosedNote
from kith.run.config import Settings
from kith.run.machines import standby
from kith.run.opening import folders, wiring
from kith.run.serving import supervisor
from kith.standby.source import Epoch

OLD = "http://127.0.0.1:9"  # where nobody answers


def standby_of(settings: Settings, primary: str) -> Settings:
    """Make the folder a standby of `primary`."""
    supervisor.prepare(settings)
    with folders.open_environment(settings) as store:
        store.secret("signing")
        store_role.close_to_writes(store, ClosedNote("standby", primary))
    return settings


def told(settings: Settings) -> str:
    """The address that the old primary is to be sent."""
    with folders.open_environment(settings) as store:
        pending_notice = store_role.pending_notice(store)
    assert pending_notice is not None
    return pending_notice.new


@pytest.mark.parametrize("host", ["127.0.0.1", "10.0.0.2", "::1", "db.example"])
def test_it_is_the_address_on_which_the_standby_is_served(settings: Settings, host: str) -> None:
    with standby.served(msgspec.structs.replace(standby_of(settings, OLD), host=host, port=7411)):
        assert standby.promote(settings) is not None
    assert told(settings) == (f"http://[{host}]:7411" if ":" in host else f"http://{host}:7411")


def test_without_a_served_standby_the_address_is_required(settings: Settings) -> None:
    standby_of(settings, OLD)
    with standby.served(settings):
        pass
    with pytest.raises(BadRequest, match=r"no standby is being served.*--url"):
        standby.promote(settings)
    assert standby.promote(settings, "http://new.example") is not None
    assert told(settings) == "http://new.example"
    assert standby.promote(settings) is None


def test_a_killed_standby_does_not_count_as_served(settings: Settings) -> None:
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


def test_an_address_that_other_machines_cannot_reach_is_not_sent_to_one(settings: Settings) -> None:
    standby_of(settings, "http://10.0.0.1:7400")
    with standby.served(settings), pytest.raises(BadRequest, match="from this machine only: say with --url"):
        standby.promote(settings)
    assert not (Path(settings.data) / "standby.url").exists()


def test_a_standby_of_the_new_primary_accepts_a_fence_that_it_knows(settings: Settings) -> None:
    """As where the old primary became a standby before the fence reached it."""
    with folders.open_environment(standby_of(settings, OLD)) as store:
        epoch = store_role.epoch_of(store)
        assert store_role.fence(store, epoch, OLD) == segments.last_event(store)
        with pytest.raises(Conflict, match="not newer"):
            store_role.fence(store, epoch, "http://other.example")
        assert store_role.read_closed_note(store) == ClosedNote("standby", OLD)


async def told_of(settings: Settings) -> Mapping[str, float]:
    """The gauges of /metrics for a folder."""
    async with wiring.open_stores(settings, "api") as stores:
        return await stores.metrics.gauges()


def test_of_two_promoted_standbys_neither_fences_the_other_and_the_rival_is_reported(
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
        assert (store_role.rival(store), store_role.read_closed_note(store)) == ("http://other.example", None)
    assert [run(told_of(each))["rival_primary"] for each in (settings, other)] == [True, False]
    (finding,) = [one for one in examine(settings) if one.what == "role"]
    assert (finding.ok, "http://other.example was made the primary, too" in finding.detail) == (False, True)
    assert standby.promote(settings) is None, "this one is chosen, and the other is gone"
    assert [one.ok for one in examine(settings) if one.what == "role"] == [True]


@pytest.mark.parametrize(
    ("why", "ok", "says"),
    [
        ("standby", True, "this is a standby"),
        ("fenced", False, "make it a standby: `kith standby --of http://new.example`"),
        ("moved", False, "this store was moved to http://new.example"),
    ],
)
def test_doctor_reports_a_folder_that_takes_no_writes_and_is_no_standby(
    settings: Settings, why: Any, ok: bool, says: str
) -> None:
    supervisor.prepare(settings)
    with folders.open_environment(settings) as store:
        store_role.close_to_writes(store, ClosedNote(why, "http://new.example"))
    (finding,) = [one for one in examine(settings) if one.what == "role"]
    assert (finding.ok, says in finding.detail) == (ok, True)
