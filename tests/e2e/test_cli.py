"""Every command of `kith`, as a user runs it in an empty folder; and what each says when it is asked wrongly."""

from __future__ import annotations

import base64
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from running import API, serving

from kith.cli import main
from kith.config import Settings

KITH = [sys.executable, "-m", "kith"]
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("KITH_")}
_LIMIT_S = 120
Kith = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def kith(tmp_path: Path) -> Kith:
    """`kith("audit", "--data", "x", KITH_PORT="7")` in an empty folder, on a wide terminal."""

    def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {**CLEAN, "COLUMNS": "200", **variables}
        return subprocess.run(
            [*KITH, *arguments],
            check=False,
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
        )

    return run


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Kith:
    """The same without a process of its own, for what is asked many times; an error that is not ours is raised."""
    monkeypatch.chdir(tmp_path)
    for name in set(os.environ) - set(CLEAN):
        monkeypatch.delenv(name)

    def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        with monkeypatch.context() as patch:
            patch.setattr(sys, "argv", ["kith", *arguments])
            for name, value in variables.items():
                patch.setenv(name, value)
            capsys.readouterr()
            with pytest.raises(SystemExit) as ended:
                main()
        code = ended.value.code
        return subprocess.CompletedProcess(arguments, code if isinstance(code, int) else 0, *capsys.readouterr())

    return run


def done(run: subprocess.CompletedProcess[str]) -> str:
    """What a command that went well printed."""
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def refused(run: subprocess.CompletedProcess[str]) -> str:
    """The one line by which a command refuses; progress that was drawn before it is not counted."""
    assert run.returncode == 1, f"status {run.returncode}\n{run.stdout}{run.stderr}"
    assert "Traceback" not in run.stderr, run.stderr
    said = [line for line in run.stderr.splitlines() if line.strip() and not line.startswith(("reading", "writing"))]
    assert len(said) == 1, run.stderr
    assert said[0].startswith("kith: "), run.stderr
    assert len(said[0]) > len("kith: ") + 10
    return said[0]


def free_port() -> str:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


# As it should go


def test_help_names_every_command(kith: Kith, here: Kith) -> None:
    said = done(kith("--help"))
    commands = ("serve", "import", "export", "audit", "backup", "restore", "doctor", "token", "settings", "plan")
    for command in (*commands, "generate", "demo", "bench", "replay", "worker", "dead"):
        assert re.search(rf"\b{command}\b", said), command
        assert done(here(command, "--help"))


def test_settings_prints_every_setting_from_whichever_source_and_no_secret(kith: Kith, tmp_path: Path) -> None:
    (tmp_path / "kith.toml").write_text('port = 7401\nworkers = 3\ngraphs = ["matches"]\n')
    secret = "s" * 40
    said = done(
        kith("settings", "--data", "elsewhere", KITH_PORT="7402", KITH_API_KEYS="one,two", KITH_JWT_SECRET=secret)
    )
    rows = {cells[0]: cells[1] for line in said.splitlines() if len(cells := _cells(line)) == 4 and cells[0]}
    assert set(Settings.__struct_fields__) <= set(rows)
    assert (rows["port"], rows["workers"], rows["graphs"], rows["data"]) == ("7402", "3", "matches", "elsewhere")
    assert secret not in said
    assert "one" not in rows["api_keys"]
    assert rows["api_keys"] == rows["jwt_secret"] == "(set)"


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("│|").split("│")]


def test_settings_are_all_named_on_a_narrow_terminal_too(kith: Kith) -> None:
    said = done(kith("settings", COLUMNS="80"))
    assert not [name for name in Settings.__struct_fields__ if name not in said]


def test_token_signs_for_a_user_and_makes_keys_for_servers(kith: Kith) -> None:
    key, token = done(kith("token", "--server")).strip(), done(kith("token", "--user", "7")).strip()
    assert token.count(".") == 2
    claims = msgspec.json.decode(_padded(token.split(".")[1]))
    assert (claims["sub"], claims["iss"], claims["aud"]) == ("7", "kith-app", "kith")
    assert key.startswith("kith_")
    assert "1 known" in done(kith("doctor"))


