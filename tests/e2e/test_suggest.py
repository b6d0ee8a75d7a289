"""`kith suggest` beside a server with two processes: its results are what the API serves."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from servers import COMMAND, serving

from kith.client import EdgeWrite, Kith

ALICE, BOB, CAROL, DANA, LONER = 1, 2, 3, 4, 99


def suggest(data: Path) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("KITH_")}
    return subprocess.run(
        [COMMAND, "suggest", "--data", str(data)], check=False, capture_output=True, text=True, timeout=60,
        env={**clean, "COLUMNS": "200"},
    )  # fmt: skip


def test_the_results_of_the_job_are_served_until_the_user_follows_somebody(tmp_path: Path) -> None:
    with serving(tmp_path, "--workers", "2") as server, Kith(server.url, server.key) as kith:
        follows = [(ALICE, BOB), (ALICE, CAROL), (BOB, DANA), (CAROL, DANA), (CAROL, 5), (BOB, ALICE)]
        kith.write_edges("follows", [EdgeWrite("add", one, other) for one, other in follows])
        assert list(kith.as_system().suggestions(LONER)) == []

        done = suggest(server.data)
        assert done.returncode == 0, done.stderr
        assert "suggestions of 3 users kept" in done.stdout
        assert "100%" in done.stderr

        with server.client(acting="system") as http:
            meta = [http.get(f"/api/v1/users/{ALICE}/suggestions").json()["meta"] for _ in range(10)]
        assert all(one == meta[0] for one in meta), "rankings computed per reader would have different times"
        assert [(one.id, one.mutual_count) for one in kith.as_system().suggestions(ALICE)] == [(DANA, 2), (5, 1)]
        assert [(one.id, one.mutual_count) for one in kith.as_system().suggestions(LONER, page_size=1)][:1] == [
            (DANA, 0)
        ]

        kith.as_user(ALICE).follow(DANA)
        assert [one.id for one in kith.as_system().suggestions(ALICE)] == [5]
        alice = kith.as_user(ALICE)
        assert alice.hide_suggestion(5).hidden
        assert list(alice.suggestions(ALICE)) == []
        assert not alice.unhide_suggestion(5).hidden
        assert [one.id for one in alice.suggestions(ALICE)] == [5]


def test_a_folder_without_data_is_refused(tmp_path: Path) -> None:
    done = suggest(tmp_path / "nothing")
    assert done.returncode == 1
    assert "holds no Kith data" in done.stderr
    assert not (tmp_path / "nothing").exists()
