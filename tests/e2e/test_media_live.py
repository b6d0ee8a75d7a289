"""A picture through real processes: uploaded, shown at home, still there after a kill, swept when orphaned."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from calls import ok, upload
from cast import People
from commands import kith_in, refused
from pictures import decoded, mp4, photo
from servers import API, COMMAND, serving

from kith.engines.embedded import store_role
from kith.engines.embedded.closed_note import ClosedNote
from kith.run.config import Settings
from kith.run.opening import folders

KEY = f"00/99-{'0' * 32}.jpg"


def sweep(folder: Path, *options: str) -> str:
    """The output of `kith sweep`."""
    command = [COMMAND, "sweep", "--data", str(folder / "data"), *options]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder).stdout


def test_a_picture_reaches_home_and_survives_a_kill(tmp_path: Path, people: People) -> None:
    with serving(tmp_path, "--workers", "2", KITH_DURABILITY="full") as server:
        with server.client(acting=people.bob) as bob:
            ok(bob.post(f"{API}/users/{people.alice}/follow"))
        with server.client(acting=people.alice) as alice:
            image, film = upload(alice, photo(), altText="a fox"), upload(alice, mp4())
            ok(alice.post(f"{API}/posts", json={"content": {"mediaIds": [image["id"], film["id"]]}}), 201)
        server.process.kill()
        server.process.wait()
    with serving(tmp_path, KITH_DURABILITY="full") as server:  # processes of the killed server may still run
        with server.client(acting=people.bob) as bob:
            (post,) = ok(bob.get(f"{API}/feed"))["posts"]
        assert post["content"]["media"] == [image, film]
        shown = server.get(image["url"])
        assert decoded(shown.content).size == (120, 80)
        part = server.get(film["url"], headers={"Range": "bytes=4-7"})
        assert (part.status_code, part.content) == (206, b"ftyp")


def test_a_sweep_beside_a_server_removes_only_files_that_no_record_names(tmp_path: Path, people: People) -> None:
    with serving(tmp_path) as server:
        with server.client(acting=people.alice) as alice:
            made = upload(alice, photo())
        folder = server.data / "media"
        for ending in (".jpg", ".mp4#1"):
            path = folder / "00" / f"99-{'0' * 32}{ending}"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(b"12345")
        for path in folder.rglob("*.*"):
            os.utime(path, (1, 1))
        assert sweep(tmp_path, "--dry-run").startswith("2 of 4 files would go")
        assert sweep(tmp_path).startswith("2 of 4 files removed")
        assert sweep(tmp_path).startswith("0 of 2 files removed")
        assert server.get(made["url"]).status_code == 200


@pytest.mark.parametrize("why", ["moved", "fenced", "standby"])
def test_a_sweep_on_a_store_closed_to_writes_is_refused(tmp_path: Path, why: Any) -> None:
    """It may share a bucket with its successor, and a daily job may still run after the store has moved."""
    settings = Settings(data=str(tmp_path / "data"))
    with folders.open_environment(settings) as store:
        store_role.close_to_writes(store, ClosedNote(why, "elsewhere", 5))
    path = folders.media_folder(settings) / KEY
    path.parent.mkdir(parents=True)
    path.write_bytes(b"12345")
    os.utime(path, (1, 1))
    assert "elsewhere" in refused(kith_in(tmp_path)("sweep", "--data", "data"))
    assert path.exists()
