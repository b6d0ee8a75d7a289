"""The console: its files, who may call its routes, and what they answer."""

from __future__ import annotations

import json
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from calls import add_edges, code, ok, upload
from cast import ALICE, BOB, CAROL, People
from coroutines import Run
from edges import edge_of, writes_of
from http_world import until
from in_process import client_of
from pictures import photo
from servers import API, KEY, ON_CLUSTER, Server, eventually, serving, sign

from kith.api.operations import Spec
from kith.api.resources.console import ConsoleResource
from kith.api.resources.post_spread import SpreadResource
from kith.api.resources.stored import StoredResource
from kith.log.store import Failure
from kith.run import api as api_of_process
from kith.run.audit_process import Report
from kith.run.config import Settings
from kith.run.consumers import CONSUMERS
from kith.run.services import Services
from kith.run.serving import processes
from kith.web.site import CONSOLE, PageFile, Site

_SITE = Site(CONSOLE, {})
FILES: dict[str, PageFile] = {name: found for name in _SITE.names if (found := _SITE.find(name))}
OPERATIONS: list[Spec] = [
    method.__spec__
    for resource in (ConsoleResource, StoredResource, SpreadResource)
    for method in vars(resource).values()
    if hasattr(method, "__spec__")
]
PUBLIC = {"/console", "/console/{file}"}


# The page


