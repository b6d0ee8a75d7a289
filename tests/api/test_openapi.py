"""The OpenAPI document is true: requests made by schemathesis get no 5xx, and answers that fit their schema."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from servers import KEY, Server, serving

HEADERS = {"Authorization": f"Bearer {KEY}", "X-Kith-User": "1"}


def failing(server: Server, examples: int) -> dict[str, str]:
    """The violations found, by operation."""
    import requests  # noqa: PLC0415 - they take a second, of every process that collects tests
    import schemathesis  # noqa: PLC0415
    from schemathesis import checks  # noqa: PLC0415

    hold_to = [
        checks.not_a_server_error,
        checks.status_code_conformance,
        checks.content_type_conformance,
        checks.response_schema_conformance,
    ]
    wrong: dict[str, str] = {}
    session = requests.Session()  # one connection, like a client
    session.trust_env = False
    document = schemathesis.openapi.from_url(server.url + "/openapi.json")
    for result in document.exclude(path_regex="/(feed/stream|watch)$").get_all_operations():  # these answers never end
        operation = result.ok()

        @given(case=operation.as_strategy())
        @settings(max_examples=examples, suppress_health_check=list(HealthCheck))
        def hold(case: Any) -> None:
            case.call_and_validate(session=session, headers=HEADERS, checks=hold_to)

        try:
            hold()
        except (Exception, BaseExceptionGroup) as error:
            wrong[operation.label] = "\n".join(map(str, getattr(error, "exceptions", [error])))
    session.close()
    return wrong


@pytest.mark.slow
def test_no_request_gets_a_5xx_and_each_answer_is_documented(tmp_path: Path) -> None:
    with serving(tmp_path) as server:  # its own server, because random requests may hide any account
        wrong = failing(server, 20)
    assert not wrong, "\n\n".join(f"=== {label}\n{text[:1_500]}" for label, text in wrong.items())


def test_every_operation_has_a_summary_and_documents_its_refusals(server: Server) -> None:
    document = server.get("/openapi.json").json()
    for path, item in document["paths"].items():
        for method, operation in item.items():
            assert operation.get("summary"), f"{method} {path}"
            if path.startswith("/api/v1"):
                assert {"400", "401", "403", "429"} <= set(operation["responses"]), f"{method} {path}"


def test_the_503_of_writes_says_that_the_write_may_have_been_made(server: Server) -> None:
    """A write continues after the deadline of its request."""
    said = server.get("/openapi.json").json()["paths"]["/api/v1/posts"]["post"]["responses"]["503"]["description"]
    assert "may have been made" in said
    assert "Idempotency-Key" in said


def test_bodies_are_documented(server: Server) -> None:
    document = server.get("/openapi.json").json()
    for path in ("/graph/{graph}/edges", "/graph/{graph}/check", "/graph/select", "/relationships"):
        content = document["paths"]["/api/v1" + path]["post"]["requestBody"]["content"]
        assert "application/json" in content


def test_ids_are_documented_as_strings_or_numbers(server: Server) -> None:
    document = server.get("/openapi.json").json()
    targets = document["components"]["schemas"]["RelationshipsRequest"]["properties"]["targets"]["items"]
    text = str(targets)
    assert "string" in text, "the contract says that ids may be sent as strings"
