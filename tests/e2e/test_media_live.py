"""A picture through real processes: uploaded, shown in a follower's home, there after a kill, swept when orphaned."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from calls import ok, upload
from cast import People
from pictures import decoded, mp4, photo
from servers import API, COMMAND, serving


def sweep(folder: Path, *options: str) -> str:
    """What `kith sweep` says."""
    command = [COMMAND, "sweep", "--data", str(folder / "data"), *options]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder).stdout


def test_a_picture_comes_home_and_is_there_after_a_kill(tmp_path: Path, people: People) -> None:
    with serving(tmp_path, "--workers", "2", KITH_DURABILITY="full") as server:
        with server.client(acting=people.bob) as bob:
            ok(bob.post(f"{API}/users/{people.alice}/follow"))
        with server.client(acting=people.alice) as alice:
            image, film = upload(alice, photo(), altText="a fox"), upload(alice, mp4())
            ok(alice.post(f"{API}/posts", json={"content": {"mediaIds": [image["id"], film["id"]]}}), 201)
        server.process.kill()
        server.process.wait()
    with serving(tmp_path, KITH_DURABILITY="full") as server:  # processes of the killed one may still be there
        with server.client(acting=people.bob) as bob:
            (post,) = ok(bob.get(f"{API}/feed"))["posts"]
        assert post["content"]["media"] == [image, film]
        shown = server.get(image["url"])
        assert decoded(shown.content).size == (120, 80)
        part = server.get(film["url"], headers={"Range": "bytes=4-7"})
        assert (part.status_code, part.content) == (206, b"ftyp")


def test_a_sweep_beside_a_server_removes_only_what_no_record_names(tmp_path: Path, people: People) -> None:
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
