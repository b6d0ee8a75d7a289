"""Commands on Cassandra, Kafka and Redis, as users run them beside a server."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from calls import ok
from commands import done, free_port, kith_in, thirty_people
from servers import API, DEFAULT_SETTINGS, Server, keyspace_of, on_cluster, refused, serving

LIMIT_S = 300


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("commands")
    with serving(folder, **on_cluster(keyspace_of(folder))) as running:
        yield running


def test_an_import_beside_a_server_can_be_repeated_and_passes_the_audit(server: Server, tmp_path: Path) -> None:
    kith, settings = kith_in(tmp_path, LIMIT_S), on_cluster(keyspace_of(server.data.parent))
    file = str(thirty_people(tmp_path / "few.csv"))
    assert re.search(r"290 edges of follows written \(merge\)", done(kith("import", "edges", file, **settings)))
    assert re.search(r"\b0 edges of follows written", done(kith("import", "edges", file, **settings)))
    with server.client() as http:
        assert ok(http.get(f"{API}/graph/follows/1/in/count")) == {"count": 29}
        assert ok(http.get(f"{API}/graph/follows/30/1"))["exists"]
        listed = ok(http.get(f"{API}/graph/follows/1/in?limit=100"))["items"]
    assert sorted(int(item["id"]) for item in listed) == list(range(2, 31))
    audit = done(kith("audit", **settings))
    assert re.search(r"follows\W+290\W+100\.0+%\W+0\W+0\W+0\W+0\b", audit), audit
    done(kith("export", "edges", "all.csv", **settings))
    assert len((tmp_path / "all.csv").read_text().splitlines()) == 290


@pytest.mark.parametrize("ahead_s", [600, -600])
def test_a_machine_whose_clock_is_ten_minutes_off_does_not_serve(tmp_path: Path, ahead_s: int) -> None:
    """Its writes with a future version would win over all writes of others in these minutes."""
    path = os.pathsep.join([str(Path(__file__).parent / "broken"), os.environ.get("PYTHONPATH", "")])
    settings = on_cluster(keyspace_of(tmp_path))
    output = refused(tmp_path, PYTHONPATH=path, TEST_CLOCK_AHEAD_S=str(ahead_s), **settings)
    assert f"this machine's clock is {ahead_s:+} s off" in output


def test_the_demo_tells_its_story_on_a_cluster(tmp_path: Path) -> None:
    kith = kith_in(tmp_path, LIMIT_S)
    thirty_people(tmp_path / "few.csv")
    settings = on_cluster(keyspace_of(tmp_path)) | {"KITH_WORKERS": DEFAULT_SETTINGS["KITH_WORKERS"]}
    output = done(kith("demo", "few.csv", "--once", "--port", free_port(), **settings))
    assert "290 follows in keyspace t" in output
    assert len(re.findall(r"^ ?\d+\. .*ms$", output, re.MULTILINE)) == 12, output
    assert "Yes; Dana Brook has 29 followers" in output
    assert "gone from home" in output
    second_output = done(kith("demo", "--once", "--port", free_port(), **settings))
    assert "Using the community that is in keyspace t" in second_output
