"""`kith replay` plays a file against a real server, and its posts and comments are there."""

from __future__ import annotations

import subprocess
from pathlib import Path

from calls import ok
from cast import People
from servers import API, COMMAND, serving


def test_a_file_of_activity_is_played_and_timed(tmp_path: Path, people: People) -> None:
    alice, bob, carol = people.alice, people.bob, people.carol
    file = tmp_path / "activity.txt"
    file.write_text(f"# who whom when what\n{alice} {bob} 100 MT\n{carol} {bob} 101 RT\n{carol} {bob} 101 RE\n")
    with serving(tmp_path / "data") as server:
        with server.client(acting=carol) as http:
            ok(http.post(f"{API}/users/{alice}/follow"))
        command = [COMMAND, "replay", str(file), "--url", f"{server.url}/", "--key", server.key, "--watch", "1"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "3 actions" in done.stdout + done.stderr
        assert "visible in a follower" in done.stdout + done.stderr
        with server.client(acting=carol) as http:
            (mention,) = ok(http.get(f"{API}/users/{alice}/posts"))["items"]
            (shared,) = ok(http.get(f"{API}/users/{bob}/posts"))["items"]
        assert mention["mentions"] == [str(bob)]
        assert (shared["engagement"]["shareCount"], shared["engagement"]["commentCount"]) == (1, 1)


def test_the_error_for_an_unreachable_server_says_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "activity.txt"
    file.write_text("1 2 100 MT\n")
    command = [COMMAND, "replay", str(file), "--url", "http://127.0.0.1:9", "--key", "k"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "kith serve" in done.stderr