def _padded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def test_a_graph_goes_from_generate_to_restore_whole(kith: Kith, here: Kith, tmp_path: Path) -> None:
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
    assert re.search(r"follows.*2,000.*100\.0+%", done(kith("audit", "--data", "back")))
    done(here("export", "edges", "again.ndjson", "--data", "back"))
    assert (tmp_path / "again.ndjson").read_bytes() == (tmp_path / "out.ndjson").read_bytes()
    done(here("token", "--server"))
    assert "imports: none unfinished" in done(kith("doctor"))


def test_refused_lines_are_told_with_the_place_of_the_report(kith: Kith, tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("1,2\n3,3\nx,1\n")
    said = done(kith("import", "edges", "edges.csv", "--mutual", "--report", "bad.tsv", "--graph", "mutes"))
    assert "2 edges of mutes written" in said
    assert "2 lines refused" in said
    assert "bad.tsv" in said
    assert (tmp_path / "bad.tsv").read_text() == "2\tself-edge\n3\tnot a number\n"


def test_audit_of_a_sample_and_with_repair_goes_through(here: Kith, tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("1,2\n3,4\n")
    done(here("import", "edges", "edges.csv"))
    for arguments in (("--sample", "0.5"), ("--repair",)):
        assert "follows" in done(here("audit", *arguments))


def test_plan_says_what_a_graph_needs(kith: Kith) -> None:
    said = done(kith("plan", "--users", "1000000", "--degree", "100", "--largest", "100000"))
    assert "one machine" in said
    assert "left out:" in said
    assert "left out:" in done(kith("plan"))


def test_plan_article_recomputes_the_article(kith: Kith) -> None:
    said = done(kith("plan", "--article"))
    assert "verdict" in said
    assert len(said.splitlines()) > 10


@pytest.fixture
def few(tmp_path: Path) -> Path:
    """30 people; each follows the 9 after them, and all follow 1."""
    rows = {(n, 1 + (n + k) % 30) for n in range(1, 31) for k in range(9)} | {(n, 1) for n in range(2, 31)}
    (tmp_path / "few.csv").write_text("".join(f"{n},{m}\n" for n, m in sorted(rows)))
    return tmp_path / "few.csv"


def answers(said: str) -> list[str]:
    """The answers of a demo, by question: the lines below it."""
    shown = re.findall(r"^ ?\d+\. .*ms\n((?:    .*\n)+)", said, re.MULTILINE)
    assert len(shown) == 10, said
    return shown


def test_demo_once_tells_the_whole_story_and_ends(kith: Kith, few: Path) -> None:
    said = done(kith("demo", "few.csv", "--once", "--port", free_port()))
    assert re.search(r"290 follows in kith-data/demo", said)
    check, both, newcomer, visible, home, why, comments, stories, suggested, gone = answers(said)
    assert "Yes; Dana Brook has 29 followers" in check
    assert re.search(r"^    \d+: \w+", both)
    assert re.search(r"is first in the list.* 0 posts before, 6 after", newcomer)
    assert re.search(r"home after [\d.]+ ms:\n    “", visible)
    assert len(re.findall(r"0\.\d\d (?:recent|popular|friend_interaction|content_type) ", home)) == 2
    score, *parts = map(float, re.findall(r"(?<![\d.])\d\.\d\d", why))
    assert sum(parts) == pytest.approx(score, abs=0.03)
    assert re.search(r"\d+ likes?: .*: “", comments)
    assert "Dana Brook" in stories
    assert re.search(r": followed by \d+ whom|Nobody else", suggested)
    before, after = map(float, re.findall(r"(0\.\d\d)", gone))
    assert after < before
    assert "gone from home" in gone
    assert re.search(r"had 7 posts, and has 0 at once", gone)


def test_what_a_demo_made_is_there_for_the_next_server_and_the_next_demo_adds_no_more(
    kith: Kith, few: Path, tmp_path: Path
) -> None:
    first = done(kith("demo", "few.csv", "--once", "--data", "data", "--port", free_port()))
    people, posts = map(int, re.findall(r"(\d+) people .* (\d+) posts \(", first)[0])
    assert people == 26, "the star, a reader, the 9 whom they follow, and 15 fans"
    again = done(kith("demo", "--once", "--data", "data", "--port", free_port()))
    assert "have posted already" in again
    assert len(answers(again)) == 10
    with serving(tmp_path) as server, server.client() as http:
        shown = [
            post
            for user in range(1, 31)
            for post in http.get(f"{API}/users/{user}/posts", params={"limit": 50}).json()["items"]
        ]
        assert len(shown) == posts + 2, "each demo publishes one before your eyes"
        assert all(post["author"]["displayName"] and post["author"]["username"] for post in shown)
        assert any(post["mentions"] and "@" in post["content"]["text"] for post in shown)
        pictures = [media["url"] for post in shown for media in post["content"]["media"]]
        assert http.get(pictures[0]).headers["content-type"] == "image/png"
        assert any(post["engagement"]["likeCount"] and post["engagement"]["commentCount"] for post in shown)


@pytest.mark.parametrize(
    ("number", "inherited"),
    [
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGTERM, signal.default_int_handler),
        (signal.SIGTERM, signal.SIG_IGN),  # a shell's background job ignores SIGINT, and so do its heirs
        (signal.SIGKILL, signal.default_int_handler),
    ],
)
def test_a_demo_lives_on_until_it_is_told_to_stop(few: Path, number: signal.Signals, inherited: Any) -> None:
    port = free_port()
    ours = signal.signal(signal.SIGINT, inherited)
    demo = subprocess.Popen(
        [*KITH, "demo", "few.csv", "--port", port],
        cwd=few.parent, env={**CLEAN, "COLUMNS": "200"}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    signal.signal(signal.SIGINT, ours)
    giving_up = threading.Timer(_LIMIT_S, os.killpg, (demo.pid, signal.SIGKILL))  # its server holds the pipes too
    giving_up.start()
    try:
        assert demo.stdout is not None
        told: set[str] = set()
        for line in demo.stdout:
            told |= set(re.findall(r"^\d\d:\d\d:\d\d  (new_post|engagement_update) ", line))
            if len(told) == 2:
                break
        demo.send_signal(number)
        rest, errors = demo.communicate()
    finally:
        giving_up.cancel()
        demo.kill()
        demo.wait()
    assert told == {"new_post", "engagement_update"}
    if number != signal.SIGKILL:
        assert (demo.returncode, errors) == (0, "")
        assert rest.endswith("stopping\n")
    with socket.socket() as probe:  # what was read to its end above says that all of its processes are gone
        assert probe.connect_ex(("127.0.0.1", int(port))) != 0, "the server is gone"


@pytest.mark.slow
def test_demo_makes_up_a_community_when_none_is_given(kith: Kith) -> None:
    said = done(kith("demo", "--once", "--port", free_port()))
    assert "500,000 follows" in said
    assert "Dana Brook has 20,000 followers" in answers(said)[0]


# As it should not


@pytest.fixture
def stores(here: Kith, tmp_path: Path) -> Path:
    """A store in kith-data, its backup in kept, a folder that holds something else, and some files."""
    (tmp_path / "edges.csv").write_text("1,2\n2,3\n")
    done(here("import", "edges", "edges.csv"))
    done(here("backup", "kept"))
    for name in ("notastore", "damaged", "folder.csv"):
        (tmp_path / name).mkdir()
    (tmp_path / "notastore" / "letter.txt").write_text("hello")
    (tmp_path / "damaged" / "store.mdb").write_text("hello " * 4000)
    (tmp_path / "file").write_text("hello")
    (tmp_path / "empty.csv").touch()
    (tmp_path / "cut.csv.gz").write_bytes(b"\x1f\x8b\x08\x00\x00\x00\x00\x00")
    (tmp_path / "bad.parquet").write_text("1,2\n")
    return tmp_path


REFUSED = [
    ("import edges none.csv", "no file"),
    ("import edges folder.csv", "no file"),
    ("import edges [/red].csv", r"\[/red\]\.csv"),
    ("import edges [bold]x.csv", r"\[bold\]x\.csv"),
    ("import edges file", "cannot tell what file is"),
    ("import edges cut.csv.gz", "cut off or damaged"),
    ("import edges cut.csv.gz --data new", "cut off or damaged"),
    ("import edges bad.parquet", "not a Parquet file"),
    ("import edges edges.csv --graph nobody", "nobody"),
    ("import edges edges.csv --graph nobody --data new", "nobody"),
    ("import edges edges.csv --data damaged", "damaged"),
    ("import edges edges.csv --data file", "file"),
    ("import edges edges.csv --report file/report.tsv", "file"),
    ("export edges out.csv --graph nobody", "nobody"),
    ("export edges out.xlsx", "cannot tell what out.xlsx is"),
    ("export edges none/out.csv", "none"),
    ("export edges folder.csv", r"folder\.csv"),
    ("export edges out.csv --data notastore", "holds no Kith data"),
    ("export edges out.csv --data none", "holds no Kith data"),
    ("audit --data none", "holds no Kith data"),
    ("audit --data notastore", "holds no Kith data"),
    ("audit --data damaged", "damaged"),
    ("backup kept", "already holds a backup"),
    ("backup kith-data", "already holds"),
    ("backup file", "file"),
    ("backup new --data none", "holds no Kith data"),
    ("restore kept", "already holds a store"),
    ("restore none --data new", "holds no backup"),
    ("restore notastore --data new", "holds no backup"),
    ("restore damaged --data new", "damaged"),
    ("restore kept --data file", "file"),
    ("token", "--user ID or --server"),
    ("token --user 7 --server", "--user ID or --server"),
    ("token --user alice", "--user"),
    ("token --user -1", "--user"),
    ("token --user 7 --data damaged", "damaged"),
    ("generate out.csv --users 2 --edges 1000", "edges"),
    ("generate out.xlsx --users 10 --edges 10", "cannot tell what out.xlsx is"),
    ("generate none/out.csv --users 10 --edges 10", "none"),
    ("generate out.csv --users 10 --edges 10 --celebrity dana", "NAME=FOLLOWERS"),
    ("plan --users 0", "users"),
    ("plan --degree -1", "degree"),
    ("demo none.csv --once --data new", "no file"),
    ("serve --data damaged", "damaged"),
    ("serve --data file", "file"),
    ("serve --port 99999", "port"),
]


@pytest.mark.parametrize(("line", "says"), REFUSED)
def test_bad_input_gets_one_line_and_status_1(here: Kith, stores: Path, line: str, says: str) -> None:
    before = sorted(path.name for path in stores.iterdir())
    assert re.search(says, refused(here(*line.split())))
    left = {path.name for path in stores.iterdir()} - set(before)
    assert left <= {"new"}, "a command that refuses leaves nothing behind"
    assert (stores / "file").read_text() == "hello"


@pytest.mark.parametrize(
    "line", ["import edges none.csv", "audit --data none", "restore kept", "backup kept", "token --user alice"]
)
def test_bad_input_gets_no_more_than_that_from_the_command_itself(kith: Kith, stores: Path, line: str) -> None:
    assert stores.exists()
    refused(kith(*line.split()))


def test_a_demo_that_cannot_go_on_says_where_and_why(kith: Kith, few: Path) -> None:
    once = ("demo", "few.csv", "--once", "--port")
    assert re.search(
        r"the demo stopped at \w+ /\S+: 429 RATE_LIMITED: ",
        refused(kith(*once, free_port(), KITH_RATE_SERVER_WRITE="1")),
    )
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert f"cannot listen on 127.0.0.1:{port}" in refused(kith(*once, port))


def test_a_demo_of_a_file_without_edges_says_so(kith: Kith, tmp_path: Path) -> None:
    (tmp_path / "empty.csv").touch()
    assert "edge" in refused(kith("demo", "empty.csv", "--once", "--port", free_port()))


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("KITH_PORT", "many"), ("KITH_PORT", "0"), ("KITH_WORKERS", "0"), ("KITH_DURABILITY", "some"),
        ("KITH_LOG_LEVEL", "loud"), ("KITH_JWT_SECRET", "short"), ("KITH_GRAPHS", "[1"), ("KITH_STORE_BYTES_MAX", "1"),
    ],
)  # fmt: skip
def test_a_variable_that_cannot_be_used_is_named(here: Kith, variable: str, value: str) -> None:
    said = refused(here("settings", **{variable: value}))
    assert variable.removeprefix("KITH_").lower() in said.lower()
    assert "KITH_" in said