@pytest.mark.parametrize("name", FILES)
def test_each_file_of_the_console_is_sent_with_strict_headers_and_a_tag(server: Server, name: str) -> None:
    answer = server.get(f"/console/{name}")
    assert answer.status_code == 200
    assert answer.content == FILES[name].body
    policy = answer.headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "http" not in policy
    again = server.get(f"/console/{name}", headers={"If-None-Match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_the_page_is_at_console_and_runs_nothing_inline_and_nothing_from_elsewhere(server: Server) -> None:
    page = server.get("/console").text
    assert page == FILES["index.html"].body.decode()
    named = re.findall(r'(?:src|href)="([^"]*)"', page)
    assert set(named) <= {f"/console/{name}" for name in FILES}
    assert not re.search(r"<script>|<style|\son\w+=|style=", page)
    for file in FILES.values():
        assert not re.search(
            rb"innerHTML|insertAdjacentHTML|eval\(|localStorage|https?://(?!www.w3.org/2000/svg)", file.body
        )


@pytest.mark.parametrize("path", ["/console/nothing.js", "/console/..%2ffiles.py", "/console/__init__.py"])
def test_no_other_file_is_sent(server: Server, path: str) -> None:
    assert code(server.get(path), 404) == "NOT_FOUND"


# Permissions


@pytest.mark.parametrize("spec", OPERATIONS, ids=lambda spec: f"{spec.method} {spec.path}")
def test_routes_of_the_console_answer_server_keys_only(server: Server, people: People, spec: Spec) -> None:
    assert spec.absolute
    assert spec.path.startswith("/console")
    assert not spec.documented
    if spec.path in PUBLIC:
        assert spec.callers == "anyone"
        return
    with server.client(acting=people.alice) as alice:
        post = ok(alice.post(f"{API}/posts", json={"content": {"text": "hello"}}), 201)["id"]
    path = spec.path.format(
        object_id=1, post_id=post, graph="follows", source=1, destination=2, group="fanout", mark="00"
    )
    for credential, acting, expected in (
        ("", None, 401),
        (KEY[:-1] + "x", None, 401),
        (sign(people.alice), None, 403),
        (sign(people.alice), people.alice, 403),
    ):
        with server.client(credential, acting) as http:
            assert http.request(spec.method, path).status_code == expected
    if spec.method == "GET":
        for acting in (None, people.alice, "system"):
            with server.client(acting=acting) as http:
                ok(http.get(path))


# Numbers


def test_numbers_hold_curves_operations_and_processes(server: Server, http: httpx.Client) -> None:
    assert eventually(lambda: ok(http.get("/console/numbers"))["times"], 60)
    http.get(f"{API}/users/1")
    told = ok(http.get("/console/numbers"))
    assert told["times"] == sorted(told["times"])
    assert all(at % told["everyMs"] == 0 for at in told["times"])
    of_folder = () if ON_CLUSTER else ("store_bytes", "disk_free_bytes", "commit_queue_depth")
    for name in (*of_folder, "streams", "watchers", "timelines"):
        assert len(told["series"][name]) == len(told["times"])
        assert told["series"][name][-1] >= 0
    called = {row["name"]: row for row in told["operations"]}
    assert called["get_user"]["count"] >= 1
    assert 0 < called["get_user"]["p50Ms"] <= called["get_user"]["p99Ms"]

    def running() -> set[str]:
        told = ok(http.get("/console/numbers"))["processes"]
        return {name for one in told if one["running"] for name in one["kind"].split("+")}

    assert eventually(lambda: running() == {"api", *(["apply"] if ON_CLUSTER else []), *CONSUMERS})
    assert ok(http.get("/console/numbers", params={"since": told["times"][-1]}))["times"] in (
        [],
        [told["times"][-1] + 10_000],
    )


@pytest.mark.parametrize("query", ["since=-1", "since=x", "nothing=1"])
def test_a_bad_request_for_numbers_is_refused(http: httpx.Client, query: str) -> None:
    assert code(http.get(f"/console/numbers?{query}"), 400) == "INVALID_REQUEST"


def test_settings_name_their_source_and_reveal_no_secret(server: Server, http: httpx.Client) -> None:
    body = http.get("/console/settings")
    assert KEY not in body.text
    told = {row["name"]: row for row in ok(body)["items"]}
    assert told["port"]["source"] == "the flags"
    assert told["port"]["value"] == str(server.port)
    assert told["durability"]["source"] == "the KITH_* variables"
    assert told["api_keys"]["value"] == "(set)"
    assert told["story_hours"]["source"] == "default"


# As stored


def test_an_id_is_shown_as_stored_with_its_lists(http: httpx.Client, acting: Any, people: People) -> None:
    alice = people.alice
    ok(http.put(f"{API}/users/{alice}", json={"displayName": "Alice", "private": True}))
    add_edges(http, "follows", (alice, people.bob), (people.carol, alice))
    post = ok(acting(alice).post(f"{API}/posts", json={"content": {"text": "hello"}}), 201)["id"]
    assert acting(alice).delete(f"{API}/posts/{post}").status_code == 204
    user = ok(http.get(f"/console/stored/{alice}"))
    assert (user["state"], user["private"]) == ("normal", True)
    assert [(one["kind"], one["data"]["display_name"]) for one in user["records"]] == [("user", "Alice")]
    assert {"graph": "follows", "direction": "out", "state": "normal", "count": 1} in user["lists"]
    assert {"graph": "authored", "direction": "out", "state": "removed", "count": 1} in user["lists"]
    (record,) = ok(http.get(f"/console/stored/{post}"))["records"]
    assert (record["kind"], record["data"]["id"], record["data"]["deleted"]) == ("post", post, True)
    nothing = ok(http.get("/console/stored/123456789"))
    assert (nothing["records"], nothing["lists"]) == ([], [])


def test_a_post_is_followed_to_timelines_and_its_mention_to_followers(
    http: httpx.Client, acting: Any, people: People
) -> None:
    alice, bob, carol = people.alice, people.bob, people.carol
    add_edges(http, "follows", (bob, alice), (carol, bob))
    ok(acting(carol).put(f"{API}/preferences", json={"mentions": "followed"}))
    asked = {"content": {"text": "you should see this"}, "mentions": [str(bob)]}
    post = ok(acting(alice).post(f"{API}/posts", json=asked), 201)["id"]
    assert code(http.get("/console/spread/123456789"), 404) == "NOT_FOUND"

    def arrived() -> Any:
        told = ok(http.get(f"/console/spread/{post}"))
        states = [*(one["state"] for one in told["mentions"][0]["tiers"]), *(one["state"] for one in told["consumers"])]
        return told if told["delivery"] == "ended" and states == ["ended", *3 * ["reached"]] else None

    told = eventually(arrived, 60)
    assert (told["author"], told["followers"], told["deleted"]) == (str(alice), 1, False)
    assert {one["name"] for one in told["consumers"]} == {"fanout", "notifications", "mentions"}
    (mention,) = told["mentions"]
    (tier,) = mention["tiers"]
    assert (mention["account"], tier["tier"], tier["told"]) == (str(bob), "all", 1)


def test_the_secret_in_the_address_of_a_picture_is_not_shown(http: httpx.Client, acting: Any, people: People) -> None:
    picture = upload(acting(people.alice), photo())["id"]
    (record,) = ok(http.get(f"/console/stored/{picture}"))["records"]
    assert (record["kind"], record["data"]["secret"]) == ("media", "(hidden)")


def test_an_edge_is_shown_with_both_of_its_ends(http: httpx.Client, people: People) -> None:
    add_edges(http, "follows", (people.alice, people.bob))
    told = ok(http.get(f"/console/stored/follows/{people.alice}/{people.bob}"))
    assert (told["edge"]["state"], told["edge"]["inOutList"], told["edge"]["inInList"]) == ("normal", True, True)
    assert told["opposite"] is None
    assert code(http.get(f"/console/stored/nothing/{people.alice}/{people.bob}"), 404) == "GRAPH_NOT_FOUND"


def test_jobs_are_listed(http: httpx.Client, people: People) -> None:
    job = ok(http.post(f"{API}/users/{people.alice}/deactivate"), 202)["job"]["id"]

    def done() -> bool:
        return any(one["id"] == job and one["done"] for one in ok(http.get("/console/jobs"))["items"])

    assert eventually(done)


# The log, and audits, in one process


@asynccontextmanager
async def process(folder: Path) -> AsyncIterator[tuple[httpx.AsyncClient, Services, Settings]]:
    """An API process without a worker, so that dead events stay as a test wrote them."""
    settings = Settings(data=str(folder), api_keys=(KEY,), durability="relaxed")
    kept: list[Services] = []
    over = api_of_process.api_over

    def noted(settings: Settings, services: Services, *rest: Any) -> Any:
        kept.append(services)
        return over(settings, services, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(api_of_process, "api_over", noted)
        async with (
            api_of_process.open_api(settings) as api,
            client_of(api.door, authorization=f"Bearer {KEY}") as http,
        ):
            yield http, kept[0], settings


async def add_dead_events(services: Services, *destinations: int) -> None:
    """Write an edge from Alice to each of these, and note its event as one that fan-out gave up on."""
    log = services.stores.log
    start = await log.end()
    await services.stores.store.apply(writes_of(*(edge_of(ALICE, one) for one in destinations)))
    events = (await log.read(start, 100)).events
    failures = {
        event.log_position: Failure("fanout", event, 8, "ValueError: <b>no</b>", 1_700_000_000_000, 0, dead=True)
        for event in events
    }
    await log.save("fanout", await log.end(), failures)


def test_dead_events_are_listed_replayed_and_dropped_one_by_one(run: Run, tmp_path: Path) -> None:
    async def play() -> None:
        async with process(tmp_path) as (http, services, _):
            await add_dead_events(services, BOB, CAROL)
            await services.stores.log.lease("standby", await services.stores.log.end())
            told = (await http.get("/console/log")).json()
            assert [group["name"] for group in told["groups"]] == list(CONSUMERS)
            group = told["groups"][0]
            assert (group["name"], group["dead"], group["failing"], group["lagEvents"]) == ("fanout", 2, 0, 0)
            assert [lease["name"] for lease in told["leases"]] == ["standby"]
            first, second = sorted(told["dead"], key=lambda one: int(one["event"]["destination"]))
            assert (first["error"], first["event"]["source"], first["event"]["graph"]) == (
                "ValueError: <b>no</b>", ALICE, "follows",
            )  # fmt: skip
            assert (await http.post(f"/console/dead/fanout/{first['mark']}/replay")).status_code == 204
            assert (await http.delete(f"/console/dead/fanout/{second['mark']}")).status_code == 204
            (kept,) = await services.stores.log.failures("fanout")
            assert (kept.event.destination, kept.dead, kept.tries) == (BOB, False, 0)
            for mark in (first["mark"], second["mark"], "zz"):
                assert (await http.post(f"/console/dead/fanout/{mark}/replay")).status_code == 404
            assert (await http.delete(f"/console/dead/nobody/{first['mark']}")).status_code == 404

    run(play())


def test_an_audit_is_refused_while_one_runs(run: Run, tmp_path: Path) -> None:
    async def play() -> None:
        async with process(tmp_path) as (http, _, _):
            assert (await http.get("/console/audit")).json()["state"] == "none"
            report = Report(tmp_path / "audit.json")
            report.progress(5)
            report.progress(3)  # a smaller number, as when the next graph begins
            assert (await http.get("/console/audit")).json()["state"] == "running"
            refused = await http.post("/console/audit")
            assert (refused.status_code, refused.json()["error"]["code"]) == (409, "CONFLICT")

    run(play())


def test_a_killed_audit_is_reported_as_failed_although_its_pid_is_reused(run: Run, tmp_path: Path) -> None:
    async def play() -> None:
        async with process(tmp_path) as (http, _, _):
            (tmp_path / "audit.json").write_text(f'{{"state":"running","pid":{os.getpid()},"began":1}}')
            assert (await http.get("/console/audit")).json()["state"] == "failed"
            assert (await http.post("/console/audit")).status_code == 202

    run(play())


def test_a_killed_audit_reports_the_status_of_its_process(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "command_line", lambda *_: ["sh", "-c", "kill -9 $$"])

    async def play() -> None:
        async with process(tmp_path) as (http, _, _):
            assert (await http.post("/console/audit")).status_code == 202
            file = tmp_path / "audit.json"
            await until(lambda: json.loads(file.read_bytes())["ended"])
            told = (await http.get("/console/audit")).json()
            assert (told["state"], told["error"]) == ("failed", "its process ended with status -9")

    run(play())


def test_an_audit_runs_beside_the_service_and_reports_its_result(tmp_path: Path) -> None:
    with serving(tmp_path) as server, server.client() as http:
        add_edges(http, "follows", (1, 2), (1, 3))
        assert ok(http.post("/console/audit"), 202)["state"] == "running"
        told = eventually(lambda: _ended(http), 30)
        assert (told["state"], told["edges"]) == ("done", 2), told
        assert {one["graph"]: one["edges"] for one in told["graphs"]}["follows"] == 2
        assert not any(one["disagreeing"] for one in told["graphs"])


def _ended(http: httpx.Client) -> Any:
    told = ok(http.get("/console/audit"))
    return told if told["state"] != "running" else None
