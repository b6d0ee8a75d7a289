"""Every command of `kith`, as a user runs it in an empty folder."""

from __future__ import annotations

import base64
import re
import subprocess
from pathlib import Path

import msgspec
import pytest
from commands import CLEAN, KITH, Kith, done, refused

from kith import __version__
from kith.graph.graphs import BUILT_IN
from kith.run.config import Settings


def test_help_names_every_command(kith: Kith, here: Kith) -> None:
    said = done(kith("--help"))
    commands = ("serve", "import", "export", "audit", "backup", "restore", "doctor", "token", "settings", "plan")
    for command in (*commands, "generate", "demo", "bench", "replay", "worker", "dead"):
        assert re.search(rf"\b{command}\b", said), command
        assert done(here(command, "--help"))


@pytest.mark.parametrize(
    ("command", "of_others"),
    [
        ("serve", {"httpx", "kith.commands.worker", "kith.commands.transfer"}),
        ("worker", {"httpx", "jwt", "PIL", "kith.api", "kith.commands.serve"}),
        ("bench", {"numpy", "lmdb", "httptools"}),
    ],
)
def test_a_command_starts_without_the_imports_of_others(command: str, of_others: set[str]) -> None:
    environment = {**CLEAN, "PYTHONPROFILEIMPORTTIME": "1"}
    run = subprocess.run([*KITH, command, "--help"], env=environment, capture_output=True, text=True, check=True)
    imported = {line.split("|")[-1].strip() for line in run.stderr.splitlines() if line.startswith("import time:")}
    assert "kith.commands.cli" in imported
    assert not imported & of_others


def test_settings_prints_every_setting_from_whichever_source_and_no_secret(kith: Kith, tmp_path: Path) -> None:
    (tmp_path / "kith.toml").write_text('port = 7401\nworkers = 3\ngraphs = ["matches"]\n')
    secret = "s" * 40
    said = done(
        kith(
            "settings",
            "--data",
            "elsewhere",
            KITH_PORT="7402",
            KITH_API_KEYS=f"{'one' * 8},{'two' * 8}",
            KITH_JWT_SECRET=secret,
        )
    )
    rows = {cells[0]: cells[1] for line in said.splitlines() if len(cells := _cells(line)) == 4 and cells[0]}
    assert set(Settings.__struct_fields__) <= set(rows)
    assert (rows["port"], rows["workers"], rows["graphs"], rows["data"]) == ("7402", "3", "matches", "elsewhere")
    assert secret not in said
    assert "one" not in rows["api_keys"]
    assert rows["api_keys"] == rows["jwt_secret"] == "(set)"


@pytest.mark.parametrize("columns", ["80", "200"])
def test_settings_shows_brackets_as_they_are(kith: Kith, columns: str) -> None:
    for name in ("a[red]b", "a[/red]b"):
        assert name in done(kith("settings", COLUMNS=columns, KITH_JWT_ISSUER=name))


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("│|").split("│")]


def test_every_setting_is_named_on_a_narrow_terminal(kith: Kith) -> None:
    said = done(kith("settings", COLUMNS="80", KITH_PORT="7401"))
    assert not [name for name in Settings.__struct_fields__ if f"{name} = " not in said]
    assert "port = 7401  (default 7400)\n    Port to listen on.\n" in said


def test_token_signs_for_a_user_and_makes_keys_for_servers(kith: Kith) -> None:
    key, token = done(kith("token", "--server")).strip(), done(kith("token", "--user", "7")).strip()
    assert token.count(".") == 2
    claims = msgspec.json.decode(_padded(token.split(".")[1]))
    assert (claims["sub"], claims["iss"], claims["aud"]) == ("7", "kith-app", "kith")
    assert key.startswith("kith_")
    assert "1 known" in done(kith("doctor"))


def test_server_keys_are_revoked_one_by_one_or_all_at_once(here: Kith) -> None:
    first, *_ = [done(here("token", "--server")).strip() for _ in range(3)]
    assert "1 server key revoked" in done(here("token", "--revoke", first))
    assert "2 known" in done(here("doctor"))
    assert "no such server key" in refused(here("token", "--revoke", first))
    assert "remove it there" in refused(here("token", "--revoke", first, KITH_API_KEYS=first))
    assert "2 server keys revoked" in done(here("token", "--revoke", "all"))
    assert "0 server keys revoked" in done(here("token", "--revoke", "all"))


