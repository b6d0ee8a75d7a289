"""Set programs over HTTP: a page that has looked at its maximum of ids says so, and the next one continues there."""

from __future__ import annotations

from pathlib import Path

import pytest
from calls import ok
from coroutines import Run
from in_process import client_of
from servers import API, KEY

from kith.graph import programs
from kith.run.api import open_api
from kith.run.config import Settings


def test_a_page_with_few_results_among_many_candidates_is_marked_partial(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """40 users follow account 1, and all of them but the first two follow account 2."""
    for name, most in (("WHOLE_LIST_MAX", 5), ("CHECKED_IDS_MAX", 10), ("_FIRST_CHUNK", 4)):
        monkeypatch.setattr(programs, name, most)
    pairs = [(user, 1) for user in range(100, 140)] + [(user, 2) for user in range(102, 140)]
    edges = [{"op": "add", "source": str(source), "destination": str(to)} for source, to in pairs]
    lists = [{"graph": "follows", "node": node, "direction": "in"} for node in ("1", "2")]

    async def pages() -> tuple[list[str], int]:
        found, partial, cursor = list[str](), 0, None
        settings = Settings(data=str(tmp_path), api_keys=(KEY,), durability="relaxed")
        async with open_api(settings) as api, client_of(api.door, authorization=f"Bearer {KEY}") as http:
            ok(await http.post(f"{API}/graph/follows/edges", json={"edges": edges}))
            while True:
                asked = {"program": {"difference": lists}, "limit": 2, "cursor": cursor}
                page = ok(await http.post(f"{API}/graph/select", json=asked))
                found += [item["id"] for item in page["items"]]
                partial += page.get("partial", False)
                cursor = page["pagination"]["nextCursor"]
                assert page["pagination"]["hasMore"] is (cursor is not None)
                if cursor is None:
                    return found, partial

    found, partial = run(pages())
    assert found == ["101", "100"]
    assert partial == 1
