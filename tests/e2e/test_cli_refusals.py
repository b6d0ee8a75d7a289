"""Errors of each command of `kith` for wrong input: one line that says what to do, and an exit status."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from commands import Kith, done, refused
from servers import serving

from kith.engines.embedded.environment import Environment


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
    (tmp_path / "refused.csv").write_text("5,5\n-1,2\n")
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
    ("import edges refused.csv", r"all 2 lines were refused; .*refused\.csv\.refused\.tsv"),
    ("import edges refused.csv --data new", "all 2 lines were refused"),
    ("import edges edges.csv --graph nobody", "nobody"),
    ("import edges edges.csv --graph likes", "POST /posts/{id}/like"),
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
    ("backup kith-data", "lies in the data folder"),
    ("backup file", "file"),
    ("backup /proc/x", r"/proc/x cannot be used \(No such file or directory\)"),
    ("backup gs://bucket", "name a folder, or s3://bucket/prefix"),
    ("backup new --data none", "holds no Kith data"),
    ("restore kept", "already holds a store"),
    ("restore none --data new", "holds no backup"),
    ("restore notastore --data new", "holds no backup"),
    ("restore damaged --data new", "damaged"),
    ("restore kept --data file", "file"),
    ("restore kept --data new --at yesterday", "neither a time, such as .* nor a token"),
    (
        "restore kept --data new --at 2001-01-01",
        r"no whole backup there is as old as that; the oldest moment there is 20\d\d-.*T.*\+00:00;",
    ),
    ("restore damaged --data new --at 2001-01-01", "one moment only"),
    ("restore none --drill", "holds no backup"),
    ("worker backup", "backup_to"),
    ("worker nobody", "no worker .nobody.; there are apply, checks, fanout, "),
    ("standby --data new --api-key x --of primary:7400", "primary:7400 is no address"),
    ("standby --data new --api-key x --of http://[::1", r"http://\[::1 is no address"),
    ("standby --data new --api-key x --of http://a..b:7400", "http://a..b:7400 is no address"),
    ("standby --data new --api-key né --of http://127.0.0.1:1", "does not answer .*Connection refused"),
    ("move kith-data", "name the cluster"),
    ("move kith-data --back", "name the cluster"),
    ("audit --against kith-data", "name the cluster"),
    ("rebuild new", "name the folder of the log with --from"),
    ("rebuild new --as-is", "new holds no Kith data"),
    ("rebuild kith-data --as-is", "no rebuild of kith-data was cut short"),
    ("rebuild new --from none", "none holds no Kith data"),
    ("rebuild new --from file", "file holds no Kith data"),
    ("rebuild file --from kith-data", "file"),
    ("rebuild kith-data --from kith-data", "the folder of that log; name another"),
    ("rebuild new --from kith-data", "a bulk import.*restore a backup"),
    ("token", "--user ID, --server, or --revoke KEY"),
    ("token --user 7 --server", "--user ID, --server, or --revoke KEY"),
    ("token --user alice", "--user"),
    ("token --user -1", "--user"),
    ("token --user 7 --data damaged", "damaged"),
    ("generate out.csv --users 2 --edges 1000", "edges"),
    ("generate out.xlsx --users 10 --edges 10", "cannot tell what out.xlsx is"),
    ("generate none/out.csv --users 10 --edges 10", "none"),
    ("generate out.csv --users 10 --edges 10 --celebrity dana", "NAME=FOLLOWERS"),
    ("generate out.csv --users 10 --edges 10 --celebrity dana=5²", "NAME=FOLLOWERS"),
    ("plan --users 0", "users"),
    ("plan --degree -1", "degree"),
    ("plan notifications --mentions nan", "rates are"),
    ("plan notifications --opens inf", "rates are"),
    ("demo none.csv --once --data new", "no file"),
    ("serve --data damaged", "damaged"),
    ("serve --data file", "file"),
    ("serve --port 99999", "port"),
    ("serve --host a..b", "set `host` to an address of this machine"),
    ("serve --host é..x", "no name of a host.*; set `host` to an address of this machine"),
    ("serve --host ff02::1", "set `host` to an address of this machine"),
    ("serve --host nowhere.invalid", "set `host` to an address of this machine"),
    ("serve --host 203.0.113.9", "set `host` to an address of this machine"),
]


@pytest.mark.parametrize(("line", "says"), REFUSED)
def test_bad_input_gets_one_line_and_status_1(here: Kith, stores: Path, line: str, says: str) -> None:
    before = sorted(path.name for path in stores.iterdir())
    assert re.search(says, refused(here(*line.split())))
    left = {path.name for path in stores.iterdir()} - set(before)
    assert left <= {"new"}, "a command that refuses leaves nothing behind"
    assert (stores / "file").read_text() == "hello"


@pytest.mark.parametrize("line", ["backup", "backup --increment", "restore --data new", "restore --drill"])
def test_an_empty_place_of_a_backup_is_not_the_working_folder(here: Kith, stores: Path, line: str) -> None:
    """As with `kith backup "$PLACE"`, where the variable is not set."""
    before = {path.name for path in stores.iterdir()}
    assert "the place of the backup is empty: name a folder" in refused(here(*line.split(), ""))
    assert {path.name for path in stores.iterdir()} == before


def test_a_rebuild_from_a_backup_of_an_older_kith_is_refused_and_changes_nothing(here: Kith, stores: Path) -> None:
    with Environment(stores / "older") as older:
        older.put_note("format", b"2")
    before = {path.name: path.read_bytes() for path in (stores / "older").iterdir() if path.is_file()}
    assert re.search("older Kith.*edges only.*kith restore", refused(here("rebuild", "new", "--from", "older")))
    assert {path.name: path.read_bytes() for path in (stores / "older").iterdir() if path.is_file()} == before
    assert not (stores / "new").exists()


def test_after_a_refused_rebuild_a_backup_can_be_restored_as_the_error_advises(here: Kith, stores: Path) -> None:
    assert "restore a backup" in refused(here("rebuild", "new", "--from", "kith-data"))
    done(here("restore", "kept", "--data", "new"))
    assert "0 events done" in done(here("rebuild", "new", "--from", "kith-data"))


def test_suggest_on_a_cluster_looks_for_the_cluster_and_not_for_a_data_folder(here: Kith) -> None:
    nowhere = dict.fromkeys(("KITH_CASSANDRA", "KITH_KAFKA", "KITH_REDIS"), "127.0.0.1:1")
    assert "could not connect to Cassandra" in refused(here("suggest", KITH_ENGINE="cluster", **nowhere))


@pytest.mark.parametrize(
    "line", ["import edges none.csv", "audit --data none", "restore kept", "backup kith-data", "token --user alice"]
)
def test_bad_input_prints_one_line_in_a_real_process_too(kith: Kith, stores: Path, line: str) -> None:
    assert stores.exists()
    refused(kith(*line.split()))


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("KITH_PORT", "many"), ("KITH_PORT", "0"), ("KITH_WORKERS", "65"), ("KITH_DURABILITY", "some"),
        ("KITH_LOG_LEVEL", "loud"), ("KITH_JWT_SECRET", "short"), ("KITH_GRAPHS", "[1"), ("KITH_STORE_BYTES_MAX", "1"),
        ("KITH_STORE_BYTES_MAX", "99999999999999999999"), ("KITH_STORE_BYTES_MAX", str(1 << 47)),
        ("KITH_MEDIA_URL", "ftp://x"), ("KITH_BACKUP_TO", "s3://"),
        ("KITH_JWT_ALGORITHMS", "[]"), ("KITH_JWT_ALGORITHMS", "RS256"),
    ],
)  # fmt: skip
def test_the_error_for_an_unusable_variable_names_it(here: Kith, variable: str, value: str) -> None:
    said = refused(here("settings", **{variable: value}))
    assert variable.removeprefix("KITH_").lower() in said.lower()
    assert "KITH_" in said


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('durability = "fast"', "durability, of kith.toml, may be full or relaxed, not 'fast'"),
        ('graphs = "reads"', 'graphs = ["...", "..."]'),
        ("web_app = true", "may be on or off"),
        ('jwt_algorithms = ["none"]', "jwt_algorithms, of kith.toml, holds HS256, HS384, HS512, not ['none']"),
        ("[server]\nport = 7401", "no sections"),
        ("port = 99999", "port, of kith.toml, cannot be 99999"),
        ('data = ""', "name a folder"),
        ('data = "~/kith"', "data, of kith.toml, begins with ~, which only a shell replaces; write the whole path"),
        ('backup_to = "~kith/kept"', "backup_to, of kith.toml, begins with ~"),
        ('cors_origins = ["app.example"]', "https://app.example"),
        ('peers = ["10.0.0.2:7400"]', "http://10.0.0.2:7400"),
        ('peers = ["http://kith:hunter2@10.0.0.2:7400"]', "peers, of kith.toml, cannot be"),
        ('graphs = ["Likes"]', "graphs, of kith.toml, cannot be ['Likes']. It is: Graphs of your own"),
        ('media_base_url = "cdn.example/media"', "media_base_url, of kith.toml, cannot be 'cdn.example/media'"),
        ('outbound_networks = ["10.0.0.1/8"]', "outbound_networks, of kith.toml: not a network"),
    ],
)
def test_the_error_for_an_unusable_setting_says_what_it_may_be(
    here: Kith, tmp_path: Path, line: str, says: str
) -> None:
    (tmp_path / "kith.toml").write_text(line)
    assert says in refused(here("settings"))


def test_the_error_for_an_unusable_secret_does_not_show_it(here: Kith, tmp_path: Path) -> None:
    (tmp_path / "kith.toml").write_text('api_keys = "kith_nobody-may-read-this"')
    assert "nobody-may-read" not in refused(here("settings"))
    (tmp_path / "kith.toml").write_text("jwt_secret = 8675309867530986753098675309867530")
    assert "8675309" not in refused(here("settings"))


def test_the_error_for_an_address_with_a_password_does_not_show_it(here: Kith) -> None:
    said = refused(here("settings", KITH_PEERS="https://kith:hunter2@10.0.0.2:7400"))
    assert "//...@10.0.0.2:7400" in said
    assert "hunter2" not in said


def test_a_misspelled_variable_is_refused_and_one_of_another_program_is_ignored(here: Kith) -> None:
    assert "KITH_WORKERS is" in refused(here("settings", KITH_WORKER="4"))
    assert "KITH_PORT is" in refused(here("settings", KITH_PROT="1"))
    assert "KITH_XYZZY is no setting; `kith settings`" in refused(here("settings", KITH_XYZZY="1"))
    clusters = {
        "KITH_SERVICE_HOST": "10.0.0.1",
        "KITH_PORT_7400_TCP": "tcp://10.0.0.1:7400",
        "KITH_API_SERVICE_PORT": "1",
    }
    done(here("settings", **clusters, KITHX_PORTS="1", KITH_REPLAY_KEY="x"))


def test_a_server_key_that_can_be_guessed_is_refused_with_how_to_make_one(here: Kith, tmp_path: Path) -> None:
    for said in (
        refused(here("settings", KITH_API_KEYS="kith_long-enough-for-a-key,a")),
        refused(here("serve", "--api-key", "short")),
    ):
        assert "kith token --server" in said
    (tmp_path / "kith.toml").write_text('api_keys = ["a"]')
    assert "kith.toml" in refused(here("settings"))


@pytest.mark.parametrize("key", ["kith_long-enough for-a-key", "kith_long-enough-fôr-a-key"])
def test_a_server_key_that_no_client_can_send_is_refused(here: Kith, key: str) -> None:
    said = refused(here("settings", KITH_API_KEYS=key))
    assert "printable ASCII" in said
    assert key not in said


def test_names_in_a_variable_may_be_separated_by_spaces(here: Kith) -> None:
    keys = "kith_the-first-of-them, kith_the-second-of-them"
    said = done(here("settings", KITH_GRAPHS="reads, writes ,", KITH_API_KEYS=keys))
    assert "graphs = reads, writes\n" in said


def test_a_settings_file_may_begin_with_a_byte_order_mark(here: Kith, tmp_path: Path) -> None:
    """As some editors write it."""
    (tmp_path / "kith.toml").write_bytes(b'\xef\xbb\xbfhost = "::1"')
    assert "host = ::1" in done(here("settings"))


def test_the_error_for_an_unusable_settings_file_names_it(here: Kith, tmp_path: Path) -> None:
    for text in ("port = ", "prot = 7", "port = 'x'", "\x00"):
        (tmp_path / "kith.toml").write_text(text)
        assert "kith.toml" in refused(here("settings", KITH_PORT="7401"))
    (tmp_path / "kith.toml").write_text("prot = 7")
    assert "port is" in refused(here("settings"))
    (tmp_path / "kith.toml").write_bytes(b"data = '\xff'")
    refused(here("settings"))


def test_doctor_says_what_is_wrong_with_a_folder(here: Kith, stores: Path) -> None:
    for folder, says in (("none", "holds no Kith data"), ("damaged", "damaged"), ("kith-data", "0 known")):
        run = here("doctor", "--data", folder)
        assert (run.returncode, run.stderr) == (1, "")
        assert says in run.stdout
    assert not (stores / "none").exists()


def test_doctor_on_a_cluster_says_where_to_look(here: Kith) -> None:
    assert "/readyz" in refused(here("doctor", KITH_ENGINE="cluster"))


def test_a_token_for_a_missing_folder_is_refused_and_makes_no_folder(here: Kith, stores: Path) -> None:
    """The token would be signed with a secret that no server has."""
    assert "holds no Kith data" in refused(here("token", "--user", "5", "--data", "mistyped"))
    assert not (stores / "mistyped").exists()


@pytest.mark.parametrize("what", ["show", "replay", "drop"])
def test_the_error_for_an_unknown_dead_event_names_it(here: Kith, stores: Path, what: str) -> None:
    assert "nope/1" in refused(here("dead", what, "nope/1", "--data", str(stores / "kith-data")))
    assert done(here("dead", "list", "--data", str(stores / "kith-data"))).strip() == "no event is dead"


def test_a_replay_to_a_bad_address_is_refused(here: Kith, tmp_path: Path) -> None:
    file = tmp_path / "activity.txt"
    file.write_text("1 2 100 MT\n")
    said = refused(here("replay", str(file), "--key", "x", "--url", "http://127.0.0.1:bad"))
    assert "no address" in said


def test_a_replay_with_an_unknown_key_is_refused(here: Kith, tmp_path: Path) -> None:
    (tmp_path / "activity.txt").write_text("1 2 100 MT\n")
    with serving(tmp_path / "data") as server:
        for key in ("nobody's", "né"):
            said = refused(here("replay", "activity.txt", "--key", key, "--url", server.url))
            assert "does not know this key" in said


def test_wrong_usage_is_status_2(here: Kith) -> None:
    for line in (
        "nothing", "import edges", "audit --sample 2", "token --hours 0 --server", "generate a.csv --users 1",
        "worker fanout --probe-port 65536",
    ):  # fmt: skip
        run = here(*line.split())
        assert run.returncode == 2
        assert "Traceback" not in run.stderr


def test_the_error_for_a_mistyped_command_or_option_suggests_the_right_one(here: Kith) -> None:
    assert "audit" in here("audot").stderr
    assert "--port" in here("serve", "--prot", "7").stderr