def _padded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def test_a_graph_survives_generate_import_export_backup_and_restore(kith: Kith, here: Kith, tmp_path: Path) -> None:
    assert "2,000 edges in made.csv.gz" in done(
        kith("generate", "made.csv.gz", "--users", "300", "--edges", "2000", "--celebrity", "dana=200")
    )
    assert "2,000 edges of follows written (bulk)" in done(kith("import", "edges", "made.csv.gz"))
    assert "0 edges of follows written (merge)" in done(here("import", "edges", "made.csv.gz"))
    assert "2,000 edges of follows in out.ndjson" in done(kith("export", "edges", "out.ndjson"))
    assert len((tmp_path / "out.ndjson").read_text().splitlines()) == 2000
    assert "2,000" in done(kith("audit"))
    assert "kith restore kept --data" in done(kith("backup", "kept"))
    assert "restored into back" in done(kith("restore", "kept", "--data", "back"))
    assert "the backup in kept is good" in done(kith("restore", "kept", "--drill"))
    assert re.search(
        r"ends at 20\d\d-.*not here", done(here("restore", "kept", "--data", "later", "--at", "2999-01-01"))
    )
    assert re.search(r"follows.*2,000.*100\.0+%", done(kith("audit", "--data", "back")))
    done(here("export", "edges", "again.ndjson", "--data", "back"))
    assert (tmp_path / "again.ndjson").read_bytes() == (tmp_path / "out.ndjson").read_bytes()
    done(here("token", "--server"))
    assert "imports: none unfinished" in done(kith("doctor"))


def test_refused_lines_are_counted_and_the_path_of_the_report_is_shown(kith: Kith, tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("1,2\n3,3\nx,1\n")
    said = done(kith("import", "edges", "edges.csv", "--mutual", "--report", "bad.tsv", "--graph", "mutes"))
    assert "2 edges of mutes written" in said
    assert "2 lines refused" in said
    assert "bad.tsv" in said
    assert (tmp_path / "bad.tsv").read_text() == "2\tself-edge\n3\tnot a number\n"


def test_audit_runs_on_a_sample_and_with_repair(here: Kith, tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("1,2\n3,4\n")
    done(here("import", "edges", "edges.csv"))
    for arguments in (("--sample", "0.5"), ("--repair",)):
        assert "follows" in done(here("audit", *arguments))
        assert "suppressed" in done(here("audit", "notifications", *arguments))


@pytest.mark.parametrize("columns", ["80", "200"])
def test_audit_truncates_no_name_on_any_terminal(here: Kith, tmp_path: Path, columns: str) -> None:
    (tmp_path / "edges.csv").write_text("1,2\n3,4\n")
    done(here("import", "edges", "edges.csv"))
    said = done(here("audit", COLUMNS=columns))
    for name in (*BUILT_IN, "disagreeing", "wrong counts"):
        assert name in said
    assert "…" not in said
    assert re.search(r"follows\W.*2.*100\.0+%", said)
    assert "home timelines" in done(here("audit", "caches", COLUMNS=columns))


def test_plan_prices_mentions_by_push_pull_and_hybrid(kith: Kith) -> None:
    said = done(kith("plan", "notifications", "--followers", "1000000"))
    assert re.search(r"rows of a mention.*1 M.*1 .*50 K", said)
    assert "2.49 EB" in done(kith("plan", "notifications", "--article"))


def test_plan_says_what_a_graph_needs(kith: Kith) -> None:
    said = done(kith("plan", "--users", "1000000", "--degree", "100", "--largest", "100000"))
    assert "one machine" in said
    assert "left out:" in said
    assert "left out:" in done(kith("plan"))


@pytest.mark.parametrize("users", [1, 100, 1_000_000])
def test_a_plan_for_fewer_users_needs_no_other_number(here: Kith, users: int) -> None:
    assert "left out:" in done(here("plan", "--users", str(users)))


def test_plan_article_recomputes_the_article(kith: Kith) -> None:
    said = done(kith("plan", "--article"))
    assert "verdict" in said
    assert len(said.splitlines()) > 10


def test_version_is_that_of_the_package(kith: Kith) -> None:
    assert done(kith("--version")).split() == ["kith", __version__]
