"""The page at /docs shows what the OpenAPI document says."""

from __future__ import annotations

from kith.api import docs, openapi
from kith.core import errors

NEVER_EXPECTED = (errors.KithError, errors.StoreMismatch, errors.MethodNotAllowed)
"""Errors that no right request to an operation gets: 500, a folder that cannot be opened, 405."""


def test_a_description_is_shown_in_paragraphs_and_lists_with_its_code() -> None:
    events = "- `new_post`: a <post>\n  that is new\n- `reset`"
    description = f"The feed as `events`.\nSent at once:\n\n{events}\n\nLimit: one."
    operation = {"tags": ["home"], "summary": "Stream", "description": description, "responses": {}}
    page = docs.render({"info": {"title": "T", "version": "1"}, "paths": {"/feed/stream": {"get": operation}}})
    assert "<p>The feed as <code>events</code>.\nSent at once:</p>" in page
    assert "<ul><li><code>new_post</code>: a &lt;post&gt;\n  that is new</li><li><code>reset</code></li></ul>" in page
    assert "<p>Limit: one.</p>" in page


def test_each_code_of_an_error_is_listed_with_its_status() -> None:
    page = docs.render({"info": {"title": "T", "version": "1"}, "paths": {}})
    assert "<td><code>403</code></td><td>The caller is known, but may not do this.<br>FORBIDDEN</td>" in page
    described = openapi.document([])["components"]["schemas"]["ErrorPart"]["properties"]["code"]["description"]
    assert "; 403: FORBIDDEN; 404: NOT_FOUND, " in described
    for kind in vars(errors).values():
        if isinstance(kind, type) and issubclass(kind, errors.KithError) and kind not in NEVER_EXPECTED:
            assert kind.code in page
            assert kind.code in described


def test_an_operation_without_a_description_has_no_empty_paragraph() -> None:
    operation = {"tags": ["home"], "summary": "Stream", "description": "", "responses": {}}
    page = docs.render({"info": {"title": "T", "version": "1"}, "paths": {"/feed/stream": {"get": operation}}})
    assert "<p></p>" not in page