def test_a_misspelled_variable_is_refused_and_anothers_is_let_be(here: Kith) -> None:
    assert "KITH_WORKERS" in refused(here("settings", KITH_WORKER="4"))
    done(here("settings", KITH_SERVICE_HOST="10.0.0.1", KITH_PORT_7400_TCP="tcp://10.0.0.1:7400", KITHX_PORTS="1"))


def test_a_settings_file_that_cannot_be_used_is_named(here: Kith, tmp_path: Path) -> None:
    for text in ("port = ", "prot = 7", "port = 'x'", "\x00"):
        (tmp_path / "kith.toml").write_text(text)
        assert "kith.toml" in refused(here("settings", KITH_PORT="7401"))
    (tmp_path / "kith.toml").write_bytes(b"data = '\xff'")
    refused(here("settings"))


def test_a_graph_of_your_own_must_have_a_proper_name(here: Kith) -> None:
    assert "graph name" in refused(here("token", "--server", KITH_GRAPHS="Not A Name"))


def test_doctor_says_what_is_wrong_with_a_folder(here: Kith, stores: Path) -> None:
    for folder, says in (("none", "holds no Kith data"), ("damaged", "damaged"), ("kith-data", "0 known")):
        run = here("doctor", "--data", folder)
        assert (run.returncode, run.stderr) == (1, "")
        assert says in run.stdout
    assert not (stores / "none").exists()


def test_a_token_of_a_folder_that_is_none_makes_no_folder(here: Kith, stores: Path) -> None:
    """It would be signed with a secret that no server has."""
    assert "holds no Kith data" in refused(here("token", "--user", "5", "--data", "mistyped"))
    assert not (stores / "mistyped").exists()


@pytest.mark.parametrize("what", ["show", "replay", "drop"])
def test_a_dead_event_that_is_none_is_named(here: Kith, stores: Path, what: str) -> None:
    assert "nope/1" in refused(here("dead", what, "nope/1", "--data", str(stores / "kith-data")))


def test_a_replay_against_no_address_says_so(here: Kith, tmp_path: Path) -> None:
    file = tmp_path / "activity.txt"
    file.write_text("1 2 100 MT\n")
    said = refused(here("replay", str(file), "--key", "x", "--url", "http://127.0.0.1:bad"))
    assert "no address" in said


def test_wrong_usage_is_status_2(here: Kith) -> None:
    for line in ("nothing", "import edges", "audit --sample 2", "token --hours 0 --server", "generate a.csv --users 1"):
        run = here(*line.split())
        assert run.returncode == 2
        assert "Traceback" not in run.stderr
